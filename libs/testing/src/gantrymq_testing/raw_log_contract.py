"""Contract tests for stores that offer their log as bytes (`gantrymq.interfaces.RawLog`).

A plugin's test derives from `RawLogContract` and creates its store, as for `StoreContract`:

    class TestMyRawLog(RawLogContract):
        def make_store(self, world, root, **settings):
            return MyStore(StoreContext(world, root, Settings(SCHEMA, settings)))

`DurableRawLogContract` adds crashes, for stores that survive the end of their process. Each case copies the log of one
store, the original, to another one. The files of a durable store should be small, so that the messages of a case fill
several of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.formats.record import RecordView, read_record
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import Bounds, ExtUnit, QueueTargets, RawLog, RawLogReader, Segment, StoreMessage
from gantrymq.model import properties, sys_flag
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq_testing.simulated import SimulatedLoop, SimulatedProcess, simulate
from gantrymq_testing.store_contract_bench import START_MS, StandingClock, StoreBench, StoreCases, bodies, message

CHUNK_BYTES = 700  # per read: records are cut in pieces
TOPICS = ("A", "B", "%RETRY%group", SCHEDULE_TOPIC)


class LogBench:
    """The original, its copy, and comparisons of both."""

    def __init__(self, original: StoreBench, copy: StoreBench) -> None:
        self.original = original
        self.copy = copy
        self.ends: tuple[int, ...] = ()  # where the copy may end while it is being truncated; empty: anywhere
        self._sent = 0

    def put(self, count: int) -> int:
        """Append *count* messages of several kinds to the original, unpublished; return the new end of its log."""
        batch = [_message(number) for number in range(self._sent, self._sent + count)]
        self._sent += count
        self.original.clock.now += 7
        return self.original.store.put(batch)[-1].end

    async def follow(self, *, publish: bool = True, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Copy what the original has appended."""
        source, target = raw_log(self.original), raw_log(self.copy)
        data = b""
        while (end := target.log_range().max_offset) + len(data) < source.log_range().max_offset:
            data += await read_log(source, end + len(data), chunk_bytes)
            data = data[target.append_raw(end, data) - end :]
        assert data == b""
        if publish:
            await show(self.copy)

    async def write(self, batches: Iterable[int] = (5, 1, 9, 3, 14)) -> None:
        """Append batches to the original, publish them, and copy each."""
        for count in batches:
            self.put(count)
            await show(self.original)
            await self.follow()

    async def compare(self) -> None:
        """Check that log, queues and index of the copy are those of the original."""
        assert raw_log(self.copy).log_range() == raw_log(self.original).log_range()
        assert await contents(self.copy) == await contents(self.original)


