import pytest

from gantrymq_store_files.batch_entry import (
    BATCH_ENTRY,
    BATCH_ENTRY_BYTES,
    BatchQueueEntry,
    pack_batch_entry,
    read_batch_entry,
)

RAW = bytes.fromhex(
    "0000000000001000 000001f4 000000000027a807 0000018bcfe5687b 0000000000000007 0003 ffffffff 00000000"
)
ENTRY = BatchQueueEntry(4096, 500, 2598919, 1700000000123, 7, 3)


def test_an_entry_has_the_documented_bytes():
    assert BATCH_ENTRY.size == BATCH_ENTRY_BYTES == len(RAW)
    assert BATCH_ENTRY.pack(*ENTRY) == pack_batch_entry(*ENTRY[:6]) == RAW
    assert read_batch_entry(bytes(46) + RAW, 1) == ENTRY
    assert ENTRY.end_offset == 10


@pytest.mark.parametrize(
    "change", [{"log_offset": -1}, {"size": 0}, {"base_offset": -1}, {"messages": 0}, {"messages": -1}]
)
def test_an_entry_that_was_never_written_is_none(change):
    assert read_batch_entry(bytes(46), 0) is None
    assert read_batch_entry(BATCH_ENTRY.pack(*ENTRY._replace(**change)), 0) is None


def test_an_entry_outside_the_bytes_is_an_error():
    with pytest.raises(IndexError, match="entry 1 of 1"):
        read_batch_entry(RAW + RAW[:45], 1)
