"""Calls of `Admin` on scripted servers: requests, decoded responses, and malformed responses."""

import re

import pytest

from gantrymq.client import Client
from gantrymq.client import admin as facade
from gantrymq.client.admin import (
    AnswerUnreadable,
    BrokerSet,
    ConnectedSlave,
    ConsumedDirectly,
    ConsumeStatus,
    ControllerMetadata,
    Counter,
    CounterWindow,
    ElectedMaster,
    Epoch,
    GroupClient,
    HaStatus,
    LostSlave,
    MasterConnection,
    ProcessQueueInfo,
    QueueEntries,
    QueueEntryInfo,
    QueueProgress,
    QueueTimes,
    RequestNotServed,
    SetMember,
)
from gantrymq.errors import BrokerRefused, ClientError, GroupNotExist, InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

A = "a:10911"
QUEUE = b'{"brokerName":"a","queueId":1,"topic":"T"}'  # a key that is an object, as fastjson writes it


@pytest.fixture
def answered(simulate, cluster):
    """``answered(code, body, call)``: the result of *call* for a response *body*, and the request sent to a:10911."""

    def run(code, body, call, *, ext=None):
        async def outer(world):
            async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.admin as admin:
                answer = Command(0, body=body, ext=ext)
                for peer in (c.ns, *c.brokers.values()):
                    peer.answers[code] = answer
                found = await call(admin)
                asked = [command for peer in (c.brokers["a"], c.ns) for command in peer.of(code)]
                return found, asked[0]

        return simulate(outer)

    return run


def test_what_a_member_does_is_read(answered):
    body = (
        b'{"jstack":"TID 1","mqPopTable":{},"mqTable":{' + QUEUE + b':{"cachedMsgCount":3,"cachedMsgMaxOffset":9,'
        b'"cachedMsgMinOffset":7,"cachedMsgSizeInMiB":1,"commitOffset":7,"droped":true,"lastConsumeTimestamp":30,'
        b'"lastLockTimestamp":10,"lastPullTimestamp":20,"locked":true}},"properties":{"b":"2","a":"1"},'
        b'"statusTable":{"T":{"consumeFailedMsgs":4,"consumeFailedTPS":0.5,"consumeOKTPS":2.5,"consumeRT":1.25,'
        b'"pullRT":3.0,"pullTPS":2.0}},"subscriptionSet":[{"topic":"T","subString":"TagA","subVersion":5}]}'
    )
    info, asked = answered(307, body, lambda admin: admin.running_info(A, "G", "c@1", stacks=True))
    assert asked.ext == {"consumerGroup": "G", "clientId": "c@1", "jstackEnable": "true"}
    assert info.queues == {MessageQueue("T", "a", 1): ProcessQueueInfo(7, 7, 9, 3, 1, True, True, 10, 20, 30)}
    assert list(info.properties.items()) == [("a", "1"), ("b", "2")]
    assert info.figures == {"T": ConsumeStatus(3.0, 2.0, 1.25, 2.5, 0.5, 4)}
    assert info.subscriptions == (Subscription("T", "TagA", version=5, group="G"),)
    assert info.stacks == "TID 1"


@pytest.mark.parametrize(("result", "succeeded"), [("CR_SUCCESS", True), ("CR_COMMIT", True), ("CR_LATER", False)])
def test_a_message_given_to_one_member(answered, result, succeeded):
    body = b'{"consumeResult":"%s","order":true,"remark":null,"spentTimeMills":12}' % result.encode()
    found, asked = answered(309, body, lambda admin: admin.consume_directly(A, "G", "c@1", "0A" * 16))
    assert asked.ext == {"consumerGroup": "G", "clientId": "c@1", "msgId": "0A" * 16}
    assert (found, found.succeeded) == (ConsumedDirectly(result, "", 12, True), succeeded)


def test_producers_as_java_prints_their_addresses(answered):
    member = b'{"clientId":"%s","language":"JAVA","lastUpdateTimestamp":1,"remoteIP":"/10.0.0.1:5","version":401}'
    body = b'{"data":{"P2":[%s],"P1":[%s,%s]}}' % (member % b"c", member % b"b", member % b"a")
    found, _ = answered(328, body, lambda admin: admin.producers(A))
    assert [(group, [each.client_id for each in who]) for group, who in found.items()] == [
        ("P1", ["a", "b"]),
        ("P2", ["c"]),
    ]
    assert found["P2"] == (GroupClient("c", "10.0.0.1:5", "JAVA", 401),)


