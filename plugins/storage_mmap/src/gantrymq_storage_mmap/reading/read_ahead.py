"""Reading ahead for consumers that catch up, and dropping their pages from the cache afterwards.

A consumer of old messages requests a few at a time, and each answer would wait for the disk. A get that continues where
an earlier one stopped forms a stream. The queue's next entries give the positions of its next records, and the system
is asked to load these into its cache. It reads them in the background, uses no memory of this process, and at most two
times `AHEAD_BYTES` are read ahead per stream. A get that finds its records in the cache needs no thread.

Often everything is in the cache already. If the stream's gets found their records there, and both ends of the next
window are there too, the system is not asked; the first get that had to wait ends this.

Data further back than ``accessMessageInMemoryMaxRatio`` of the machine's memory cannot all stay in the cache anyway,
and would only evict the recent end of the log, which senders and other consumers use. There a stream's pages are
dropped after use, unless another stream is about to need them: the queues of a topic are interleaved in the log.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import attrs

from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.reading.bounded_workers import BoundedWorkers
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

AHEAD_BYTES: Final = 4 * 1024**2  # of the log per stream
_AHEAD_ENTRIES: Final = 2048  # entries examined for that: with small or scattered records, fewer bytes are read ahead
PROBED_ENTRIES: Final = 256  # entries between the two ends that are probed
PROBED_BYTES: Final = 4 * AHEAD_BYTES  # if the ends are further apart, they say nothing about the data between
GAP_BYTES: Final = 32 * 1024  # runs closer than this are joined
_NEAR_BYTES: Final = 64 * 1024**2  # a stream within this distance will soon need the window that another one has left
MOST_STREAMS: Final = 1024
_MOST_WINDOWS: Final = 64  # windows that a stream has left and another may need; beyond that, the system decides
FORGOTTEN_S: Final = 60.0  # a stream without a get for this time has ended


class ReadAheadWindow(NamedTuple):
    """A part of a queue that was read ahead."""

    end: int  # queue offset after it
    runs: tuple[tuple[int, int], ...]  # log offsets [start, end) of its records, ascending


@attrs.define(eq=False)
class ReadAheadStream:
    """Sequential gets of one consumer from one queue."""

    ahead: int  # queue offset up to which data was read ahead
    seen: float  # monotonic seconds of the last get
    cached: bool = True  # everything it requested was in the cache
    busy: bool = False  # a thread is reading ahead
    windows: deque[ReadAheadWindow] = attrs.Factory(deque)  # windows ahead of the consumer, or around its position
    passed_windows: deque[ReadAheadWindow] = attrs.Factory(lambda: deque(maxlen=_MOST_WINDOWS))  # still in the cache


@attrs.frozen(eq=False)
class ReadAhead:
    """The streams of one log. All methods belong to the event loop; nothing is read before `follow` sees a stream."""

    _log: CommitLog
    _workers: BoundedWorkers
    _options: Options
    _monotonic: Callable[[], float]  # seconds
    # by the queue offset of the next get
    _streams: OrderedDict[tuple[ConsumeQueue, int], ReadAheadStream] = attrs.field(factory=OrderedDict, init=False)

    def follow(self, queue: ConsumeQueue, queue_offset: int, next_offset: int, *, cached: bool) -> None:
        """Record a cold get that examined the entries ``[queue_offset, next_offset)``.

        The consumer passed these entries even if a filter withheld their messages. *cached*: everything was in memory.
        """
        if not self._options.read_ahead or next_offset <= queue_offset:
            return
        now = self._monotonic()
        stream = self._streams.pop((queue, queue_offset), None)
        if stream is None:
            stream = ReadAheadStream(next_offset, now)
            self._forget_old(now)
        else:
            stream.seen = now
            stream.cached = stream.cached and cached
            while stream.windows and stream.windows[0].end <= next_offset:
                stream.passed_windows.append(stream.windows.popleft())
            if not stream.busy and len(stream.windows) < 2:
                self._read(queue, stream, max(stream.ahead, next_offset))
        self._streams[queue, next_offset] = stream

    def forget(self, topic: str) -> None:
        """Forget the streams of the queues of *topic*."""
        for key in [key for key in self._streams if key[0].topic == topic]:
            del self._streams[key]

    def clear(self) -> None:
        """Forget all streams, because the log was truncated."""
        self._streams.clear()

    def _forget_old(self, now: float) -> None:
        """Make room for one more stream: remove ended streams, which are the oldest, and those beyond the limit."""
        while self._streams:
            oldest = next(iter(self._streams))
            if now - self._streams[oldest].seen < FORGOTTEN_S and len(self._streams) < MOST_STREAMS:
                break
            del self._streams[oldest]

    def _read(self, queue: ConsumeQueue, stream: ReadAheadStream, start: int) -> None:
        """Start reading ahead from entry *start* in a thread, and dropping passed windows."""
        count = min(_AHEAD_ENTRIES, queue.max_offset - start)
        if count <= 0:
            return
        passed = self._take_passed(stream)
        window = self._in_memory(queue, start) if stream.cached and not passed else None
        if window is not None:
            stream.ahead = window.end
            stream.windows.append(window)
            return
        stream.busy = True

        def done(window: ReadAheadWindow | None, error: BaseException | None) -> None:
            stream.busy = False
            if window is not None:
                stream.ahead = window.end
                if window.runs:
                    stream.windows.append(window)
            elif error is not None and not isinstance(error, OSError):
                raise error

        self._workers.submit(
            self._prefetch, queue, start, *queue.split(start * ENTRY_BYTES, count * ENTRY_BYTES), passed, done=done
        )

    def _in_memory(self, queue: ConsumeQueue, start: int) -> ReadAheadWindow | None:
        """Return the queue's next window if both of its ends are in the cache."""
        end = min(start + PROBED_ENTRIES, queue.max_offset)
        ends: list[tuple[int, int]] = []
        for queue_offset in (start, end - 1):
            try:
                entry = queue.read_cached(queue_offset * ENTRY_BYTES, ENTRY_BYTES)
                if entry is None or len(entry) != ENTRY_BYTES:
                    return None
                log_offset, size, _ = ENTRY.unpack(entry)
                file = self._log.find(log_offset)
                if file is None or not file.pread_cached(log_offset, log_offset + 1):
                    return None
            except OSError:
                return None  # reported by the get that reads the record
            ends.append((log_offset, log_offset + size))
        low, high = ends[0][0], ends[1][1]
        return ReadAheadWindow(end, ((low, high),)) if low < high <= low + PROBED_BYTES else None

    def _take_passed(self, stream: ReadAheadStream) -> list[tuple[int, int]]:
        """Return the windows that *stream* has passed and no other stream is about to need."""
        oldest = self._log.end - self._options.memory_window_bytes
        others = [next(iter(each.windows)).runs[0][0] for each in self._streams.values() if each.windows]
        passed: list[tuple[int, int]] = []
        remaining: list[ReadAheadWindow] = []
        for window in stream.passed_windows:
            low, high = window.runs[0][0], window.runs[-1][1]
            if high <= oldest and not any(low - _NEAR_BYTES <= other < high for other in others):
                passed += window.runs
            elif high <= oldest:
                remaining.append(window)
        stream.passed_windows.clear()
        stream.passed_windows.extend(remaining)
        return passed

    def _prefetch(
        self, queue: ConsumeQueue, start: int, length: int, tail: bytes, passed: Iterable[tuple[int, int]]
    ) -> ReadAheadWindow:
        """Drop *passed*, read the entries from *start* on and prefetch their records. Runs in a thread."""
        for low, high in passed:
            for file in self._log.between(low, high):
                file.drop_cache(max(low, file.start), min(high, file.end))
        window = places(start, queue.read_files(start * ENTRY_BYTES, length, tail))
        for low, high in window.runs:
            for file in self._log.between(low, high):
                file.prefetch(max(low, file.start), min(high, file.end))
        return window if window.runs else ReadAheadWindow(start + (length + len(tail)) // ENTRY_BYTES, ())


def places(start: int, entries: bytes) -> ReadAheadWindow:
    """Return the positions of the records of packed *entries*, the first of which has queue offset *start*.

    The window ends at `AHEAD_BYTES` or a little more, at an invalid entry, or where log offsets decrease.
    """
    runs: list[tuple[int, int]] = []
    end, total = start, 0
    for log_offset, size, _ in ENTRY.iter_unpack(entries[: len(entries) - len(entries) % ENTRY_BYTES]):
        if total >= AHEAD_BYTES or log_offset < 0 or size <= 0 or (runs and log_offset < runs[-1][1]):
            break
        if runs and log_offset - runs[-1][1] <= GAP_BYTES:
            total += log_offset + size - runs[-1][1]
            runs[-1] = (runs[-1][0], log_offset + size)
        else:
            total += size
            runs.append((log_offset, log_offset + size))
        end += 1
    return ReadAheadWindow(end, tuple(runs))
