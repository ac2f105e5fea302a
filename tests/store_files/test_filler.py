import pytest

from gantrymq.formats.record import encode_record
from gantrymq.model.sys_flag import TRANSACTION_PREPARED
from gantrymq_store_files.check import LogContent, check_bytes
from gantrymq_store_files.filler import MAX_FILLER_BYTES, MIN_FILLER_BYTES, fillers, is_filler


@pytest.mark.parametrize("size", [MIN_FILLER_BYTES, 93, 2109, MAX_FILLER_BYTES + MIN_FILLER_BYTES])
def test_a_filler_is_a_sound_record_of_exactly_the_hole(size):
    ((place, data),) = fillers(777, size, 1_800_000_000_000, "kept as x")
    found = check_bytes(memoryview(data), 0, 777)
    assert (place, len(data), found.found, found.size) == (777, size, LogContent.RECORD, size)
    assert is_filler(found.record)
    assert found.record.store_timestamp == 1_800_000_000_000
    assert found.record.sys_flag & TRANSACTION_PREPARED  # a record with this bit gets no queue entry
    assert bytes(found.record.body)[: size - MIN_FILLER_BYTES].startswith(b"kept as x"[: size - MIN_FILLER_BYTES])


@pytest.mark.parametrize("more", [1, MIN_FILLER_BYTES + 1, MAX_FILLER_BYTES, 3 * MAX_FILLER_BYTES + 5])
def test_a_large_hole_takes_several_fillers_without_a_gap(more):
    size = MAX_FILLER_BYTES + MIN_FILLER_BYTES + more
    position = 100
    for place, data in fillers(100, size, 1, "note"):
        assert place == position
        assert check_bytes(memoryview(data), 0, place).found is LogContent.RECORD
        assert len(data) <= MAX_FILLER_BYTES + MIN_FILLER_BYTES
        position += len(data)
    assert position == 100 + size


def test_a_hole_smaller_than_any_record_is_refused():
    with pytest.raises(ValueError, match="a hole of 91 bytes"):
        list(fillers(0, MIN_FILLER_BYTES - 1, 0, ""))


def test_other_records_are_no_fillers():
    raw = encode_record(topic="#", queue_id=0, body=b"", properties=b"")
    assert not is_filler(check_bytes(memoryview(raw), 0, 0).record)
