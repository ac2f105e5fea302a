"""Commands of RocketMQ's mqadmin, and their equivalents here.

`SAME` lists commands with options of the same meaning here; `ELSEWHERE` commands with other options, and the
replacement; `NOTHING` commands without an equivalent, for which mqadmin itself works with our servers; `NOT_BUILT`
commands of features that are not built, which fail with mqadmin too. `mqadmin` creates commands from them.

Source: apache/rocketmq tools/.../command/MQAdminStartup.java (initCommand), and each command's buildCommandlineOptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import attrs

Given = Mapping[str, str]  # options of mqadmin that were given, by their letter
ELSEWHERE: Mapping[str, str] = {
    "brokerConsumeStats": "gantrymq group progress -g GROUP says how far a group is",
    "checkMsgSendRT": "gantrymq bench produce measures it",
    "cleanBrokerMetadata": "gantrymq cluster forget removes one broker; mqadmin's own command also clears whole sets",
    "clusterRT": "gantrymq bench produce measures it",
    "consumer": "gantrymq group list shows the groups of consumers, and gantrymq group clients the consumers of one",
    "copyAcl": "gantrymq acl copy USER --from ADDR does it",
    "copyUser": "gantrymq user copy USER --from ADDR does it",
    "createAcl": "gantrymq acl create USER -r RESOURCE -a ACTIONS does it, and gantrymq acl grant for a task",
    "createUser": "gantrymq user create USER does it, and reads the secret from a prompt, a file or the environment",
    "deleteAcl": "gantrymq acl delete USER -r RESOURCE does it",
    "deleteUser": "gantrymq user delete USER does it",
    "electMaster": "gantrymq cluster promote does it, and gantrymq cluster handover a planned change",
    "exportConfigs": "gantrymq broker config get --output json has the settings",
    "exportMetadata": "gantrymq cluster export writes topics and groups, in a format of its own",
    "exportMetrics": "gantrymq cluster --output json has the figures",
    "getAcl": "gantrymq acl get USER shows the entries of one user",
    "getBrokerEpoch": "gantrymq cluster explain has the newest epoch; mqadmin's own command shows all of our brokers",
    "getConsumerConfig": "gantrymq group list --all --output json has the settings of every group",
    "getControllerConfig": "mqadmin's own command asks RocketMQ's controllers",
    "getControllerMetaData": "gantrymq cluster explain names the controller that leads",
    "getSyncStateSet": "gantrymq cluster explain shows the in-sync set, and why brokers are not in it",
    "getUser": "gantrymq user get USER shows one user",
    "haStatus": "gantrymq cluster status shows masters and slaves",
    "listAcl": "gantrymq acl list shows the entries of all users",
    "listUser": "gantrymq user list shows all users",
    "producer": "gantrymq group clients says who consumes; mqadmin's own command asks our brokers for producers",
    "queryCq": "gantrymq store dump shows queue entries, of a store that no broker has open",
    "sendMsgStatus": "gantrymq bench produce measures it",
    "statsAll": "gantrymq cluster and group progress have the figures; gantrymq-metrics serves all of them",
    "updateAcl": "gantrymq acl update USER -r RESOURCE -a ACTIONS does it",
    "updateControllerConfig": "mqadmin's own command asks RocketMQ's controllers",
    "updateTopicPerm": "gantrymq topic create -t TOPIC -p PERM changes it",
    "updateUser": "gantrymq user update USER does it, and gantrymq user rotate changes the secret",
}
NOTHING = (
    "allocateMQ",
    "consumerStatus",
    "deleteKvConfig",
    "dumpCompactionLog",
    "getColdDataFlowCtrInfo",
    "getConsumerStatus",
    "producerConnection",
    "queryMsgTraceById",
    "resetMasterFlushOffset",
    "resetOffsetByTimeOld",
    "setConsumeMode",
    "startMonitoring",
    "updateKvConfig",
    "updateOrderConf",
    "updateSubGroupList",
    "updateTopicList",
)
NOT_BUILT = (
    "addBroker",
    "checkRocksdbCqWriteProgress",
    "exportMetadataInRocksDB",
    "exportPopRecord",
    "remappingStaticTopic",
    "removeBroker",
    "removeColdDataFlowCtrGroupConfig",
    "rocksDBConfigToJson",
    "setCommitLogReadAheadMode",
    "updateColdDataFlowCtrGroupConfig",
    "updateStaticTopic",
)


def _nothing(given: Given) -> list[str]:
    return []


@attrs.frozen
class Same:
    """A command of mqadmin with an equivalent here."""

    ours: str  # words after ``gantrymq``, with fixed arguments
    options: str  # "t/topic:-t": -t and --topic become -t; "@": an argument; empty: for `rest`, or ignored
    rest: Callable[[Given], list[str]] = _nothing  # words made of the options that have no direct equivalent


def _queue(broker: str, queue: str = "i") -> Callable[[Given], list[str]]:
    """Return a broker's name and a queue's id as ``--queue``."""

    def words(given: Given) -> list[str]:
        if queue not in given:
            return []
        return ["--queue", f"{given[broker]}:{given[queue]}" if broker in given else given[queue]]

    return words


def _since(given: Given) -> list[str]:
    return ["--from-time", _time(given["b"])] if "b" in given else []


def _between(given: Given) -> list[str]:
    return [
        word for key, ours in (("b", "--begin"), ("e", "--end")) if key in given for word in (ours, _time(given[key]))
    ]


def _target(given: Given) -> list[str]:
    """Convert the target of ``resetOffsetByTime``."""
    if "o" in given:
        return ["--to", given["o"]]
    text = given.get("s", "")
    if text.lstrip("-").isdecimal() and int(text) < 1_000_000_000_000:  # here that is an offset, in mqadmin 1970
        return ["--to", "latest" if text.startswith("-") else "earliest"]
    return ["--to", "latest" if text == "now" else _time(text)] if text else []


def _pair(given: Given) -> list[str]:
    return [f"{given['k']}={given['v']}"] if {"k", "v"} <= given.keys() else []


def _attributes(given: Given) -> list[str]:
    return [word for text in given.get("a", "").split(",") if text for word in ("-a", text.strip())]


def _time(text: str) -> str:
    """Convert ``yyyy-MM-dd#HH:mm:ss:SSS`` to our form; return anything else unchanged."""
    try:
        return datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").isoformat(" ", "milliseconds")
    except ValueError:
        return text