def test_progress_of_every_group(answered):
    stats = b'{"consumeTps":0.0,"offsetTable":{' + QUEUE + b':{"brokerOffset":9,"consumerOffset":4}}}'
    body = b'{"brokerAddr":"a:1","consumeStatsList":[{"G2":[%s]},{"G1":[]},{"G2":[]}],"totalDiff":5}' % stats
    found, asked = answered(317, body, lambda admin: admin.broker_progress(A))
    assert found == {"G2": {MessageQueue("T", "a", 1): QueueProgress(9, 4, 4, 0)}}
    assert asked.ext == {"isOrder": "false"}


@pytest.mark.parametrize(("behind", "lag"), [("2", 2), ("null", None)])
def test_the_lag_is_that_of_the_broker_if_it_reports_one(answered, behind, lag):
    stats = b'{"behind":%s,"brokerOffset":9,"consumerOffset":4,"deletedUnread":3}' % behind.encode()
    found, _ = answered(
        208, b'{"offsetTable":{' + QUEUE + b":" + stats + b"}}", lambda admin: admin.group_progress(A, "G")
    )
    assert [(each.lag, each.deleted) for each in found.values()] == [(lag, 3)]


def test_times_of_a_group(answered):
    body = (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":20,"delayTime":-3,"maxTimeStamp":30,"minTimeStamp":10,'
        b'"messageQueue":{"brokerName":"a","queueId":1}}]}'
    )
    found, _ = answered(303, body, lambda admin: admin.group_times(A, "G", "T"))
    assert found == {MessageQueue("T", "a", 1): QueueTimes(10, 30, 20, 0)}
    body = body.replace(b"-3", b"1795892985001")  # RocketMQ: now minus the -1 of a message that is gone
    found, _ = answered(303, body, lambda admin: admin.group_times(A, "G", "T"))
    assert [each.late_ms for each in found.values()] == [None]


def test_a_counter_and_entries_of_a_queue(answered):
    window = b'{"avgpt":2.0,"sum":4,"tps":0.5}'
    body = b'{"statsDay":%s,"statsHour":%s,"statsMinute":null}' % (window, window)
    found, _ = answered(315, body, lambda admin: admin.counter(A, "TOPIC_PUT_NUMS", "T"))
    assert found == Counter(CounterWindow(0.0, 0.0, 0.0), *[CounterWindow(4.0, 0.5, 2.0)] * 2)
    body = b'{"maxQueueIndex":9,"minQueueIndex":3,"queueData":[{"physicOffset":7,"physicSize":5,"tagsCode":-1}]}'
    found, asked = answered(321, body, lambda admin: admin.queue_entries(A, "T", 1, 3, 10))
    assert found == QueueEntries(3, 9, (QueueEntryInfo(7, 5, -1),))
    assert (asked.ext["index"], asked.ext["count"]) == ("3", "10")


def test_a_value_is_put_at_every_name_server_and_write_permission_counted_at_each(simulate, cluster):
    async def outer(world):
        async with cluster(world) as c, Client(f"{c.namesrv};a:10911", world=world) as client, client.admin as admin:
            for peer in (c.ns, c.brokers["a"]):
                peer.answers[RequestCode.PUT_KV_CONFIG] = Command(0)
                peer.answers[RequestCode.WIPE_WRITE_PERM_OF_BROKER] = Command(0, ext={"wipeTopicCount": "7"})
            await admin.put_kv_value("N", "k", "v")
            assert [peer.of(100)[0].ext["value"] for peer in (c.ns, c.brokers["a"])] == ["v", "v"]
            assert await admin.wipe_write_permission("b") == {c.namesrv: 7, "a:10911": 7}

    simulate(outer)


