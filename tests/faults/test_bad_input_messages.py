"""Messages that cannot be stored, and topics that cannot be created."""

import json

import pytest

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.remoting.codes import RequestCode

MIB = 1024 * 1024
HEAD = {"a": "PG", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0}


@pytest.fixture
def refuses(broker, row):
    """Send to the broker; compare code and sentence with the row."""

    def check(topic, body=b"x", properties="", /, letters=(), **values):
        with broker.peer() as peer:
            answer = peer.send(topic, body, properties, **dict(letters))
            row.check(answer.remark, answer.code, **values)
            return peer.name

    return check


@pytest.fixture
def refuses_batch(broker, row):
    def check(topic, body, /, **values):
        with broker.peer() as peer:
            answer = peer.ask(RequestCode.SEND_BATCH_MESSAGE, {**HEAD, "b": topic, "m": "true"}, body)
            row.check(answer.remark, answer.code, **values)

    return check


@pytest.mark.parametrize("topic", ["a/b", "..", "../../etc/passwd", "a b", "a.b", "Ä", "a\0b"])
def test_bi26_a_topic_name_with_a_slash_or_dots(refuses, topic):
    refuses(topic, topic=repr(topic))


@pytest.mark.parametrize("topic", ["", "   "])
def test_bi27_a_blank_topic_name(refuses, topic):
    refuses(topic)


def test_bi28_a_topic_name_that_is_too_long(refuses):
    refuses("T" * 128, beginning=repr("T" * 40), length=128)


def test_bi29_a_topic_of_the_broker_itself(refuses):
    for topic in ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
        refuses(topic, topic=topic)


def test_bi30_an_unknown_topic_that_may_not_be_made(broker_with, row):
    broker = broker_with(autoCreateTopicEnable=False)
    with broker.peer() as peer:
        answer = peer.send("Nope")
        row.check(answer.remark, answer.code, topic="Nope", model="TBW102", peer=peer.name)
        assert peer.pull("Nope").code == 17


@pytest.mark.parametrize("queues", [0, -1])
def test_bi31_a_new_topic_without_queues(broker, refuses, queues):
    refuses("Hollow", letters={"d": queues}, topic="Hollow", queues=queues)
    with broker.peer() as peer:
        assert peer.send("Hollow", d=4).code == 0  # the refused message left nothing in the store
        assert peer.create_topic("Hollow").code == 0
        assert peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Hollow"}).code == 0


def test_bi32_a_queue_that_the_topic_does_not_have(broker, row):
    with broker.peer() as peer:
        answer = peer.send("Narrow", e=4)
        row.check(answer.remark, answer.code, queue=4, topic="Narrow", write=4, read=4, peer=peer.name)


def test_bi33_an_empty_body(broker, row):
    with broker.peer() as peer:
        answer = peer.send("T", None)
        row.check(answer.remark, answer.code, peer=peer.name)


def test_bi34_a_body_over_4_mib(refuses):
    refuses("T", b"x" * (4 * MIB + 1), size=4 * MIB + 1, limit=4 * MIB)


OURS = "MSG_REGION\1DefaultRegion\2TRACE_ON\1true\2CLUSTER\1DefaultCluster\2"


def test_bi35_properties_over_30867_bytes(broker, row):
    most = 30867 - len(OURS + "UNIQ_KEY\1u\2K\1\2")
    with broker.peer() as peer:
        for length in (most + 1, 32767, 40000):
            answer = peer.send("T", b"x", "K\1" + "v" * length + "\2UNIQ_KEY\1u\2")
            row.check(answer.remark, answer.code, size=30867 + length - most)
        own = "MY_RETRY_TOPIC\1T\2"  # not RocketMQ's RETRY_TOPIC, whose messages may use the reserved space
        answer = peer.send("T", b"x", own + "K\1" + "v" * most + "\2UNIQ_KEY\1u\2")
        row.check(answer.remark, answer.code, size=30867 + len(own))
        assert peer.send("T", b"x", "K\1" + "v" * most + "\2UNIQ_KEY\1u\2").code == 0


def test_a_property_of_10240_chinese_characters_is_accepted(broker):
    """As RocketMQ's own tests send it."""
    unique = "UNIQ_KEY\1" + "0" * 32 + "\2WAIT\1true\2"
    with broker.peer() as peer:
        assert peer.send("T", b"x", "key\1" + "\u4e2d" * 10240 + "\2" + unique).code == 0


def test_bi36_a_delay_level(refuses):
    refuses("T", b"x", "DELAY\0013\2", level=3)


def test_bi37_a_timer(refuses):
    refuses("T", b"x", "TIMER_DELAY_SEC\0017\2", name="TIMER_DELAY_SEC", value=7)


def test_bi38_a_transactional_message(refuses):
    refuses("T", b"x", "TRAN_MSG\1true\2", letters={"f": 4})


