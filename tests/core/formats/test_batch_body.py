import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.batch_body import BatchEntry, decode_batch, encode_batch

BODY = bytes.fromhex(
    "0000001e0000000000000000000000000000000161000754414753015431000000180000000000000000000000000000000262630000"
)  # "a" with TAGS=T1, "bc" without properties


def test_a_batch_has_the_documented_bytes():
    entries = decode_batch(BODY)
    assert entries == [BatchEntry(0, b"a", b"TAGS\x01T1"), BatchEntry(0, b"bc", b"")]
    assert encode_batch(entries) == BODY


def test_no_entries():
    assert decode_batch(b"") == []
    assert encode_batch([]) == b""


@pytest.mark.parametrize("end", [*range(1, 30), *range(31, 54)])
def test_a_batch_that_was_cut_is_refused(end):
    with pytest.raises(FormatError, match=r"batch entry \d at (0|30): "):
        decode_batch(BODY[:end])


@pytest.mark.parametrize(
    ("position", "value", "says"),
    [
        (0, b"\xff", "total size"),
        (16, b"\xff", "body length"),
        (19, b"\x02", "properties length"),
        (22, b"\x06", "properties"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(position, value, says):
    raw = BODY[:position] + value + BODY[position + 1 :]
    with pytest.raises(FormatError, match=f"batch entry 0 at 0: {says}"):
        decode_batch(raw)


def test_properties_longer_than_their_field_are_refused():
    with pytest.raises(FormatError, match="32768 bytes"):
        encode_batch([BatchEntry(0, b"", b"x" * 32768)])
