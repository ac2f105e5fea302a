"""Pops and acknowledgements that cannot be served."""

import pytest

pytest.importorskip("gantrymq_pop")

from gantrymq.loose_json import dumps

POP, ACK, PEEK, CHANGE, BATCH = 200050, 200051, 200052, 200053, 200151
HANDLE = "0 1700000000000 1000 0 0 broker-a 0 0"


@pytest.fixture
def broker(broker_with):
    """A broker with pop, whose topic T has 4 queues and a message in the first."""
    running = broker_with(plugins="filter_tag,storage_mmap,pop", brokerName="broker-a")
    with running.peer() as peer:
        assert peer.send("T", e=0).code == 0
    return running


@pytest.fixture
def refuses(broker, row):
    """Send the usual fields with changes; compare code and sentence with the row."""

    def check(code, fields, body=None, /, **values):
        usual = {"topic": "T", "consumerGroup": "CG", "queueId": 0, "offset": 0, "extraInfo": HANDLE}
        usual |= {"maxMsgNums": 1, "invisibleTime": 1000, "pollTime": 0, "bornTime": 0, "initMode": 0}
        with broker.peer() as peer:
            answer = peer.ask(code, {**usual, **fields}, body)
            row.check(answer.remark, answer.code, **values)

    return check


@pytest.mark.parametrize("handle", ["", "x", "1 2 3", "a b c d 0 broker-a 0 0", "0 1 1 0 0 broker-a x"])
def test_bi184_a_receipt_handle_that_is_none(refuses, handle):
    refuses(ACK, {"extraInfo": handle}, handle=repr(handle))
    refuses(CHANGE, {"extraInfo": handle}, handle=repr(handle))


@pytest.mark.parametrize("queue", [8, -1, 998])
def test_bi185_an_unknown_revive_queue(refuses, queue):
    handle = f"0 1700000000000 1000 {queue} 0 broker-a 0 0"
    refuses(ACK, {"extraInfo": handle}, handle=repr(handle), queue=queue)


def test_bi186_a_receipt_handle_of_another_broker(refuses):
    handle = HANDLE.replace("broker-a", "broker-b")
    refuses(ACK, {"extraInfo": handle}, handle=repr(handle), broker="broker-b", own="broker-a")


@pytest.mark.parametrize("offset", [-1, 2, 2**62])
def test_bi187_an_offset_that_no_message_has(refuses, offset):
    refuses(ACK, {"offset": offset}, offset=offset, topic="T", queue=0, first=0, last=0)
    refuses(CHANGE, {"offset": offset}, offset=offset, topic="T", queue=0, first=0, last=0)


@pytest.mark.parametrize("time", [-1, 259_200_001, 2**63 - 1])
def test_bi188_an_invisible_time_out_of_range(refuses, time):
    refuses(POP, {"invisibleTime": time}, time=time)
    refuses(CHANGE, {"invisibleTime": time}, time=time)


def test_bi189_a_pop_of_a_group_that_consumes_by_broadcasting(broker, row):
    group = {"groupName": "CG", "consumeType": "CONSUME_PASSIVELY", "messageModel": "BROADCASTING"}
    group |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [], "unitMode": False}
    fields = {"topic": "T", "consumerGroup": "CG", "queueId": -1, "maxMsgNums": 1, "invisibleTime": 1000}
    fields |= {"pollTime": 0, "bornTime": 0, "initMode": 0}
    with broker.peer() as peer:
        assert peer.ask(34, None, dumps({"clientID": "c", "consumerDataSet": [group]})).code == 0
        answer = peer.ask(POP, fields)
        row.check(answer.remark, answer.code, group="CG")


@pytest.mark.parametrize("count", [33, 0, -5])
def test_bi190_a_pop_of_too_many_messages(refuses, count):
    refuses(POP, {"maxMsgNums": count}, count=count)
    refuses(PEEK, {"maxMsgNums": count}, count=count)


def test_bi191_a_pop_from_a_queue_that_the_topic_does_not_have(refuses):
    refuses(POP, {"queueId": 4}, queue=4, topic="T", count=4, wanted=5)


@pytest.mark.parametrize("body", [None, b"{}", b'{"brokerName":"broker-a","acks":[]}'])
def test_bi192_an_empty_batch_of_acknowledgements(refuses, body):
    refuses(BATCH, {}, body)


def test_bi193_an_unknown_mode(broker, row):
    with broker.peer() as peer:
        assert peer.pull("T").code in (0, 19)
        body = dumps({"topic": "T", "consumerGroup": "CG", "mode": "PUSH", "popShareQueueNum": 0})
        answer = peer.ask(401, None, body)
        row.check(answer.remark, answer.code, mode="'PUSH'")
