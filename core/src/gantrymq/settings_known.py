"""What RocketMQ itself knows of settings: its defaults, and which of its keys mean something that is not built here.

An operator's file works as it is: a key that RocketMQ has and GantryMQ has no use for is taken and named once; a key
that would switch on a part that is not built stops the start. A key that core or a plugin declares is theirs, and
nothing here applies to it but the default to compare with.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java,
common/.../namesrv/NamesrvConfig.java, remoting/.../netty/NettyServerConfig.java, auth/.../config/AuthConfig.java,
proxy/.../config/ProxyConfig.java.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import to_install

Test = Callable[[str], bool]


def _read(table: str) -> dict[str, str]:
    """``key=default`` words; nothing behind the mark stands for a default that depends on the machine."""
    return dict(word.split("=", 1) for word in table.split())


BROKER_DEFAULTS = _read(
    """
    accessMessageInMemoryMaxRatio=40 aclEnable=false adminBrokerThreadPoolNums=16 allAckInSyncStateSet=false
    asyncSendEnable=true autoCreateSubscriptionGroup=true autoCreateTopicEnable=true autoMessageVersionOnTopicLen=true
    bindAddress=0.0.0.0 bitMapLengthConsumeQueueExt=64 brokerClusterName=DefaultCluster
    brokerElectionPriority=2147483647 brokerFastFailureEnable=true brokerHeartbeatInterval=1000 brokerId=0 brokerIP1=
    brokerIP2= brokerName= brokerNotActiveTimeoutMillis=10000 brokerPermission=6 brokerRole=ASYNC_MASTER
    brokerTopicEnable=true channelExpiredTimeout=120000 checkCRCOnRecover=true checkSyncStateSetPeriod=5000
    cleanFileForciblyEnable=true cleanResourceInterval=10000 clusterTopicEnable=true commitCommitLogLeastPages=4
    commitCommitLogThoroughInterval=200 commitIntervalCommitLog=200 compactionCqMappedFileSize=10485760
    compactionMappedFileSize=104857600 compatibleWithOldNameSrv=true compressedRegister=false
    configBlackList=configBlackList;brokerConfigPath consumerFallbehindThreshold=17179869184
    consumerOffsetUpdateVersionStep=500 controllerAddr= controllerHeartBeatTimeoutMills=10000 debugLockEnable=false
    defaultMessageRequestMode=PULL defaultQueryMaxNum=32 defaultTopicQueueNums=8 deleteCommitLogFilesInterval=100
    deleteConsumeQueueFilesInterval=100 deleteFileBatchMax=10 deleteWhen=04 destroyMapedFileIntervalForcibly=120000
    disableConsumeIfConsumerReadSlowly=false diskMaxUsedSpaceRatio=75 diskSpaceCleanForciblyRatio=85
    diskSpaceWarningLevelRatio=90 duplicationEnable=false enableAutoInSyncReplicas=false
    enableBroadcastOffsetStore=true enableCalcFilterBitMap=false enableCompaction=true enableConsumeQueueExt=false
    enableControllerMode=false enableCreateSysGroup=true enabledAppendPropCRC=false enableLmq=false
    enableMultiDispatch=false enableNetWorkFlowControl=false enablePopBatchAck=false enablePopBufferMerge=false
    enablePropertyFilter=false enableRemoteEscape=false enableRetryTopicV2=false enableRunningFlagsInFlush=false
    enableScheduleAsyncDeliver=false enableSkipLongAwaitingAck=false enableSlaveActingMaster=false
    enableSplitRegistration=false endTransactionThreadPoolNums= expectConsumerNumUseFilter=32
    fastFailIfNoBufferInStorePool=false fetchNamesrvAddrByAddressServer=false fetchNameSrvAddrByDnsLookup=false
    fileReservedTime=72 filterDataCleanTimeSpan=86400000 filterSupportRetry=false flushCommitLogLeastPages=4
    flushCommitLogThoroughInterval=10000 flushCommitLogTimed=true flushConsumeQueueLeastPages=2
    flushConsumeQueueThoroughInterval=60000 flushConsumerOffsetInterval=5000 flushDelayOffsetInterval=10000
    flushDiskType=ASYNC_FLUSH flushIntervalCommitLog=500 flushIntervalConsumeQueue=1000
    flushLeastPagesWhenWarmMapedFile=4096 forceRegister=true forceVerifyPropCRC=false haHousekeepingInterval=20000
    haListenPort= haMasterAddress= haMaxGapNotInSync=268435456 haMaxTimeSlaveNotCatchup=15000
    haSendHeartbeatInterval=5000 haTransferBatchSize=32768 heartbeatThreadPoolNums= inSyncReplicas=1 listenPort=10911
    litePullMessageEnable=true lockInStrictMode=false longPollingEnable=true mappedFileSizeCommitLog=1073741824
    mappedFileSizeConsumeQueue=6000000 mappedFileSizeConsumeQueueExt=50331648 mappedFileSizeTimerLog=104857600
    mapperFileSizeBatchConsumeQueue=13800000 maxErrorRateOfBloomFilter=20 maxFilterMessageSize=16000
    maxHashSlotNum=5000000 maxIndexNum=20000000 maxLmqConsumeQueueNum=20000 maxMessageSize=4194304 maxMsgsNumBatch=64
    maxPopPollingSize=100000 maxRecoveryCommitlogFiles=30 maxTopicLength=127 maxTransferBytesOnMessageInDisk=65536
    maxTransferBytesOnMessageInMemory=262144 maxTransferCountOnMessageInDisk=8 maxTransferCountOnMessageInMemory=32
    messageDelayLevel= messageIndexEnable=true messageIndexSafe=false metricsExporterType=DISABLE
    metricsPromExporterPort=5557 minInSyncReplicas=1 msgTraceTopicName=RMQ_SYS_TRACE_TOPIC namesrvAddr=
    notifyConsumerIdsChangedEnable=true offsetCheckInSlave=false osPageCacheBusyTimeOutMills=1000
    popConsumerKVServiceEnable=false popFromRetryProbability=20 popPollingMapSize=100000 pullMessageThreadPoolNums=
    pullThreadPoolQueueCapacity=100000 putConsumeQueueDataByFileChannel=true putMessageTimeout=8000
    queryMessageThreadPoolNums= readUnCommitted=false redeleteHangedFileInterval=120000 regionId=DefaultRegion
    registerBrokerTimeoutMills=24000 registerNameServerPeriod=30000 rejectPullConsumerEnable=false
    rejectTransactionMessage=false replicasPerDiskPartition=1 retrieveMessageFromPopRetryTopicV1=true
    recallMessageEnable=false reviveAckWaitMs=180000 reviveInterval=1000
    reviveMaxSlow=3 reviveQueueNum=8 reviveScanTime=10000 rocketmqHome=
    sendMessageThreadPoolNums= sendThreadPoolQueueCapacity=10000 serverAsyncSemaphoreValue=64
    serverCallbackExecutorThreads=0 serverChannelMaxIdleTimeSeconds=120 serverLoadBalancerEnable=true
    serverOnewaySemaphoreValue=256 serverPooledByteBufAllocatorEnable=true serverSelectorThreads=3
    serverSocketBacklog=1024 serverWorkerThreads=8 shortPollingTimeMills=1000 skipPreOnline=false
    slaveReadEnable=false slaveTimeout=3000 spinLockCollisionRetreatOptimalDegree=1000 splitRegistrationSize=800
    startAcceptSendRequestTimeStamp=0 storePathCommitLog= storePathRootDir= storeReplyMessageEnable=true
    storeType=default subscriptionExpiredTimeout=600000 syncBrokerMetadataPeriod=5000 syncFlushTimeout=5000
    syncFromLastFile=false timerCongestNumEachSlot=2147483647 timerEnableRetryUntilSuccess=false
    timerFlushIntervalMs=1000 timerMaxDelaySec=259200 timerPrecisionMs=1000 timerRollWindowSlot=172800
    timerSkipUnknownError=false timerWheelEnable=true topicQueueLockNum=32 totalReplicas=1 traceOn=true
    traceTopicEnable=false transactionCheckMax=15 transactionMetricFlushInterval=10000
    transactionOpBatchInterval=3000 transactionOpMsgMaxSize=4096 transactionTimeOut=6000 transferMsgByHeap=true
    transientStorePoolEnable=false transientStorePoolSize=5 travelCqFileNumWhenGetMessage=1
    updateNameServerAddrPeriod=120000 useABSLock=false useEpollNativeSelector=false
    useReentrantLockWhenPutMessage=true useServerSideResetOffset=true waitTimeMillsInAckQueue=3000
    waitTimeMillsInAdminBrokerQueue=5000 waitTimeMillsInHeartbeatQueue=31000 waitTimeMillsInLitePullQueue=5000
    waitTimeMillsInPullQueue=5000 waitTimeMillsInSendQueue=200 waitTimeMillsInTransactionQueue=3000
    warmMapedFileEnable=false writeWithoutMmap=false
    """
)

NAME_SERVER_DEFAULTS = _read(
    """
    clientRequestThreadPoolNums=8 clusterTest=false configStorePath= defaultThreadPoolNums=16
    deleteTopicWithBrokerRegistration=false enableAllTopicList=true enableControllerInNamesrv=false
    enableTopicList=true kvConfigPath= listenPort=9876 needWaitForService=false notifyMinBrokerIdChanged=false
    orderMessageEnable=false returnOrderTopicConfigToBroker=true scanNotActiveBrokerInterval=5000
    supportActingMaster=false waitSecondsForService=45
    """
)


def _true(text: str) -> bool:
    return text.lower() == "true"


def _any(text: str) -> bool:
    return text != ""


def _several(text: str) -> bool:
    return text != "1"


def _other_than(*allowed: str) -> Test:
    return lambda text: text not in allowed


_REPLICATION = "replication is not built in this version; a broker here is the only one of its name"
_CONTROLLER = "the controller is not built in this version"
_ACCESS = "access control is not built in this version; keep the ports inside a network you trust"
_TLS = "TLS is set with tls.server.mode and the other tls.server settings, see docs/tls.md"
_POP = "pop consumption needs a plugin that is not installed; install it with: " + to_install("gantrymq-pop")

_STORE = "need a store plugin that has them; install one with: " + to_install("gantrymq-storage-mmap")
_METRICS = "metrics need a plugin that is not installed; install it with: " + to_install("gantrymq-metrics")

NOT_BUILT: dict[str, tuple[Test, str]] = {
    "brokerRole": (_other_than("ASYNC_MASTER"), _REPLICATION),
    "brokerId": (_other_than("0"), _REPLICATION),
    "haMasterAddress": (_any, _REPLICATION),
    "totalReplicas": (_several, _REPLICATION),
    "inSyncReplicas": (_several, _REPLICATION),
    "minInSyncReplicas": (_several, _REPLICATION),
    "allAckInSyncStateSet": (_true, _REPLICATION),
    "enableAutoInSyncReplicas": (_true, _REPLICATION),
    "slaveReadEnable": (_true, _REPLICATION),
    "enableSlaveActingMaster": (_true, _REPLICATION),
    "enableRemoteEscape": (_true, _REPLICATION),
    "duplicationEnable": (_true, _REPLICATION),
    "enableDLegerCommitLog": (_true, "DLedger is not built in this version; use the plain commit log"),
    "enableControllerMode": (_true, _CONTROLLER),
    "enableControllerInNamesrv": (_true, _CONTROLLER),
    "controllerAddr": (_any, _CONTROLLER),
    "storeType": (_other_than("default"), "the RocksDB store is not built in this version; use storeType=default"),
    "rocksdbCQDoubleWriteEnable": (_true, "the RocksDB store is not built in this version"),
    "aclEnable": (_true, _ACCESS),
    "authenticationEnabled": (_true, _ACCESS),
    "authorizationEnabled": (_true, _ACCESS),
    "tlsEnable": (_true, _TLS),
    "tlsMode": (_other_than("disabled"), _TLS),
    "enableProxy": (_true, "the gRPC proxy is not built in this version; clients use the remoting protocol"),
    "enableBrokerContainer": (_true, "a container of several brokers is not built; start one process for each broker"),
    "fetchNamesrvAddrByAddressServer": (_true, "an address server is not asked; set namesrvAddr"),
    "fetchNameSrvAddrByDnsLookup": (_true, "DNS is not asked for name servers; set namesrvAddr"),
    "enableLmq": (_true, f"light queues {_STORE}"),
    "enableMultiDispatch": (_true, f"light queues {_STORE}"),
    "enableConsumeQueueExt": (_true, f"ext files {_STORE}"),
    "enabledAppendPropCRC": (_true, "the check sum property is not built in this version"),
    "forceVerifyPropCRC": (_true, "the check sum property is not built in this version"),
    "readUnCommitted": (_true, "messages are never shown before they are confirmed"),
    "defaultMessageRequestMode": (_other_than("PULL"), _POP),
    "popConsumerKVServiceEnable": (_true, _POP),
    "metricsExporterType": (_other_than("DISABLE", "0"), _METRICS),
    "clusterTest": (_true, "cluster test mode is not built"),
}


def refusal(key: str, text: str) -> str | None:
    """Why *key* must not have this value, or None when nothing speaks against it."""
    test, sentence = NOT_BUILT.get(key, (None, ""))
    return sentence if test is not None and test(text.strip()) else None


def is_rocketmq_key(key: str) -> bool:
    """Whether RocketMQ's broker or name server has such a key."""
    return key in BROKER_DEFAULTS or key in NAME_SERVER_DEFAULTS or key in NOT_BUILT