# Recorded from brokers 5.3.3 with a controller; the second list has the epochs of two masters.
OF_MASTER = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":0,"lastWriteTimestamp":0,"masterFlushOffset":0,"maxOffset":0,'
    b'"transferredByteInSecond":0},"haConnectionInfo":[{"addr":"127.0.0.1:43012","diff":2480,"inSync":true,'
    b'"slaveAckOffset":17342,"transferFromWhere":17342,"transferredByteInSecond":5378}],"inSyncSlaveNums":1,'
    b'"master":true,"masterCommitLogMaxOffset":19822}'
)
OF_SLAVE = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":1795624274621,"lastWriteTimestamp":1795624274622,"masterAddr":'
    b'"127.0.0.2:21912","masterFlushOffset":0,"maxOffset":17342,"transferredByteInSecond":5378},"haConnectionInfo":[],'
    b'"inSyncSlaveNums":0,"master":false,"masterCommitLogMaxOffset":0}'
)
EPOCHS = (
    b'{"brokerId":0,"brokerName":"broker-a","clusterName":"DefaultCluster","epochList":[{"endOffset":1540,"epoch":1,'
    b'"startOffset":0},{"endOffset":9223372036854775807,"epoch":2,"startOffset":1540}],"maxOffset":2160}'
)


def test_the_replication_of_a_master_is_read(answered):
    found, _ = answered(907, OF_MASTER, lambda admin: admin.ha_status(A))
    slave = ConnectedSlave(
        address="127.0.0.1:43012",
        acked_offset=17342,
        lag_bytes=2480,
        in_sync=True,
        next_offset=17342,
        bytes_per_s=5378,
        late_ms=None,
    )
    assert found == HaStatus(
        master=True,
        max_offset=19822,
        in_sync_slaves=1,
        slaves=(slave,),
        lost_slaves=(),
        wanted_copies=None,
        connection=None,
    )
    ours = OF_MASTER.replace(b'"inSync":true', b'"inSync":true,"lateMillis":70')
    own = b'"haDepartures":[{"host":"b","timestamp":5,"problem":"p","reported":true}],"wantedCopies":2,'
    ours = ours.replace(b'"master":', own + b'"master":')
    found, _ = answered(907, ours, lambda admin: admin.ha_status(A))
    assert (found.slaves[0].late_ms, found.wanted_copies) == (70, 2)
    assert found.lost_slaves == (LostSlave(host="b", at_ms=5, problem="p", reported=True),)


def test_the_replication_of_a_slave_is_read(answered):
    found, _ = answered(907, OF_SLAVE, lambda admin: admin.ha_status(A))
    assert (found.master, found.max_offset, found.slaves) == (False, 0, ())
    java = MasterConnection(
        master_address="127.0.0.2:21912",
        max_offset=17342,
        bytes_per_s=5378,
        read_at_ms=1795624274621,
        wrote_at_ms=1795624274622,
        local_address=None,
        problem=None,
    )
    assert found.connection == java
    ours = OF_SLAVE.replace(b'"masterAddr"', b'"localAddr":"","problem":"refused","masterAddr"')
    found, _ = answered(907, ours, lambda admin: admin.ha_status(A))
    assert (found.connection.local_address, found.connection.problem) == ("", "refused")


def test_the_epochs_of_a_broker_are_read(answered):
    found, _ = answered(1007, EPOCHS, lambda admin: admin.epochs(A))
    assert (found.cluster, found.broker, found.broker_id, found.max_offset) == ("DefaultCluster", "broker-a", 0, 2160)
    assert found.epochs == (Epoch(1, 0, 1540), Epoch(2, 1540, None))


SETS = (  # of a controller 5.3.3
    b'{"replicasInfoTable":{"broker-a":{"inSyncReplicas":[{"alive":true,"brokerAddress":"127.0.0.2:20911","brokerId":1,'
    b'"brokerName":"broker-a"}],"masterAddress":"127.0.0.2:20911","masterBrokerId":1,"masterEpoch":1,'
    b'"notInSyncReplicas":[],"syncStateSetEpoch":2}}}'
)


def test_what_a_controller_tells_is_read(answered):
    leads = {"group": "group1", "controllerLeaderId": "n0", "controllerLeaderAddress": "b:1", "isLeader": "true"}
    found, _ = answered(1005, None, lambda admin: admin.controller_metadata(A), ext={**leads, "peers": "n0:b:1;n1:c:1"})
    assert found == ControllerMetadata("group1", "n0", "b:1", True, ("n0:b:1", "n1:c:1"))
    found, _ = answered(1005, None, lambda admin: admin.controller_metadata(A), ext={"isLeader": "false"})
    assert (found.leader, found.leads, found.peers) == (None, False, ())

    found, asked = answered(1006, SETS, lambda admin: admin.broker_sets(A, ["broker-a", "broker-b"]))
    assert bytes(asked.payload) == b'["broker-a", "broker-b"]'
    one = SetMember(1, "127.0.0.2:20911", True)
    expected = BrokerSet(
        broker="broker-a",
        master=1,
        master_address="127.0.0.2:20911",
        epoch=1,
        in_sync_epoch=2,
        in_sync=(one,),
        others=(),
    )
    assert (found, found["broker-a"].members) == ({"broker-a": expected}, (one,))


