import pytest

from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK, QueueEntry, is_ext_address, is_pre_blank, read_entry

BYTES = {
    "0000000000000000 00000092 000000000027a807": (0, 146, 2598919),
    "0000000000000092 00000092 ffffffffb80cf172": (146, 146, -1207111310),
    "0000000000000124 00000092 0000000000000000": (292, 146, 0),
    "0000000000000000 00000092 0000018bcfe58f8b": (0, 146, 1700000010123),
}


@pytest.mark.parametrize(("text", "entry"), BYTES.items())
def test_entries_have_the_documented_bytes(text, entry):
    raw = bytes.fromhex(text)
    assert ENTRY.pack(*entry) == raw
    assert read_entry(memoryview(bytes(20) + raw), 1) == QueueEntry(*entry)


def test_what_was_never_written_is_none():
    assert read_entry(memoryview(bytes(40)), 1) is None
    with pytest.raises(IndexError, match="entry 2 of 2"):
        read_entry(memoryview(bytes(40)), 2)


def test_pre_blank_entries_look_valid():
    assert PRE_BLANK.hex() == "00000000000000007fffffff0000000000000000"
    entry = read_entry(memoryview(PRE_BLANK), 0)
    assert is_pre_blank(entry.log_offset, entry.size)
    assert not is_pre_blank(0, 146)


@pytest.mark.parametrize(
    ("code", "address"), [(-(2**63) + 34, True), (-2147483649, True), (-2147483648, False), (0, False)]
)
def test_codes_below_32_bits_are_ext_addresses(code, address):
    assert is_ext_address(code) is address
