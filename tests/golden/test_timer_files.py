"""Every timer file that a Java broker left, read and written again."""

import gzip

import pytest

from gantrymq_store_files.file_names import file_start
from gantrymq_store_files.timer_checkpoint import decode_timer_checkpoint, encode_timer_checkpoint
from gantrymq_store_files.timer_log import decode_entry, encode_entry
from gantrymq_store_files.timer_metrics import TimerMetrics
from gantrymq_store_files.timer_wheel import WHEEL_BYTES, decode_slot, encode_slot, slot_position, slots_of


def wheel_of(scenario):
    return gzip.decompress((scenario.store / "timerwheel.gz").read_bytes())


def entries_of(scenario):
    (path,) = (scenario.store / "timerlog").iterdir()
    data, at, found = path.read_bytes(), 0, {}
    while (entry := decode_entry(data, at)) is not None:
        found[file_start(path.name) + at] = entry
        at += 52
    assert not any(data[at:])
    return found, data[:at]


def test_the_wheel_is_written_as_it_was_read(golden):
    data = wheel_of(golden("timer"))
    assert len(data) == WHEEL_BYTES
    assert b"".join(map(encode_slot, slots_of(data))) == data


def test_the_log_is_written_as_it_was_read(golden):
    entries, data = entries_of(golden("timer"))
    assert len(entries) == 16
    assert b"".join(map(encode_entry, entries.values())) == data


def test_a_list_of_the_wheel_and_the_log_has_every_entry_once(golden):
    scenario = golden("timer")
    wheel, (entries, _) = wheel_of(scenario), entries_of(scenario)
    seen = []
    for tick in sorted({entry.due_ms // 1000 for entry in entries.values()}):
        slot = decode_slot(wheel, tick, slot_position(tick))
        at, here, count = slot.last, [], 0
        while at >= 0:
            assert entries[at].due_ms == tick * 1000
            here.append(at)
            count += -1 if entries[at].deletes else 1
            at = entries[at].previous
        assert (slot.first, slot.count) == (here[-1], count)
        seen += here
    assert sorted(seen) == sorted(entries)


@pytest.mark.parametrize("name", ["ha/master", "ha/slave", "mqadmin", "pop", "timer"])
def test_checkpoint_and_metrics_are_written_as_they_were_read(golden, name):
    config = golden(name).store / "config"
    data = (config / "timercheck").read_bytes()
    assert encode_timer_checkpoint(decode_timer_checkpoint(data)) == data
    text = (config / "timermetrics").read_bytes()
    assert TimerMetrics.decode(text).encode() == text
