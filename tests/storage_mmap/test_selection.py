"""Taking all entries at once selects the same as taking them one by one."""

import random
from types import SimpleNamespace

from gantrymq.interfaces import GetLimit
from gantrymq_storage_mmap.reading.entry_repair import is_impossible
from gantrymq_storage_mmap.reading.selection import Selection
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK

FIELDS = ("status", "next_offset", "count", "size", "runs", "_last", "wrong")


def one_by_one(selection, data):
    for log_offset, size, _ in ENTRY.iter_unpack(data):
        if selection.full(log_offset, size):
            if log_offset == selection._last:
                selection.next_offset += 1
                continue
            break
        selection.next_offset += 1
        if selection.present(log_offset, size):
            selection.wrong = selection.wrong or (bool(selection.runs) and log_offset < selection.runs[-1][0])
            selection.add(log_offset, size)
        else:
            selection.wrong = selection.wrong or is_impossible(log_offset, size, selection._log.end)
            selection.missed()


def entries(chance):
    """Some side by side, some apart, some twice, some that are gone, some that only fill."""
    at, data = chance.choice([0, 900]), b""
    for _ in range(chance.randrange(1, 12)):
        size = chance.randrange(91, 300)
        kind = chance.randrange(10)
        at += 150 if kind == 0 else 0
        data += PRE_BLANK if kind == 1 else ENTRY.pack(at, size, 7)
        data += ENTRY.pack(at, size, 7) * (kind == 2)
        at += size
    return data


def plain_entries(chance):
    """All side by side or all apart, sometimes with one that is not."""
    at, data = chance.choice([0, 900, 1000]), b""
    gap, count, usual = chance.choice([0, 0, 1, 40]), chance.randrange(1, 70), chance.randrange(1, 300)
    odd = chance.choice([None, None, 0, 1, count - 1])
    for number in range(count):
        data += ENTRY.pack(at, 0 if number == odd and chance.random() < 0.3 else usual, 7)
        at += usual + gap + (chance.choice([-usual, -1, 1]) if number == odd else 0)
    return data


def test_taking_all_chooses_what_taking_each_does():
    chance = random.Random(5)
    for _ in range(5000):
        log = SimpleNamespace(min_offset=chance.choice([0, 0, 1000]), end=chance.choice([10_000, 10_000, 1500]))
        options = SimpleNamespace(
            memory_window_bytes=chance.choice([0, 400, 100_000, 100_000]),
            memory_limit_bytes=chance.choice([500, 100_000]),
            memory_limit_count=chance.choice([3, 32, 99]),
            disk_limit_bytes=chance.choice([300, 100_000]),
            disk_limit_count=chance.choice([2, 8]),
        )
        limit = GetLimit(max_count=chance.choice([1, 4, 32, 99]), max_bytes=chance.choice([100, 700, 10**6]))
        data = chance.choice([entries, plain_entries])(chance)
        whole, single = (Selection(log, options, 17, limit) for _ in range(2))
        whole.take_all(data)
        one_by_one(single, data)
        assert [getattr(whole, name) for name in FIELDS] == [getattr(single, name) for name in FIELDS]
