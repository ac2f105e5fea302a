import pytest

from gantrymq.errors import FormatError
from gantrymq_store_files import timer_log
from gantrymq_store_files.timer_checkpoint import (
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from gantrymq_store_files.timer_log import TimerEntry
from gantrymq_store_files.timer_metrics import TimerMetrics
from gantrymq_store_files.timer_wheel import SLOTS, WHEEL_BYTES, Slot, decode_slot, encode_slot, slot_position, slots_of

ENTRY = TimerEntry(-1, 1, 1700000000000, 60_000, 0, 146, -0x716789BF)


def test_an_entry_has_the_documented_bytes():
    raw = timer_log.encode_entry(ENTRY)
    assert raw.hex() == (
        "00000034ffffffffffffffff000000010000018bcfe568000000ea600000000000000000000000928e9876410000000000000000"
    )
    assert timer_log.decode_entry(raw) == ENTRY
    assert ENTRY.due_ms == 1700000060000
    assert not ENTRY.rolls
    assert not ENTRY.deletes


def test_what_is_no_entry_is_none():
    raw = timer_log.encode_entry(ENTRY)
    assert timer_log.decode_entry(raw[:-1]) is None
    assert timer_log.decode_entry(bytes(52)) is None
    assert timer_log.decode_entry(raw, -52) is None
    assert timer_log.decode_entry(timer_log.encode_entry(ENTRY._replace(magic=16))) is None


@pytest.mark.parametrize("file_bytes", [65536, 104857600, 52 + 16])
def test_an_entry_that_does_not_fit_goes_to_the_next_file(file_bytes):
    last = timer_log.last_entry_position(file_bytes)
    assert timer_log.next_entry_position(last, file_bytes) == last
    assert timer_log.next_entry_position(last + 52, file_bytes) == file_bytes
    rest = timer_log.blank(file_bytes - last - 52)
    assert len(rest) <= file_bytes - last - 52
    assert timer_log.is_blank(rest)
    assert timer_log.decode_entry(rest.ljust(52, b"\0")) is None


def test_a_slot_has_the_documented_bytes_and_place():
    slot = Slot(1700000060, 0, 0, 1)
    assert encode_slot(slot).hex() == "000000006553f13c0000000000000000" + "00" * 8 + "0000000100000000"
    assert slot_position(1700000060) == 16385920
    assert WHEEL_BYTES == 38_707_200
    assert decode_slot(encode_slot(slot), 1700000060) == slot
    assert decode_slot(encode_slot(slot), 1700000060 + SLOTS) is None
    assert decode_slot(bytes(32), 1700000060) is None
    assert list(slots_of(encode_slot(slot) * 2)) == [slot, slot]


def test_a_checkpoint_is_written_as_it_was_read():
    told = TimerCheckpoint(1, 2, 3, 4, 5, 6, 7)
    raw = encode_timer_checkpoint(told)
    assert raw[:56].hex() == "".join(f"{number:016x}" for number in range(1, 8))
    assert raw[56:] == bytes(4040)
    assert decode_timer_checkpoint(raw) == told
    assert decode_timer_checkpoint(raw[:55]) is None


def test_our_own_number_counts_only_beside_the_numbers_it_was_written_with():
    raw = bytearray(encode_timer_checkpoint(TimerCheckpoint(1, 2, 3, 4, 5, 6, 7, delivered_from=99)))
    assert decode_timer_checkpoint(bytes(raw)).delivered_from == 99
    raw[7] = 2  # a Java broker moved the read time
    assert decode_timer_checkpoint(bytes(raw)) == TimerCheckpoint(2, 2, 3, 4, 5, 6, 7)


def test_our_own_record_of_an_earlier_version_has_no_count():
    now = TimerCheckpoint(1, 2, 3, 4, 5, 6, 7, delivered_from=99, in_slots=12)
    raw = bytearray(encode_timer_checkpoint(now))
    assert decode_timer_checkpoint(bytes(raw)) == now
    raw[2048 + 7], raw[2048 + 32 : 2048 + 40] = 1, bytes(8)
    assert decode_timer_checkpoint(bytes(raw)) == now._replace(in_slots=-1)


def test_metrics_are_json_without_spaces():
    metrics = TimerMetrics()
    metrics.add("A", 1, 5)
    metrics.add("A", 1, 6)
    text = b'{"dataVersion":{"counter":2,"stateVersion":0,"timestamp":6},"timingCount":{"A":{"count":2,"timeStamp":6}}}'
    assert metrics.encode() == text
    assert TimerMetrics.decode(text) == metrics


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"timingCount":{"A":{}}}', b'{"timingCount":[1]}', b"\xff", b"[" * 9999]
)
def test_metrics_that_are_none_are_refused(data):
    with pytest.raises(FormatError, match="timermetrics"):
        TimerMetrics.decode(data)
