from collections.abc import Callable, Iterator

import pytest

from gantrymq.client.message import Message
from gantrymq.client.sending.encoded_message import (
    BatchBuilder,
    Compressor,
    batch_entry,
    compressed,
    prepare,
    prepare_batch,
    prepare_plain,
)
from gantrymq.errors import MessageIllegal
from gantrymq.formats.batch_body import BatchEntry, decode_batch, encode_batch
from gantrymq.formats.compression import decompress
from gantrymq.model.ids import unique_id
from gantrymq.model.properties import encode

LONG = 1 << 20


def given(*ids: str) -> Callable[[], str]:
    left: Iterator[str] = iter(ids)
    return lambda: next(left)


class Ids:
    """Counts ids: N000000000001, N000000000002, ..."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        return unique_id(*self.take(1))

    def take(self, count: int) -> tuple[str, int, int]:
        self.count += count
        return "N", 0, self.count - count + 1


def batch_of(messages, max_bytes=LONG, *, inner=False):
    """Encode as `Producer.send_batch` does; both ways give the same bytes."""
    made = prepare_batch(messages, Ids(), max_bytes, prepare_plain(messages, Ids(), max_bytes), inner=inner)
    assert made.body == prepare_batch(messages, Ids(), max_bytes, inner=inner).body
    return made


def test_every_message_of_a_batch_gets_an_id_that_no_id_of_the_batch_hides():
    encoded = batch_of([Message("T", b"a"), Message("T", b"b" * 5000)])
    assert encoded.unique_ids == ("N000000000001", "N000000000002")
    assert encoded.properties == {"WAIT": "true"}
    assert [bytes(entry.body) for entry in decode_batch(encoded.body)] == [b"a", b"b" * 5000]  # not compressed
    assert encoded.sys_flag == 0


def test_an_inner_batch_has_an_id_the_tag_and_the_keys_of_its_messages():
    messages = [Message("T", b"a", "Red", "k1 k2"), Message("T", b"b", "Red", ("k2", "k3")), Message("T", b"c", "Red")]
    encoded = batch_of(messages, inner=True)
    assert encoded.unique_ids == ("N000000000001", "N000000000002", "N000000000003")
    assert encoded.properties == {
        "UNIQ_KEY": encoded.properties["UNIQ_KEY"],
        "WAIT": "true",
        "TAGS": "Red",
        "KEYS": "k1 k2 k3",
    }
    assert encoded.properties["UNIQ_KEY"] not in encoded.unique_ids


@pytest.mark.parametrize("second", [{"tags": None}, {"tags": "Red", "keys": "k" * 20_000}])
def test_messages_with_different_tags_or_too_many_keys_are_no_inner_batch(second):
    messages = [Message("T", b"a", "Red"), Message("T", b"b", **second)]
    encoded = batch_of(messages, inner=True)
    assert encoded.properties == {"WAIT": "true"}


def test_batch_that_is_too_long_is_refused():
    with pytest.raises(MessageIllegal, match="several batches"):
        batch_of([Message("T", b"x" * 100)], 100)


@pytest.mark.parametrize("properties", [{}, {"a": "ä"}])
def test_a_collected_message_is_kept_as_it_was(properties):
    message = Message("T", b"x", "Red", "k", properties=dict(properties), wait_stored=False)
    expected = prepare(message, given("N000000000001"))
    builder = BatchBuilder()
    builder.add(message, batch_entry(message, Ids()))
    message.tags, message.body = "Blue", b"y"
    assert builder.first() == expected
    assert builder.build(Ids()).body == encode_batch([BatchEntry(0, b"x", encode(expected.properties))])


def test_long_body_is_compressed_as_java_does(golden):
    recorded = golden("compressed send")
    body = decompress(recorded.payload, int(recorded.ext["f"]))
    encoded = compressed(prepare(Message("GoldenA", body), given("A")), Compressor())
    assert encoded.sys_flag == int(recorded.ext["f"]) == 0x301
    assert decompress(encoded.body, encoded.sys_flag) == body


def test_message_is_not_changed_and_its_own_id_is_kept():
    message = Message("T", b"x", properties={"a": "b"}, system_properties={"UNIQ_KEY": "MINE"}, wait_stored=False)
    encoded = prepare(message, given())
    assert encoded.unique_ids == ("MINE",)
    assert encoded.properties == {"UNIQ_KEY": "MINE", "a": "b", "WAIT": "false"}
    assert (message.properties, message.system_properties) == ({"a": "b"}, {"UNIQ_KEY": "MINE"})


def test_half_message_is_flagged():
    assert prepare(Message("T", b"x", system_properties={"TRAN_MSG": "true"}), given("A")).sys_flag == 4