@pytest.mark.parametrize("bits", [4, 12])
def test_bi39_transaction_bits_without_a_transaction(refuses, bits):
    refuses("T", letters={"f": bits}, bits=bits)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"junk", "batch entry 0 at 0: 4 bytes are left, the shortest entry has 22"),
        (bytes(200), "batch entry 0 at 0: total size 0 where 22 to 200 is possible"),
        (b"\0\0\0\x17" + bytes(19), "batch entry 0 at 0: properties length 0 where 1 makes up the size"),
    ],
)
def test_bi40_a_batch_that_cannot_be_read(refuses_batch, body, why):
    refuses_batch("T", body, topic="T", why=why)


def test_bi41_a_batch_over_4_mib(refuses_batch):
    refuses_batch("T", bytes(4 * MIB + 1), size=4 * MIB + 1, limit=4 * MIB)


@pytest.mark.parametrize("bad", range(3))
def test_bi241_a_batch_with_a_message_that_cannot_be_stored(broker, row, bad):
    right = [BatchEntry(0, b"%d" % number, b"KEYS\1k\2") for number in range(3)]
    wrong = right[bad]._replace(properties=b"KEYS\1\xff\2")
    ext = {**HEAD, "b": "Batched", "m": "true"}
    with broker.peer() as peer:
        begun = int(peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "Batched", "queueId": 0}).ext["offset"])
        batch = [wrong if number == bad else each for number, each in enumerate(right)]
        answer = peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, encode_batch(batch))
        why = "byte 5 of the properties is not UTF-8"
        row.check(answer.remark, answer.code, number=bad + 1, count=3, why=why)
        assert peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, encode_batch(right)).code == 0
        end = peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "Batched", "queueId": 0}).ext["offset"]
        assert int(end) == begun + 3


@pytest.mark.parametrize("attributes", ["", "+queue.type=BatchCQ"], ids=["ordinary", "inner"])
def test_a_batch_with_a_message_without_room_is_refused_as_a_whole(broker, rows, attributes):
    topic = "Inner" if attributes else "Single"
    most = 30867 - (0 if attributes else len(OURS + "UNIQ_KEY\1u\2"))
    ext = {**HEAD, "b": topic, "m": "true", "i": "UNIQ_KEY\1u\2"}
    with broker.peer() as peer:
        assert peer.create_topic(topic, attributes=attributes).code == 0
        for bad in range(3):
            lengths = [most + (number == bad) for number in range(3)]
            entries = [BatchEntry(0, b"%d" % bad, b"K\1%b\2" % (b"v" * (length - 3))) for length in lengths]
            answer = peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, encode_batch(entries))
            why = rows["BI-35"].filled(size=30868)
            rows["BI-241"].check(answer.remark, answer.code, number=bad + 1, count=3, why=why)
        entries[2] = entries[1]
        assert peer.ask(RequestCode.SEND_BATCH_MESSAGE, ext, encode_batch(entries)).code == 0
        assert peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0}).ext["offset"] == "3"


def test_bi42_the_retry_topic_of_an_unknown_group(broker_with, row):
    broker = broker_with(autoCreateSubscriptionGroup=False)
    with broker.peer() as peer:
        answer = peer.send("%RETRY%Nobody")
        row.check(answer.remark, answer.code, group="Nobody")
        end = peer.ask(RequestCode.GET_MAX_OFFSET, {"topic": "%RETRY%Nobody", "queueId": 0}).ext["offset"]
        assert end == "0"


def test_bi43_a_topic_attribute_that_is_not_built(broker, row):
    with broker.peer() as peer:
        answer = peer.create_topic("Special", attributes="+cleanup.policy=COMPACTION")
        row.check(answer.remark, answer.code, topic="Special", attribute="cleanup.policy=COMPACTION")
        assert peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "Special"}).code == 17


def test_bi44_a_topic_attribute_that_does_not_exist(broker, row):
    with broker.peer() as peer:
        answer = peer.create_topic("Special", attributes="+colour=red")
        row.check(answer.remark, answer.code, topic="Special", attribute="'+colour'")


@pytest.mark.parametrize("topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_own", "DefaultCluster_REPLY_TOPIC"])
def test_bi45_a_change_of_a_topic_of_the_broker_itself(broker, row, topic):
    with broker.peer() as peer:
        answer = peer.create_topic(topic)
        row.check(answer.remark, answer.code, topic=topic)


def test_bi46_a_topic_with_a_permission_that_does_not_exist(broker, row):
    with broker.peer() as peer:
        answer = peer.create_topic("Special", perm=9)
        row.check(answer.remark, answer.code, topic="Special", perm=9)


@pytest.mark.parametrize("count", [-1, 4097])
def test_bi47_a_topic_with_an_impossible_number_of_queues(broker, row, count):
    with broker.peer() as peer:
        answer = peer.create_topic("Special", readQueueNums=count)
        row.check(answer.remark, answer.code, topic="Special", field="readQueueNums", count=count, limit=4096)


def test_a_refused_oneway_send_is_not_answered_but_counted(broker):
    def failed(figures):
        return int(json.loads(figures.payload)["table"]["putMessageFailedTimes"])

    with broker.peer() as peer:
        before = failed(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
        after = failed(peer.ask(RequestCode.SEND_MESSAGE_V2, {**HEAD, "b": "a/b"}, b"x", oneway=True))
    assert after == before + 1
