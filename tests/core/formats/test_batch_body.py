import time

import pytest

from gantrymq.errors import FormatError
from gantrymq.formats.batch_body import BatchEntry, _plain_entries, decode_batch, encode_batch, plain_entries
from gantrymq.model import properties

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


def quickest_s(work):
    took = []
    for _ in range(3):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.parametrize("check", [plain_entries, _plain_entries], ids=["selected", "python"])
def test_millions_of_short_properties_take_little_longer_than_to_decode_them(check):
    body = encode_batch([BatchEntry(0, b"", b"\x02" * 32_000)] * 32)
    names = tuple(b"NAME_%d" % number for number in range(12))
    assert check(body, 100, 32_767, names) == 32
    decoding_s = quickest_s(lambda: [properties.decode(text) for _, _, text in decode_batch(body)])
    assert quickest_s(lambda: check(body, 100, 32_767, names)) < 8 * decoding_s
