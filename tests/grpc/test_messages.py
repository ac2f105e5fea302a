"""Messages: sent ones become records, and records become messages, with every field; bodies are handed out plain."""

import gzip
import hashlib
import zlib

import pytest

pytest.importorskip("gantrymq_grpc")

from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import encode_record, read_record
from gantrymq.plugin.model import GroupConfig, pack_host
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.conversion.messages import Sender, body_of, is_compressed, send_requests, stored_body, write_message
from gantrymq_grpc.conversion.settings import Defaults, merged, retry_policy
from gantrymq_grpc.conversion.validation import SYSTEM_PROPERTIES, Limits, check_messages, type_of
from gantrymq_grpc.definitions import (
    ClientType,
    Code,
    DigestType,
    Duration,
    Encoding,
    Message,
    MessageType,
    ReceiveMessageResponse,
    Resource,
    Settings,
    Subscription,
    SystemProperties,
    Timestamp,
)

NOW_MS = 1_800_000_000_000
PEER = ("10.1.2.3", 50000)
SENDER = Sender(PEER, pack_host(*PEER), None)
BODY = b"a plain body, " * 100


def sent(**system):
    system.setdefault("message_id", "A" * 34)
    body = system.pop("body", BODY)
    return Message(topic=Resource(name="T"), body=body, system_properties=SystemProperties(**system))


def record_of(send, **more):
    values = {
        "topic": send.topic,
        "queue_id": 3,
        "body": send.body,
        "properties": send.properties.encode(),
        "queue_offset": 0,
        "log_offset": 4711,
        "store_timestamp": NOW_MS + 7,
        "store_host": pack_host("10.0.0.9", 10911),
        "born_timestamp": send.born_timestamp,
        "born_host": send.born_host,
        "sys_flag": send.sys_flag,
        **more,
    }
    return read_record(encode_record(**values))


def of_remoting(body=BODY, sys_flag=0, own=None, **more):
    return read_record(
        encode_record(topic="T", queue_id=0, body=body, properties=props.encode(own or {}), sys_flag=sys_flag, **more)
    )


def received(record, **more):
    response = ReceiveMessageResponse()
    values = {"topic": "T", "attempt": 1, "receipt_handle": "h", **more}
    write_message(response.message, record, body_of(record), **values)
    return ReceiveMessageResponse.FromString(response.SerializeToString()).message