def test_a_controller_is_asked_to_elect_and_to_forget(answered):
    master = {"masterBrokerId": "2", "masterAddress": "b:1", "masterEpoch": "4"}
    found, asked = answered(1002, None, lambda admin: admin.elect_master(A, "C", "broker-a", 2), ext=master)
    assert found == ElectedMaster(2, "b:1", 4)
    del asked.ext["invokeTime"]
    assert asked.ext == {"clusterName": "C", "brokerName": "broker-a", "brokerId": "2", "designateElect": "true"}
    _, asked = answered(1011, None, lambda admin: admin.clean_broker_metadata(A, "C", "broker-a", [1, 2]))
    del asked.ext["invokeTime"]
    ids = {"brokerControllerIdsToClean": "1;2", "isCleanLivingBroker": "false"}
    assert asked.ext == {"clusterName": "C", "brokerName": "broker-a", **ids}
    _, asked = answered(1009, None, lambda admin: admin.change_controller_settings(A, {"a": "b"}))
    assert bytes(asked.payload) == b"a=b\n"
    assert answered(1010, b"x=1\na=b\n", lambda admin: admin.controller_settings(A))[0] == {"a": "b", "x": "1"}


def test_the_election_that_a_broker_tells_is_read(answered):
    own = b'"election":{"ownId":2,"epoch":3,"master":1,"syncStateSet":[1,2],"confirmed":9,"problem":"p"},"master":'
    found, _ = answered(907, OF_SLAVE.replace(b'"master":', own), lambda admin: admin.ha_status(A))
    assert (found.election.own_id, found.election.epoch, found.election.master) == (2, 3, 1)
    assert (found.election.in_sync, found.election.confirmed, found.election.problem) == ((1, 2), 9, "p")
    assert (found.election.known_since_ms, found.election.least_copies) == (0, 1)  # of an older broker


def test_a_place_that_a_queue_does_not_have_is_not_committed(answered):
    def commit(queue_offset):
        return lambda admin: admin.commit_offset("G", MessageQueue("T", "a", 1), queue_offset)

    for queue_offset in (-1, 6):
        with pytest.raises(InvalidParameter, match=f"offset {queue_offset} cannot be committed: T, a, queue 1"):
            answered(RequestCode.GET_MAX_OFFSET, None, commit(queue_offset), ext={"offset": "5"})


