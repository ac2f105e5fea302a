from collections.abc import Callable, Iterator

import pytest
from manual_clock import ManualClock

from gantrymq.client.message import Message
from gantrymq.client.sending.encoded_message import prepare, prepare_batch
from gantrymq.client.sending.send_requests import ProducerFields, send_request
from gantrymq.errors import LocalProtocolError
from gantrymq.formats.batch_body import decode_batch
from gantrymq.model import properties
from gantrymq.model.ids import UniqueIds
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import SERIALIZE_BINARY, SERIALIZE_JSON
from gantrymq.remoting.command import Command, encode

LONG = 1 << 20


def given(*ids: str) -> Callable[[], str]:
    left: Iterator[str] = iter(ids)
    return lambda: next(left)


def with_read_properties(ext: dict[str, str]) -> dict[str, object]:
    """Java writes properties in the order of a hash table, so they are compared as a table."""
    return {**ext, "i": properties.decode_text(ext["i"])}


def test_request_is_the_one_that_java_sends(golden):
    recorded = golden("send")
    message = Message("GoldenOps", recorded.payload, tags="t0", keys="key0")
    encoded = prepare(message, given("7F0000012AB54E0E2F2A688EB5510000"))
    producer = ProducerFields("PG_ops", default_topic_queues=2)
    ours = send_request(encoded, MessageQueue("GoldenOps", "broker-a", 0), producer, 1795245382993)
    assert (ours.code, ours.payload, ours.flag) == (recorded.code, recorded.payload, recorded.flag)
    assert with_read_properties(ours.ext) == with_read_properties(recorded.ext)


def test_batch_request_is_the_one_that_java_sends(golden, monkeypatch):
    recorded = golden("batch")
    entries = decode_batch(recorded.payload)
    found = [properties.decode(entry.properties) for entry in entries]
    messages = [
        Message("GoldenBatch", bytes(entry.body), flag=entry.flag, properties=one)
        for entry, one in zip(entries, found, strict=True)
    ]
    ids = UniqueIds(bytes(4), 1, 1, ManualClock())
    monkeypatch.setattr(ids, "next", given("7F00000147A14E0E2F2A6890E0250007"))
    encoded = prepare_batch(messages, ids, LONG, inner=True)
    producer = ProducerFields("PG_batch", default_topic_queues=2)
    ours = send_request(encoded, MessageQueue("GoldenBatch", "broker-a", 1), producer, 1795245525029)
    assert ours.code == recorded.code
    assert with_read_properties(ours.ext) == with_read_properties(recorded.ext)
    again = decode_batch(ours.payload)
    assert [(e.flag, bytes(e.body), properties.decode(e.properties)) for e in again] == [
        (e.flag, bytes(e.body), one) for e, one in zip(entries, found, strict=True)
    ]
    assert encoded.unique_ids == tuple(one["UNIQ_KEY"] for one in found)


def test_counts_of_a_retry_topic_move_into_the_header():
    own = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "a": "b"}
    encoded = prepare(Message("%RETRY%g", b"x", properties=own), given("A"))
    for _ in range(2):  # a second attempt sends the same
        ext = send_request(encoded, MessageQueue("%RETRY%g", "a", 0), ProducerFields("P"), 1).ext
        assert (ext["j"], ext["l"]) == ("3", "16")
        assert properties.decode_text(ext["i"]) == {"a": "b", "UNIQ_KEY": "A", "WAIT": "true"}


def test_oneway_request_is_marked():
    request = send_request(
        prepare(Message("T", b"x"), given("A")), MessageQueue("T", "a", 0), ProducerFields("P"), 1, oneway=True
    )
    assert request.is_oneway


# --- templates --------------------------------------------------------------------------------------------------------


def plain(request: Command) -> Command:
    """The same as a command built from its fields."""
    names = (name for name in Command.__slots__ if name != "code")
    copy = Command(request.code)
    for name in names:
        setattr(copy, name, getattr(request, name))
    return copy


MESSAGES = [
    Message("T", b"x"),
    Message("T", b"x", tags="Red", keys=("k1", "k2"), flag=7, properties={"city": "M\u00fcnchen", "\x7f": '"g":"0\\'}),
    Message("T", b"x", properties={"steps": "\x00\x0b\x1f\u2028", "%d": "%b \U0001f600"}, wait_stored=False),
    Message("T", b"x", system_properties={"MSG_TYPE": "reply"}),
    Message("%RETRY%g", b"x", system_properties={"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16"}),
]
BROKERS = ["broker-a", ',"g":"0"', '%d"i":""\\', '\u00e9,"opaque":0']


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_BINARY])
@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("oneway", [False, True])
def test_a_request_from_a_template_has_the_bytes_of_its_fields(serialize, broker, oneway):
    for message in MESSAGES:
        for opaque, born_ms in ((0, 0), (77, 1795245382993)):
            queue, producer = MessageQueue(message.topic, broker, 3), ProducerFields("P", unit_mode=True)
            request, read = (
                send_request(prepare(message, given("A")), queue, producer, born_ms, oneway=oneway) for _ in range(2)
            )
            for each in (request, read):
                each.opaque, each.serialize = opaque, serialize
            assert encode(request) == encode(plain(read))
            assert encode(read) == encode(plain(read))  # after its fields were read


def test_a_batch_from_a_template_has_the_bytes_of_its_fields():
    encoded = prepare_batch([Message("T", b"a"), Message("T", b"b")], UniqueIds(bytes(4), 1, 1, ManualClock()), LONG)
    request, read = (send_request(encoded, MessageQueue("T", "a", 0), ProducerFields("P"), 5) for _ in range(2))
    assert request.code == 320
    assert encode(request) == encode(plain(read))


def test_fields_that_hooks_change_are_those_that_are_written():
    encoded = prepare(Message("T", b"x"), given("A"))
    changed, other = (send_request(encoded, MessageQueue("T", "a", 0), ProducerFields("P"), 5) for _ in range(2))
    changed.ext["nsd"] = "true"
    assert b'"nsd":"true"' in encode(changed)
    assert b"nsd" not in encode(other)
    other.ext = {"b": "ns%T"}
    assert b'"extFields":{"b":"ns%T"}' in encode(other)


def test_half_of_a_surrogate_pair_is_refused():
    encoded = prepare(Message("T", b"x", properties={"a": "\ud800"}), given("A"))
    request = send_request(encoded, MessageQueue("T", "a", 0), ProducerFields("P"), 5)
    with pytest.raises(LocalProtocolError, match="UTF-16"):
        encode(request)