def text(*, max_size):
    return st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=max_size).filter(
        lambda value: not value.isspace()
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_field_of_a_sent_message_comes_back(data):
    names = text(max_size=20).filter(lambda name: name not in SYSTEM_PROPERTIES and name != "__SHARDINGKEY")
    message = Message(
        topic=Resource(name="T"),
        body=data.draw(st.binary(min_size=1, max_size=100)),
        user_properties=data.draw(st.dictionaries(names, text(max_size=20), max_size=5)),
        system_properties=SystemProperties(
            message_id=data.draw(text(max_size=34)),
            keys=data.draw(st.lists(text(max_size=10).filter(lambda key: " " not in key), max_size=3)),
            born_timestamp=Timestamp(seconds=data.draw(st.integers(0, 10**10)), nanos=5_000_000),
            born_host=data.draw(text(max_size=10)),
        ),
    )
    system = message.system_properties
    for name in ("tag", "message_group", "trace_context"):
        if data.draw(st.booleans()):
            setattr(system, name, data.draw(text(max_size=10).filter(lambda value: "|" not in value)))
    if data.draw(st.booleans()):
        system.priority = data.draw(st.integers(0, 2**31 - 1))
    if data.draw(st.booleans()):
        system.lite_topic = data.draw(st.sampled_from(["a", "A-1_z"]))
    if data.draw(st.booleans()):
        system.delivery_timestamp.seconds = data.draw(st.integers(0, NOW_MS // 1000))
    assert check_messages([message], Limits(), NOW_MS) == "T"
    (send,) = send_requests([message], "T", SENDER, NOW_MS)
    got = received(record_of(send), attempt=2)

    wanted = Message()
    wanted.CopyFrom(message)
    if system.trace_context:  # also a property, as from RocketMQ's proxy
        wanted.user_properties["TRACE_CONTEXT"] = system.trace_context
    if system.message_group:
        wanted.user_properties["__SHARDINGKEY"] = system.message_group
    expected = wanted.system_properties
    expected.body_digest.type = DigestType.MD5
    expected.body_digest.checksum = hashlib.md5(message.body).hexdigest().upper()
    expected.body_encoding = Encoding.IDENTITY
    expected.message_type = type_of(message)
    expected.store_timestamp.seconds, expected.store_timestamp.nanos = 1_800_000_000, 7_000_000
    expected.store_host = "10.0.0.9:10911"
    expected.receipt_handle, expected.queue_id, expected.queue_offset, expected.delivery_attempt = "h", 3, 0, 2
    assert got == wanted
    assert got.system_properties.HasField("queue_offset")  # although it is 0


def test_a_sent_message_has_the_properties_and_flags_of_its_kind():
    half = sent(
        message_type=MessageType.TRANSACTION,
        orphaned_transaction_recovery_duration=Duration(seconds=10),
        delivery_attempt=2,
        keys=["a", "b"],
    )
    (send,) = send_requests([half], "T", SENDER, NOW_MS)
    assert (send.group, send.topic, send.sys_flag, send.queue_id) == ("T", "T", 4, -1)
    assert (send.born_timestamp, send.born_host, send.peer) == (NOW_MS, pack_host(*PEER), PEER)
    assert props.decode_text(send.properties) == {
        "KEYS": "a b",
        "UNIQ_KEY": "A" * 34,
        "PGROUP": "T",
        "__BORNHOST": "10.1.2.3",
        "TRAN_MSG": "true",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "10",
        "RECONSUME_TIME": "2",
    }


def test_each_message_of_a_request_becomes_a_send():
    sends = send_requests([sent(message_id="A"), sent(message_id="B", message_group="g")], "T", SENDER, NOW_MS)
    assert [props.decode_text(each.properties)["UNIQ_KEY"] for each in sends] == ["A", "B"]
    assert not any(each.batch for each in sends)


# --- bodies -----------------------------------------------------------------------------------------------------------


def with_all_header_fields(plain):
    """Return a gzip stream with extra field, name, comment and header checksum."""
    packed = gzip.compress(plain)
    head = packed[:3] + bytes([4 | 8 | 16 | 2]) + packed[4:10] + b"\x03\x00abc" + b"name\x00" + b"comment\x00"
    return head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + packed[10:]


@pytest.mark.parametrize("pack", [gzip.compress, with_all_header_fields])
def test_a_gzip_body_is_stored_as_zlib_which_all_consumers_read(pack):
    message = sent(body=pack(BODY), body_encoding=Encoding.GZIP)
    assert is_compressed([message])
    (send,) = send_requests([message], "T", SENDER, NOW_MS)
    assert send.sys_flag == 1
    assert zlib.decompress(send.body) == BODY
    got = received(record_of(send))
    assert (got.body, got.system_properties.body_encoding) == (BODY, Encoding.IDENTITY)


def test_a_zlib_body_that_is_called_gzip_is_kept():
    for level in (0, 1, 3, 6, 9):
        assert stored_body(zlib.compress(BODY, level)) == (zlib.compress(BODY, level), 1)


@pytest.mark.parametrize("body", [b"hello", b"xyz", b"\x1f", b"\x78"])
def test_a_plain_body_that_is_called_gzip_is_stored_and_handed_out_plain(body):
    (send,) = send_requests([sent(body=body, body_encoding=Encoding.GZIP)], "T", SENDER, NOW_MS)
    assert (send.body, send.sys_flag) == (body, 0)
    got = received(record_of(send))
    assert (got.body, got.system_properties.body_encoding) == (body, Encoding.IDENTITY)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (zlib.compress(BODY)[:-5], Code.MESSAGE_CORRUPTED),
        (zlib.compress(BODY) + b"more", Code.MESSAGE_CORRUPTED),
        (gzip.compress(BODY, mtime=0)[:-9], Code.MESSAGE_CORRUPTED),
        (gzip.compress(BODY, mtime=0) + b"more", Code.MESSAGE_CORRUPTED),
        (gzip.compress(BODY, mtime=0)[:20] + b"\xff" * 30, Code.MESSAGE_CORRUPTED),
        (gzip.compress(bytes(65 << 20), mtime=0), Code.MESSAGE_BODY_TOO_LARGE),
        (zlib.compress(bytes(65 << 20)), Code.MESSAGE_BODY_TOO_LARGE),
    ],
)
def test_a_stream_that_is_damaged_or_grows_too_large_is_refused(body, code):
    with pytest.raises(Refused) as refused:
        send_requests([sent(body=body, body_encoding=Encoding.GZIP)], "T", SENDER, NOW_MS)
    assert refused.value.code == code


def lz4(plain):
    return pytest.importorskip("lz4.frame").compress(plain)


def zstd(plain):
    return pytest.importorskip("zstandard").compress(plain)


@pytest.mark.parametrize(
    ("pack", "flags"),
    [(zlib.compress, 1), (zlib.compress, 0x301), (lz4, 0x101), (zstd, 0x201), (gzip.compress, 1)],
    ids=["zlib of old clients", "zlib", "lz4", "zstandard", "gzip stored by RocketMQ's proxy"],
)
def test_a_compressed_body_is_handed_out_plain_with_the_digest_of_the_plain_bytes(pack, flags):
    got = received(of_remoting(pack(BODY), flags))
    assert (got.body, got.system_properties.body_encoding) == (BODY, Encoding.IDENTITY)
    assert got.system_properties.body_digest.checksum == hashlib.md5(BODY).hexdigest().upper()


@pytest.mark.parametrize(("body", "flags"), [(b"\x78\x9cdamaged", 1), (b"\x1f\x8bdamaged", 1), (b"x", 0x701)])
def test_a_body_that_cannot_be_decompressed_is_handed_out_as_it_is_stored(body, flags):
    got = received(of_remoting(body, flags))
    assert (got.body, got.system_properties.body_encoding) == (body, Encoding.GZIP)
    assert got.system_properties.body_digest.checksum == hashlib.md5(body).hexdigest().upper()


# --- records of remoting producers -----------------------------------------------------------------------------------


def test_a_record_of_a_remoting_producer_has_every_field():
    own = {"TAGS": "t", "KEYS": "a b", "WAIT": "true", "color": "red", "DLQ_ORIGIN_TOPIC": "O"}
    record = of_remoting(
        own=own,
        log_offset=255,
        born_host=pack_host("::1", 9),
        store_host=pack_host("10.0.0.9", 10911),
        born_timestamp=5,
        store_timestamp=6,
    )
    got = received(record, receipt_handle="")
    system = got.system_properties
    assert dict(got.user_properties) == {"color": "red"}
    assert (system.tag, list(system.keys)) == ("t", ["a", "b"])
    assert system.message_id == "0A00000900002A9F00000000000000FF"
    assert (system.born_host, system.store_host) == ("::1", "10.0.0.9:10911")
    assert (system.born_timestamp, system.store_timestamp) == (Timestamp(nanos=5_000_000), Timestamp(nanos=6_000_000))
    absent = ("receipt_handle", "delivery_timestamp", "message_group", "trace_context", "dead_letter_queue")
    assert not any(system.HasField(name) for name in (*absent, "invisible_duration"))


@pytest.mark.parametrize(
    ("own", "kind", "due_ms"),
    [
        ({"TRAN_MSG": "true", "DELAY": "3"}, MessageType.TRANSACTION, None),
        ({"DELAY": "3", "__SHARDINGKEY": "g"}, MessageType.DELAY, None),
        ({"TIMER_DELIVER_MS": "1234567"}, MessageType.DELAY, 1_234_567),
        ({"TIMER_DELAY_SEC": "2"}, MessageType.DELAY, 3_000),
        ({"TIMER_DELAY_MS": "2"}, MessageType.DELAY, 1_002),
        ({"TIMER_DELIVER_MS": "9" * 40}, MessageType.DELAY, None),
        ({"TIMER_DELAY_MS": "soon"}, MessageType.DELAY, None),
        ({"__SHARDINGKEY": "g"}, MessageType.FIFO, None),
        ({"__SHARDINGKEY": "g", "_SYS_MSG_PRIORITY_": "1"}, MessageType.FIFO, None),
        ({"_SYS_MSG_PRIORITY_": "1", "__LITE_TOPIC": "a"}, MessageType.PRIORITY, None),
        ({"__LITE_TOPIC": "a"}, MessageType.LITE, None),
        ({"TRAN_MSG": "false"}, MessageType.NORMAL, None),
    ],
)
def test_type_and_delivery_time_follow_from_the_properties(own, kind, due_ms):
    system = received(of_remoting(own=own, born_timestamp=1000)).system_properties
    assert system.message_type == kind
    assert system.HasField("delivery_timestamp") == (due_ms is not None)
    if due_ms is not None:
        assert system.delivery_timestamp.seconds * 1000 + system.delivery_timestamp.nanos // 1_000_000 == due_ms


@pytest.mark.parametrize(
    ("text", "priority"),
    [("0", 0), ("7", 7), ("2147483647", 2147483647), ("2147483648", None), ("-1", None), ("x", None)],
)
def test_a_priority_is_a_number_of_32_bits(text, priority):
    got = received(of_remoting(own={"_SYS_MSG_PRIORITY_": text}))
    assert got.system_properties.HasField("priority") == (priority is not None)
    assert got.system_properties.priority == (priority or 0)
    assert not got.user_properties


def test_a_topic_with_a_percent_sign_comes_back_unsplit():
    assert received(of_remoting(), topic="ns%T").topic == Resource(name="ns%T")


def test_a_dead_letter_names_its_origin():
    own = {"DLQ_ORIGIN_TOPIC": "O", "DLQ_ORIGIN_MESSAGE_ID": "ID"}
    origin = received(of_remoting(own=own)).system_properties.dead_letter_queue
    assert (origin.topic, origin.message_id) == ("O", "ID")


def test_numbers_of_a_record_that_no_client_would_take_become_the_nearest():
    record = of_remoting(born_timestamp=-(2**63), store_timestamp=2**63 - 1, reconsume_times=2**31 - 1)
    system = received(record, attempt=record.reconsume_times + 1).system_properties
    assert (system.born_timestamp.seconds, system.store_timestamp.seconds) == (0, 253_402_300_799)
    assert system.delivery_attempt == 2**31 - 1


# --- settings ---------------------------------------------------------------------------------------------------------


def consumer(**own):
    return Settings(client_type=ClientType.PUSH_CONSUMER, subscription=Subscription(**own))


def test_a_known_group_sets_batch_polling_time_and_order():
    own = consumer(receive_batch_size=5, long_polling_timeout=Duration(seconds=7), fifo=True)
    group = GroupConfig("G", consume_message_orderly=False, retry_max_times=3)
    got = merged(own, group, Defaults())
    assert (got.subscription.receive_batch_size, got.subscription.long_polling_timeout.seconds) == (32, 20)
    assert got.subscription.HasField("fifo") and not got.subscription.fifo
    assert got.backoff_policy.max_attempts == 4
    assert merged(own, GroupConfig("G", consume_message_orderly=True), Defaults()).subscription.fifo
    assert own.subscription.receive_batch_size == 5  # the client's own are not changed


def test_an_unknown_group_leaves_the_client_its_own_numbers_but_not_the_order():
    own = consumer(receive_batch_size=5, long_polling_timeout=Duration(seconds=7), fifo=True)
    got = merged(own, None, Defaults()).subscription
    assert (got.receive_batch_size, got.long_polling_timeout.seconds, got.fifo) == (5, 7, False)


def test_retry_policies_of_groups():
    exponential = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": None}}
    found = retry_policy(GroupConfig("G", retry_policy=exponential))
    assert found.exponential_backoff.initial == Duration(nanos=100_000_000)
    assert (found.exponential_backoff.max.seconds, found.exponential_backoff.multiplier) == (7200, 2)
    assert retry_policy(GroupConfig("G", retry_policy={"type": "EXPONENTIAL"})).exponential_backoff.initial.seconds == 5
    customized = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1500]}}
    found = retry_policy(GroupConfig("G", retry_policy=customized, retry_max_times=-1))
    assert list(found.customized_backoff.next) == [Duration(seconds=1, nanos=500_000_000)]
    assert found.max_attempts == 1