def test_an_older_broker_is_asked_for_all_groups(simulate, cluster):
    async def outer(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.admin as admin:
            c.brokers["a"].answers[201] = Command(0, body=b'{"subscriptionGroupTable":{"G":{"retryMaxTimes":3}}}')
            assert (await admin.group_config(A, "G")).retry_max_times == 3
            with pytest.raises(GroupNotExist, match="broker a:10911 knows no group H"):
                await admin.group_config(A, "H")

    simulate(outer)


NOT_SERVED = [
    (lambda admin: admin.topic_config(A, "T"), "GET_TOPIC_CONFIG (351): RocketMQ 4.9 does not, 5.x does"),
    (lambda admin: admin.runtime_info(A), "GET_BROKER_RUNTIME_INFO (28): it is too old, or lacks a plugin"),
    (lambda admin: admin.request(A, 65999), "request 65999: it is too old, or lacks a plugin"),
]


@pytest.mark.parametrize(("call", "says"), NOT_SERVED, ids=["older", "other", "without a name"])
def test_a_request_that_a_server_does_not_know_is_a_sentence(simulate, cluster, call, says):
    async def outer(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.admin as admin:
            with pytest.raises(RequestNotServed, match=f"^{re.escape(f'{A} does not serve {says}')}$") as raised:
                await call(admin)
            assert isinstance(raised.value, BrokerRefused)
            assert (raised.value.response_code, raised.value.remark) == (3, "not supported")

    simulate(outer)


BAD = [
    (201, lambda admin: admin.groups(A), b'{"subscriptionGroupTable":{"G":7}}'),
    (203, lambda admin: admin.consumer_connections(A, "G"), b'{"connectionSet":[{"version":"new"}]}'),
    (204, lambda admin: admin.producer_connections(A, "G"), b'{"connectionSet":[7]}'),
    (328, lambda admin: admin.producers(A), b'{"data":[7]}'),
    (307, lambda admin: admin.running_info(A, "G", "c"), b'{"mqTable":{"text":{}}}'),
    (309, lambda admin: admin.consume_directly(A, "G", "c", "0A" * 16), b"{}"),
    (202, lambda admin: admin.topic_stats(A, "T"), b'{"offsetTable":{{"topic":"T"}:{}}}'),
    (208, lambda admin: admin.group_progress(A, "G"), b'{"offsetTable":{' + QUEUE + b':{"brokerOffset":"x"}}}'),
    (303, lambda admin: admin.group_times(A, "G", "T"), b'{"consumeTimeSpanSet":[{}]}'),
    (315, lambda admin: admin.counter(A, "N", "K"), b'{"statsDay":{"sum":"many"}}'),
    (321, lambda admin: admin.queue_entries(A, "T", 0, 0, 1), b"{}"),
    (345, lambda admin: admin.subscription(A, "G", "T"), b'{"subscriptionData":[]}'),
    (351, lambda admin: admin.topic_config(A, "T"), b'{"perm":-1}'),
    (21, lambda admin: admin.topic_configs(A), b'{"topicConfigTable":{"T":[]}}'),
    (219, lambda admin: admin.kv_values("N"), b'{"table":[7]}'),
    (28, lambda admin: admin.runtime_info(A), b"[]"),
    (907, lambda admin: admin.ha_status(A), b'{"master":true,"haConnectionInfo":[{"diff":0}]}'),
    (907, lambda admin: admin.ha_status(A), b'{"master":true,"election":{"epoch":1}}'),
    (1006, lambda admin: admin.broker_sets(A, ["b"]), b'{"replicasInfoTable":{"b":{}}}'),
    (1007, lambda admin: admin.epochs(A), b"{}"),
]


@pytest.mark.parametrize(("code", "call", "body"), BAD, ids=[f"{number}-{row[0]}" for number, row in enumerate(BAD)])
def test_an_answer_that_is_none_is_an_error_of_the_client(answered, code, call, body):
    for each in (body, b"{", b"7"):
        with pytest.raises(AnswerUnreadable) as raised:
            answered(code, each, call)
        assert isinstance(raised.value, ClientError)


def test_no_error_of_the_facade_names_an_option_of_our_shell():
    import inspect
    from pathlib import Path

    for path in Path(inspect.getfile(facade)).parent.glob("*.py"):
        said = re.findall(r'"[^"\n]*"', path.read_text())
        assert not [text for text in said if re.search(r"(^|\W)-[a-z]\b|gantrymq [a-z]+ ", text)], path


def test_what_calls_return_is_frozen():
    classes = [each for each in vars(facade).values() if isinstance(each, type) and hasattr(each, "__attrs_attrs__")]
    assert len(classes) > 10
    for each in classes:
        assert each.__setattr__ is not object.__setattr__, each


@pytest.mark.parametrize("rows", [3, 3000])
def test_a_long_answer_is_read_and_parsed_in_a_thread(answered, monkeypatch, rows):
    row = '{{"brokerName":"a","queueId":{},"topic":"T"}}:{{"brokerOffset":9,"consumerOffset":7,"pullOffset":8}}'
    table = ",".join(row.format(number) for number in reversed(range(rows)))
    body = f'{{"consumeTps":0.0,"offsetTable":{{{table}}}}}'.encode()
    in_threads = []

    async def call(admin):
        workers = admin._started().world.workers
        run = workers.run

        async def counted(work, *args):
            in_threads.append(await run(work, *args))
            return in_threads[-1]

        monkeypatch.setattr(workers, "run", counted)
        return await admin.group_progress(A, "G")

    found, _ = answered(208, body, call)
    assert found == {MessageQueue("T", "a", number): QueueProgress(9, 7, 8, 0) for number in range(rows)}
    assert list(found) == sorted(found)
    assert in_threads == ([found] if rows == 3000 else [])