class RawLogContract(StoreCases):
    """Derive and define `make_store`."""

    def drive_both(self, root: Path, case: Callable[[LogBench], Awaitable[None]]) -> None:
        """Run *case* with two open stores."""

        async def run() -> None:
            world = self.make_world()
            clock = StandingClock(world.clock)
            world = attrs.evolve(world, clock=clock)
            pair = [
                StoreBench(lambda name=name: self.make_store(world, root / name), clock)  # type: ignore[misc]
                for name in ("original", "copy")
            ]
            for each in pair:
                await each.store.start()
            try:
                await case(LogBench(*pair))
            finally:
                for each in pair:
                    await each.store.stop()
                await world.workers.close()

        asyncio.run(run())

    # --- reading ------------------------------------------------------------------------------------------------------

    def test_the_log_is_read_as_bytes_published_or_not(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            log = raw_log(bench.original)
            assert log.log_range() == (0, 0)
            assert await read_log(log, 0, 100) == b""
            end = bench.put(4)
            assert log.log_range() == (0, end)
            whole = await read_log(log, 0, 1 << 20)
            assert len(whole) == end
            assert await read_log(log, 10, 20) == whole[10:30]
            assert await read_log(log, end - 5, 100) == whole[-5:]
            assert await read_log(log, end, 100) == b""
            for outside in (-1, end + 1):
                with pytest.raises(LogMismatch):
                    await read_log(log, outside, 100)

        self.drive_both(tmp_path, case)

    # --- copying ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("chunk_bytes", [CHUNK_BYTES, 1 << 20])
    def test_a_copy_made_while_the_log_is_written_equals_it(self, tmp_path: Path, chunk_bytes: int) -> None:
        async def case(bench: LogBench) -> None:
            for count in (1, 7, 2, 30, 1, 19):
                bench.put(count)
                await bench.follow(publish=count > 1, chunk_bytes=chunk_bytes)
                await show(bench.original)
            await show(bench.copy)
            await bench.compare()
            if self.durable:
                await bench.copy.restart()
                await bench.compare()

        self.drive_both(tmp_path, case)

    def test_a_copy_has_the_due_times_of_a_log_whose_clock_was_set_back(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write()
            bench.original.clock.now -= 3_600_000
            await bench.write()
            await bench.compare()
            if self.durable:
                await bench.copy.restart()
                await bench.compare()
            waiting, others = [await bench.copy.read_all(Queue(*each)) for each in ((SCHEDULE_TOPIC, 2), ("A", 0))]
            assert waiting[-1].store_timestamp < waiting[0].store_timestamp
            assert others[-1].store_timestamp >= others[0].store_timestamp

        self.drive_both(tmp_path, case)

    def test_a_copied_record_is_visible_once_it_is_published(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            bench.put(6)
            await bench.follow(publish=False)
            assert bench.copy.store.bounds(Queue("A", 0)) == Bounds(0, 0)
            shown = await show(bench.copy)
            assert [entry.log_offset for entry in shown] == [entry.log_offset for entry in await show(bench.original)]
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_bytes_that_do_not_fit_are_refused(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            source, target = raw_log(bench.original), raw_log(bench.copy)
            first = bench.put(1)
            end = bench.put(1)
            data = await read_log(source, 0, end)
            assert target.append_raw(0, data[: first + 20]) == first  # the rest of the second record is missing
            for wrong in (0, first - 1, first + 1, end):
                with pytest.raises(LogMismatch):
                    target.append_raw(wrong, data[first:])
            for place in (3, 4, 8, 28, 35, 90):  # size, magic, CRC, log offset, and the body
                changed = bytearray(data[first:])
                changed[place] ^= 1
                with pytest.raises(LogMismatch):
                    target.append_raw(first, bytes(changed) + bytes(300))
                assert target.log_range() == (0, first)
            with pytest.raises(LogMismatch):
                target.append_raw(first, bytes(64))
            assert target.append_raw(first, data[first:]) == end
            await show(bench.original)
            await show(bench.copy)
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_records_before_a_wrong_one_are_appended(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            end = bench.put(3)
            data = await read_log(raw_log(bench.original), 0, end)
            with pytest.raises(LogMismatch, match=str(end)):
                raw_log(bench.copy).append_raw(0, data + b"x" * 200)
            await show(bench.original)
            await show(bench.copy)
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_own_messages_follow_the_copied_ones(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write()
            before = bench.copy.store.bounds(Queue("A", 0)).max_offset
            (result,) = await bench.copy.add(message("A", 0, b"own"))
            assert (result.queue_offset, result.log_offset) == (before, raw_log(bench.original).log_range().max_offset)
            assert bodies(await bench.copy.read_all(Queue("A", 0), before)) == [b"own"]

        self.drive_both(tmp_path, case)

    def test_a_topic_that_was_deleted_and_created_again_starts_at_0(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write()
            await bench.original.store.drop("A")
            await bench.original.add(message("A", 1, b"new"))
            await bench.follow()
            assert bodies(await bench.copy.read_all(Queue("A", 1))) == [b"new"]
            await bench.write()
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_a_stopped_store_refuses(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            end = bench.put(1)
            data = await read_log(raw_log(bench.original), 0, end)
            log = raw_log(bench.copy)
            await bench.copy.store.stop()
            with pytest.raises(StoreError):
                log.append_raw(0, data)
            with pytest.raises(StoreError):
                await log.truncate(0)

        self.drive_both(tmp_path, case)

    # --- truncating ---------------------------------------------------------------------------------------------------

    def test_a_log_can_be_cut_at_every_record_and_go_on(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            starts = [0]
            for _ in range(40):
                starts.append(bench.put(1))
            await show(bench.original)
            await bench.follow()
            for place in reversed(starts):
                await raw_log(bench.copy).truncate(place)
                assert raw_log(bench.copy).log_range() == (0, place)
                assert all(each < place for each in await log_offsets(bench.copy)), place
                if self.durable and place % 3 == 0:
                    assert (await bench.copy.restart()).log_end == place
                await bench.follow(publish=place % 2 == 0)
                await show(bench.copy)
                await bench.compare()

        self.drive_both(tmp_path, case)

    def test_unpublished_records_can_be_cut(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write()
            kept = bench.put(3)
            bench.put(6)
            await bench.follow(publish=False)
            await raw_log(bench.copy).truncate(kept)
            assert raw_log(bench.copy).log_range().max_offset == kept
            await bench.follow()
            await show(bench.original)
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_other_records_may_follow_a_cut(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write()
            end = raw_log(bench.original).log_range().max_offset
            await bench.copy.add(*[message("A", n % 3, b"other %d" % n, "TagB") for n in range(20)])
            await bench.copy.add(message("Only here", body=b"other"))
            await raw_log(bench.copy).truncate(end)
            assert Queue("Only here", 0) not in bench.copy.store.queues()
            await bench.compare()
            await bench.write()
            await bench.compare()
            if self.durable:
                await bench.copy.restart()
                await bench.compare()

        self.drive_both(tmp_path, case)

    def test_own_messages_follow_a_cut(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            store = bench.original.store
            (kept, *_) = await bench.original.add(*[message(body=b"%d" % n) for n in range(5)])
            await raw_log(bench.original).truncate(kept.end)
            assert store.bounds(Queue("T", 0)) == Bounds(0, 1)
            (result,) = await bench.original.add(message(body=b"next"))
            assert (result.queue_offset, result.log_offset) == (1, kept.end)
            assert bodies(await bench.original.read_all(Queue("T", 0))) == [b"0", b"next"]

        self.drive_both(tmp_path, case)

    def test_a_cut_needs_the_start_of_a_record(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write([4])
            log = raw_log(bench.original)
            end = log.log_range().max_offset
            for wrong in (-1, 1, end - 1, end + 1):
                with pytest.raises(LogMismatch):
                    await log.truncate(wrong)
            await log.truncate(end)
            await bench.compare()
            await bench.write([4])
            await bench.compare()

        self.drive_both(tmp_path, case)

    # --- visibility, retention and listeners --------------------------------------------------------------------------

    def test_nothing_above_the_limit_becomes_visible(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            store, log = bench.original.store, raw_log(bench.original)
            moved: list[int] = []
            log.on_limit_moved(lambda: moved.append(1))
            first, second, third = store.put([message(body=b"%d" % n) for n in range(3)])
            await store.flushed(third.end)
            limits = [log.visibility_limit]
            log.limit_visibility(second.end - 1)
            assert [*limits, log.visibility_limit] == [None, second.end - 1]
            assert [entry.log_offset for entry in store.publish(third.end)] == [first.log_offset]
            assert store.bounds(Queue("T", 0)) == Bounds(0, 1)
            assert store.state().published_offset == first.end
            log.limit_visibility(second.end)
            assert [entry.log_offset for entry in store.publish(third.end)] == [second.log_offset]
            log.limit_visibility(first.end)  # what is visible stays visible
            assert list(store.publish(third.end)) == []
            assert store.bounds(Queue("T", 0)) == Bounds(0, 2)
            log.limit_visibility(None)
            assert [entry.log_offset for entry in store.publish(third.end)] == [third.log_offset]
            assert len(moved) == 4

        self.drive_both(tmp_path, case)

    @pytest.mark.parametrize("again", [False, True])
    def test_what_is_hidden_comes_back_with_the_limit(self, tmp_path: Path, again: bool) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write([40, 30])
            log, store = raw_log(bench.copy), bench.copy.store
            place = log.log_range().max_offset
            before = await contents(bench.copy)
            await bench.write([50, 60, 1])
            if again:
                await log.hide(place)
                await bench.copy.restart()
                log, store = raw_log(bench.copy), bench.copy.store
            told = list[str]()
            log.on_truncated(lambda end: told.append(f"truncated {end}"))
            log.on_appended(lambda end: told.append(f"appended {end}"))
            await log.hide(place)
            end = log.log_range().max_offset
            assert (log.visibility_limit, store.state().published_offset) == (place, place)
            assert told == [f"truncated {place}", f"appended {end}"]
            assert {**await contents(bench.copy), "log": before["log"]} == before
            assert list(store.publish(end)) == []
            log.limit_visibility(None)
            shown = await show(bench.copy)
            assert (shown[0].log_offset, shown[-1].log_offset + shown[-1].size) == (place, end)
            await bench.compare()
            await bench.write([5])
            await bench.compare()
            if self.durable:
                await bench.copy.restart()
                await bench.compare()

        if self.durable or not again:
            self.drive_both(tmp_path, case)

    def test_only_whole_records_are_hidden(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            await bench.write([4])
            log = raw_log(bench.copy)
            end = log.log_range().max_offset
            with pytest.raises(LogMismatch):
                await log.hide(end - 1)
            await log.hide(end)
            await log.hide(0)
            await log.truncate(0)
            log.limit_visibility(None)
            assert log.log_range().max_offset == 0
            await bench.follow()
            await bench.compare()

        self.drive_both(tmp_path, case)

    def test_listeners_are_told_and_may_fail(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            log, told = raw_log(bench.copy), list[tuple[str, int]]()

            def failing(log_offset: int) -> None:
                raise ValueError("a listener that fails")

            log.on_appended(failing)
            log.on_truncated(failing)
            log.on_appended(lambda end: told.append(("appended", end)))
            cancel = log.on_truncated(lambda end: told.append(("truncated", end)))
            first = bench.put(1)
            await bench.follow(chunk_bytes=1 << 20)
            end = bench.put(2)
            await bench.follow(chunk_bytes=1 << 20)
            await log.truncate(first)
            cancel()
            cancel()
            await log.truncate(0)
            assert told == [("appended", first), ("appended", end), ("truncated", first)]

        self.drive_both(tmp_path, case)

    def test_each_sealed_segment_is_told_once(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            log, told = raw_log(bench.original), list[Segment]()
            log.on_sealed(told.append)
            for _ in range(60):
                bench.put(3)
                await show(bench.original)
            if not log.sealed_segments():
                assert told == []  # a log without files
                return
            assert told == list(log.sealed_segments())
            assert [segment.end for segment in told[:-1]] == [segment.start for segment in told[1:]]
            last = told[-1]
            assert len(await read_log(log, last.start, last.end - last.start)) == last.end - last.start
            await log.truncate(last.start)
            assert last not in log.sealed_segments()
            for _ in range(60):
                bench.put(3)
                await show(bench.original)
            assert told.count(last) == 2
            assert told[told.index(last) + 1 :] == [each for each in log.sealed_segments() if each.start >= last.start]

        self.drive_both(tmp_path, case)

    def test_a_floor_can_be_set_and_removed(self, tmp_path: Path) -> None:
        async def case(bench: LogBench) -> None:
            cancel = raw_log(bench.original).retain_from(lambda: 0)
            await bench.write()
            cancel()
            await bench.compare()

        self.drive_both(tmp_path, case)


class DurableRawLogContract(RawLogContract):
    """Derive instead of `RawLogContract` if the store survives the end of its process: adds crashes."""

    @pytest.mark.slow
    def test_a_copy_goes_on_wherever_its_process_ends(self) -> None:
        async def work(bench: LogBench) -> None:
            await bench.write([5, 14, 9])
            await raw_log(bench.copy).truncate(raw_log(bench.copy).log_range().min_offset)
            await bench.follow()

        self._crash_everywhere(work)

    @pytest.mark.slow
    def test_a_cut_has_happened_or_not_wherever_its_process_ends(self) -> None:
        async def work(bench: LogBench) -> None:
            await bench.follow(publish=True)
            end = raw_log(bench.copy).log_range().max_offset
            await bench.copy.add(*[message("A", n % 3, b"other %d" % n, "TagB", born_timestamp=n) for n in range(40)])
            whole = raw_log(bench.copy).log_range().max_offset
            bench.ends = (end, whole)
            await raw_log(bench.copy).truncate(end)
            bench.ends = ()
            await bench.follow()

        self._crash_everywhere(work, first=12)

    @pytest.mark.slow
    def test_hidden_messages_are_there_wherever_the_process_ends(self) -> None:
        async def work(bench: LogBench) -> None:
            await bench.follow()
            end = raw_log(bench.copy).log_range().max_offset
            bench.ends = (end,)
            await raw_log(bench.copy).hide(0)
            raw_log(bench.copy).limit_visibility(None)
            await show(bench.copy)
            bench.ends = ()

        self._crash_everywhere(work, first=40)

    def _crash_everywhere(self, work: Callable[[LogBench], Awaitable[None]], first: int = 0) -> None:
        """End the process of the copy at its first, second, ... last changing call of files while *work* runs."""
        number = 1
        while self._crash(work, number, first):
            number += 1
        assert number > 10

    def _crash(self, work: Callable[[LogBench], Awaitable[None]], number: int, first: int) -> bool:
        """Return whether the process ended before *work*; then start the copy again and go on."""

        async def main(world: World) -> bool:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimulatedLoop)
            clock = StandingClock(world.clock)
            process = SimulatedProcess(world, loop, "10.0.0.1", 1)
            copied = attrs.evolve(process.world, clock=StandingClock(process.world.clock))
            plain = attrs.evolve(world, clock=clock)
            original = StoreBench(lambda: self.make_store(plain, Path("/original")), clock)
            copy = StoreBench(lambda: self.make_store(copied, Path("/copy")), clock)
            bench = LogBench(original, copy)
            await original.store.start()
            if first:
                bench.put(first)
                await show(original)
            process.kill_at_file_call(number)

            async def run() -> None:
                await copy.store.start()
                await work(bench)

            task = process.run(run())
            await asyncio.wait([task])
            if process.alive:
                process.kill_at_file_call(0)
                task.result()
                await process.run(copy.store.stop())
            process.kill()
            bench.copy = StoreBench(lambda: self.make_store(plain, Path("/copy")), clock)
            await bench.copy.store.start()
            await self._check_after_crash(bench)
            await bench.copy.store.stop()
            await original.store.stop()
            return not task.done() or task.cancelled() or task.exception() is not None

        return simulate(1, main)

    async def _check_after_crash(self, bench: LogBench) -> None:
        """Check that the copy's queues are those of its log, cut what the original does not have, and go on."""
        source, target = raw_log(bench.original), raw_log(bench.copy)
        end, same = target.log_range().max_offset, source.log_range().max_offset
        assert not bench.ends or end in bench.ends, "a part of the log was cut"
        if end > same:
            await target.truncate(same)
        await bench.follow()
        await bench.compare()
        bench.put(8)
        await show(bench.original)
        await bench.follow()
        await bench.compare()
        await bench.copy.restart()
        await bench.compare()


def raw_log(bench: StoreBench) -> RawLog:
    """Return the raw log of the store."""
    log = bench.capabilities.raw_log
    assert log is not None, "the store has no raw log"
    return log


async def read_log(log: RawLogReader, start: int, max_bytes: int) -> bytes:
    """Read, awaiting the result if needed."""
    data = log.read_log(start, max_bytes)
    return await data if isawaitable(data) else data


async def show(bench: StoreBench) -> list[Any]:
    """Wait until everything is flushed, and publish it."""
    end = raw_log(bench).log_range().max_offset
    await bench.store.flushed(end)
    return list(bench.store.publish(end))


class _Codes:
    """A filter that accepts everything and records the tags codes."""

    accepts_all = needs_message = False

    def __init__(self) -> None:
        self.seen: list[int] = []

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        self.seen.append(tags_code)
        return True

    def match_message(self, record: RecordView) -> bool:
        return True


async def contents(bench: StoreBench) -> dict[str, Any]:
    """Return everything that can be read from the store."""
    store, log = bench.store, raw_log(bench)
    start, end = log.log_range()
    found: dict[str, Any] = {"queues": sorted(store.queues()), "entries": list(store.scan(start, end))}
    place, data = start, []
    while place < end:
        data.append(await read_log(log, place, 1 << 20))
        place += len(data[-1])
    found["log"] = b"".join(data)
    for queue in found["queues"]:
        codes = _Codes()
        records = await bench.read_all(queue, store.bounds(queue).min_offset, match=codes)
        found[f"queue {queue}"] = store.bounds(queue), [bytes(record.raw) for record in records], codes.seen
    for topic in TOPICS:
        for key in ("red", "green", *(f"U{number}" for number in range(0, 60, 7))):
            found[f"key {topic} {key}"] = await _with_key(bench, topic, key)
    return found


async def log_offsets(bench: StoreBench) -> list[int]:
    """Return the log offsets of all records in queues, and of those found by key."""
    found = []
    for queue in bench.store.queues():
        found += [record.log_offset for record in await bench.read_all(queue, bench.store.bounds(queue).min_offset)]
    for topic in TOPICS:
        found += [read_record(record).log_offset for record in await _with_key(bench, topic, "red")]
    return found


async def _with_key(bench: StoreBench, topic: str, key: str) -> list[bytes]:
    """Return the records of *topic* with *key*; nothing if the store does not support queries by key."""
    queries = bench.capabilities.key_queries
    if queries is None:
        return []
    result = queries.query(topic, key, 0, 1 << 62, 64)
    answer = await result if isawaitable(result) else result
    assert answer.complete, answer.problem
    return [bytes(record) for record in answer.records]


def _message(number: int) -> StoreMessage:
    """Return a message of one of several kinds: plain, delayed, half, rolled back, joined, long."""
    kind = number % 13
    pairs = {properties.UNIQ_KEY: f"U{number}"}
    if kind % 4 == 0:
        pairs[properties.KEYS] = "red green"
    tag = "TagA" if kind % 2 else ""
    if tag:
        pairs[properties.TAGS] = tag
    topic, queue_id, flags, targets = "AB"[number % 2], number % 3, 0, None
    if kind == 5:
        flags = sys_flag.TRANSACTION_PREPARED
    elif kind == 6:
        flags = sys_flag.TRANSACTION_ROLLBACK
    elif kind == 7:
        topic = "%RETRY%group"
    elif kind == 8:
        topic, queue_id = SCHEDULE_TOPIC, 2
        pairs[properties.DELAY] = "3"
        targets = QueueTargets(due_in_ms=10_000)
    size = 400 if kind == 9 else 10 + number * 37 % 90
    return StoreMessage(
        topic,
        queue_id,
        b"%d " % number + b"x" * size,
        properties.encode(pairs),
        tags_code(tag),
        sys_flag=flags,
        born_timestamp=START_MS - number,
        same_file_as_previous=kind == 11,
        queue_targets=targets,
    )