_AT = "b/brokerAddr:-b c/clusterName:-c"
_CLEAN = "b/brokerAddr:-b c/cluster:-c"

SAME: Mapping[str, Same] = {
    "addWritePerm": Same("broker write-perm add", "b/brokerName:@"),
    "brokerStatus": Same("cluster --output json", "c/clusterName:-c"),
    "cleanExpiredCQ": Same("broker clean queues", _CLEAN),
    "cleanUnusedTopic": Same("broker clean topics", _CLEAN),
    "cloneGroupOffset": Same("group clone", "s/srcGroup:@ d/destGroup:@ t/topic:-t o/offline:"),
    "clusterList": Same("cluster", "c/clusterName:-c"),
    "consumeMessage": Same(
        "message pull",
        "t/topic:-t b/brokerName: i/queueId: o/offset:--from-offset g/consumerGroup:-g c/MessageNumber:--max",
        _queue("b"),
    ),
    "consumerConnection": Same("group clients", "g/consumerGroup:-g b/brokerAddr:-b"),
    "consumerProgress": Same("group progress", "g/groupName:-g t/topicName:-t c/cluster:-c"),
    "deleteExpiredCommitLog": Same("broker clean log", _CLEAN),
    "deleteSubGroup": Same("group delete", f"g/groupName:-g {_AT}"),
    "deleteTopic": Same("topic delete", "t/topic:-t c/clusterName:-c"),
    "getBrokerConfig": Same("broker config get", _AT),
    "getNamesrvConfig": Same("nameserver config get", ""),
    "printMsg": Same(
        "message pull --max 2147483647", "t/topic:-t s/subExpression:-e b/beginTimestamp: c/charsetName:", _since
    ),
    "printMsgByQueue": Same(
        "message pull --max 2147483647",
        "t/topic:-t a/brokerName: i/queueId: s/subExpression:-e b/beginTimestamp: c/charsetName: p/printMsg: "
        "d/printBody:",
        lambda given: _queue("a")(given) + _since(given),
    ),
    "queryMsgById": Same("message view", "i/msgId:@ t/topic:-t"),
    "queryMsgByKey": Same(
        "message query", "t/topic:-t k/msgKey:--key b/beginTimestamp: e/endTimestamp: m/maxNum:--max", _between
    ),
    "queryMsgByOffset": Same(
        "message pull --max 1", "t/topic:-t b/brokerName: i/queueId: o/offset:--from-offset", _queue("b")
    ),
    "queryMsgByUniqueKey": Same("message view", "i/msgId:@ t/topic:-t"),
    "resetOffsetByTime": Same(
        "group reset", "g/group:@ t/topic:-t s/timestamp: f/force: o/offset: q/queue:-q", _target
    ),
    "sendMessage": Same(
        "message send", "t/topic:-t p/body:--body k/key:--keys c/tags:--tags b/broker: i/qid:", _queue("b")
    ),
    "skipAccumulatedMessage": Same("group reset --to latest", "g/group:@ t/topic:-t f/force:"),
    "topicClusterList": Same("topic route", "t/topic:-t"),
    "topicList": Same("topic list --all", ""),
    "topicRoute": Same("topic route", "t/topic:-t"),
    "topicStatus": Same("topic status", "t/topic:-t"),
    "updateBrokerConfig": Same("broker config set", f"k/key: v/value: {_AT}", _pair),
    "updateNamesrvConfig": Same("nameserver config set", "k/key: v/value:", _pair),
    "updateSubGroup": Same(
        "group create",
        f"g/groupName:-g s/consumeEnable:--consume d/consumeBroadcastEnable:--broadcast "
        f"o/consumeMessageOrderly:--orderly q/retryQueueNums:-q r/retryMaxTimes:-r {_AT}",
    ),
    "updateTopic": Same(
        "topic create", f"t/topic:-t r/readQueueNums:-r w/writeQueueNums:-w p/perm:-p a/attributes: {_AT}", _attributes
    ),
    "wipeWritePerm": Same("broker write-perm wipe", "b/brokerName:@"),
}
