"""An unreadable record of a delay level is skipped, alone, and logged with its offset."""

import asyncio
from types import SimpleNamespace

import pytest

from gantrymq.formats.record import encode_record
from gantrymq.interfaces import GetLimit, GetResult, GetStatus
from gantrymq_schedule.levels.due import read_due, read_from
from gantrymq_schedule.levels.table import queue_of

QUEUE = queue_of(1)
DUE_MS = 5000


def record(queue_offset):
    return encode_record(
        topic=QUEUE.topic,
        queue_id=QUEUE.queue_id,
        body=b"%d" % queue_offset,
        properties=b"REAL_TOPIC\x01T\x02REAL_QID\x010\x02DELAY\x011\x02",
        queue_offset=queue_offset,
        log_offset=queue_offset * 1000,
        store_timestamp=DUE_MS - 1000,
    )


def broker_of(broken, count=10):
    """A store that reads four records at once; those in *broken* have another magic."""
    raw = [record(each) if each not in broken else b"\0\0\0\x64" + bytes(96) for each in range(count)]

    def get(queue, position, limit, codes):
        part = raw[position : position + 4]
        for _ in part:
            codes.match_entry(DUE_MS, None)
        return GetResult(GetStatus.FOUND, position + len(part), 0, count, (b"".join(part),))

    async def sleep(seconds):
        await asyncio.sleep(0)

    clock = SimpleNamespace(now_ms=lambda: DUE_MS, monotonic=lambda: 0.0, sleep=sleep)
    return SimpleNamespace(store=SimpleNamespace(get=get), world=SimpleNamespace(clock=clock))


@pytest.mark.parametrize("broken", [{0}, {2}, {3, 4}, {9}, {0, 1, 2, 3}, set(range(10))])
def test_only_what_cannot_be_read_is_left_out(broken):
    due = asyncio.run(read_due(broker_of(broken), QUEUE, 0, DUE_MS, 1000, [1000]))
    assert [each.queue_offset for each, _ in due.records] == [each for each in range(10) if each not in broken]
    assert (due.position, due.time_ms) == (10, None)
    assert [sentence.partition(":")[0] for sentence in due.unreadable] == [
        f"queue offset {each} of {QUEUE}" for each in sorted(broken)
    ]


def test_a_look_ends_before_what_cannot_be_read():
    read = asyncio.run(read_from(broker_of({2}), QUEUE, 0, GetLimit(64, 1 << 20), [1000]))
    assert ([each.queue_offset for each, _ in read.records], read.next_offset, read.unreadable) == ([0, 1], 2, "")
