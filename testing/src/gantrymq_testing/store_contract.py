"""What every message store promises, as tests.

A plugin's test derives from `StoreContract` and says how to make its store:

    class TestMyStore(StoreContract):
        def make_store(self, world, root, **settings):
            return MyStore(StoreContext(world, root, Settings(SCHEMA, settings)))

``settings`` are keys of RocketMQ that every store obeys (here only ``maxMessageSize``). The promises are those of
`gantrymq.interfaces.MessageStore`; statuses and offsets of a get are RocketMQ's
(apache/rocketmq store/.../DefaultMessageStore.java, getMessage; ConsumeQueue.java, getOffsetInQueueByTime).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, RecordView, body_crc, read_record
from gantrymq.interfaces import Bounds, Cleaning, CleanReport, GetLimit, GetStatus, MessageStore, PutStatus
from gantrymq.model import sys_flag
from gantrymq.model.hosts import pack_host
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_testing.store_contract_bench import (
    START_MS,
    OnlyTags,
    StandingClock,
    StoreBench,
    bodies,
    keyed,
    message,
    records_of,
)

T0 = Queue("T", 0)
NEVER = Queue("Never", 0)

Case = Callable[[Any, StoreBench], Awaitable[None]]


def with_store(**settings: Any) -> Callable[[Case], Callable[[Any, Path], None]]:
    """Run an async test method with a `StoreBench` on an event loop of its own."""

    def decorate(case: Case) -> Callable[[Any, Path], None]:
        def run(self: StoreContract, tmp_path: Path) -> None:
            asyncio.run(self.drive(case, tmp_path / "store", settings))

        run.__name__, run.__doc__ = case.__name__, case.__doc__
        return run

    return decorate


class StoreContract:
    """Derive and define `make_store`."""

    durable = True
    """Whether what was stored is there after a stop and a start on the same folder."""

    def make_store(self, world: World, root: Path, **settings: Any) -> MessageStore:
        """A store on *root* that is not started; called again on the same folder for a restart."""
        raise NotImplementedError

    def make_world(self) -> World:
        """Where the store lives; its clock is replaced by one that stands still."""
        return real_world()

    async def drive(self, case: Case, root: Path, settings: dict[str, Any]) -> None:
        """Open a store, run *case* and stop the store."""
        world = self.make_world()
        clock = StandingClock(world.clock)
        world = attrs.evolve(world, clock=clock)
        bench = StoreBench(lambda: self.make_store(world, root, **settings), clock)
        await bench.store.start()
        try:
            await case(self, bench)
        finally:
            await bench.store.stop()
            await world.workers.close()

    # --- visibility -------------------------------------------------------------------------------------------------

    @with_store()
    async def test_nothing_is_visible_before_it_is_published(self, bench: StoreBench) -> None:
        (result,) = bench.store.put([message()])
        await bench.store.flushed(result.end)
        assert bench.store.bounds(T0) == Bounds(0, 0)
        assert (await bench.get(T0, 0)).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert list(bench.store.scan(0, result.end)) == []
        assert await bench.offsets_at(T0, START_MS) == (0, 0)
        await bench.publish([result])
        assert bench.store.bounds(T0) == Bounds(0, 1)
        assert (await bench.get(T0, 0)).status is GetStatus.FOUND

    @with_store()
    async def test_publish_shows_what_ends_at_or_before_the_given_offset(self, bench: StoreBench) -> None:
        first, second, third = bench.store.put([message(body=b"1"), message(body=b"2"), message(body=b"3")])
        await bench.store.flushed(third.end)
        assert [entry.log_offset for entry in bench.store.publish(second.end - 1)] == [first.log_offset]
        assert bench.store.bounds(T0).max_offset == 1
        assert [entry.log_offset for entry in bench.store.publish(second.end)] == [second.log_offset]
        assert list(bench.store.publish(first.end)) == []  # going back shows nothing twice
        assert [entry.queue_offset for entry in bench.store.publish(third.end)] == [2]
        assert bodies(await bench.read_all(T0)) == [b"1", b"2", b"3"]

    @with_store()
    async def test_publish_says_what_was_stored(self, bench: StoreBench) -> None:
        sent = message("Topic", 3, b"hello", "TagA", sys_flag=sys_flag.TRANSACTION_COMMIT, prepared_offset=77)
        (result,) = bench.store.put([sent])
        (entry,) = await bench.publish([result])
        assert entry[:4] == ("Topic", 3, 0, result.log_offset)
        assert (entry.size, entry.tags_code) == (result.size, 2598919)
        assert (entry.store_timestamp, entry.sys_flag) == (START_MS, sys_flag.TRANSACTION_COMMIT)
        assert (entry.prepared_offset, bytes(entry.properties)) == (77, b"TAGS\x01TagA\x02")

    @with_store()
    async def test_prepared_and_rolled_back_records_are_in_the_log_but_in_no_queue(self, bench: StoreBench) -> None:
        await bench.add(message(body=b"before"))
        results = bench.store.put(
            [
                message(body=b"half", sys_flag=sys_flag.TRANSACTION_PREPARED),
                message(body=b"undone", sys_flag=sys_flag.TRANSACTION_ROLLBACK),
                message(body=b"done", sys_flag=sys_flag.TRANSACTION_COMMIT),
            ]
        )
        assert [result.queue_offset for result in results] == [0, 0, 1]
        assert len(await bench.publish(results)) == 3
        assert bodies(await bench.read_all(T0)) == [b"before", b"done"]

    # --- put --------------------------------------------------------------------------------------------------------

    @with_store()
    async def test_queue_offsets_are_consecutive_in_every_queue(self, bench: StoreBench) -> None:
        places = [("A", 0), ("B", 0), ("A", 1), ("A", 0), ("A", 0), ("B", 0), ("A", 1)]
        results = await bench.add(*[message(topic, queue, str(n).encode()) for n, (topic, queue) in enumerate(places)])
        assert [result.queue_offset for result in results] == [0, 0, 0, 1, 2, 1, 1]
        assert [result.log_offset for result in results[1:]] == [result.end for result in results[:-1]]
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"0", b"3", b"4"]
        assert bodies(await bench.read_all(Queue("A", 1))) == [b"2", b"6"]
        assert bodies(await bench.read_all(Queue("B", 0))) == [b"1", b"5"]
        assert set(bench.store.queues()) == {Queue("A", 0), Queue("A", 1), Queue("B", 0)}

    @with_store()
    async def test_a_joined_batch_lies_back_to_back(self, bench: StoreBench) -> None:
        batch = [message(body=b"%d" % n, joined=n > 0) for n in range(5)]
        results = await bench.add(message(body=b"single"), *batch)
        assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4, 5]
        assert [result.log_offset for result in results[1:]] == [result.end for result in results[:-1]]
        assert bodies(await bench.read_all(T0, 1)) == [b"0", b"1", b"2", b"3", b"4"]

    @with_store()
    async def test_a_record_holds_what_was_put(self, bench: StoreBench) -> None:
        born = pack_host("10.1.2.3", 4567)
        stored = pack_host("127.0.0.1", 10911)
        sent = message(
            "Topic", 2, b"hello", "TagA", flag=5, sys_flag=1, born_timestamp=START_MS - 9, born_host=born,
            store_host=stored, reconsume_times=3, prepared_offset=11,
        )  # fmt: skip
        await bench.add(message("Topic", 2))
        (result,) = await bench.add(sent)
        (record,) = await bench.read_all(Queue("Topic", 2), 1)
        assert (record.topic, record.queue_id, record.queue_offset) == ("Topic", 2, 1)
        assert (record.log_offset, record.total_size) == (result.log_offset, result.size)
        assert (record.magic, record.flag, record.sys_flag) == (MAGIC_V1, 5, 1)
        assert (record.body_crc, bytes(record.body)) == (body_crc(b"hello"), b"hello")
        assert (record.born_timestamp, record.store_timestamp) == (START_MS - 9, START_MS)
        assert (record.born_host, record.store_host) == (born, stored)
        assert (record.reconsume_times, record.prepared_offset) == (3, 11)
        assert bytes(record.properties_bytes) == b"TAGS\x01TagA\x02"

    @with_store()
    async def test_ipv6_hosts_are_marked_in_the_sys_flag(self, bench: StoreBench) -> None:
        six, four = pack_host("::1", 1), pack_host("1.2.3.4", 2)
        await bench.add(
            message(born_host=six, store_host=four, sys_flag=sys_flag.STORE_HOST_V6),
            message(born_host=four, store_host=six),
            message(born_host=six, store_host=six),
        )
        records = await bench.read_all(T0)
        assert [record.sys_flag for record in records] == [0x10, 0x20, 0x30]
        assert [(record.born_host, record.store_host) for record in records] == [(six, four), (four, six), (six, six)]

    @with_store()
    async def test_a_long_topic_makes_a_version_2_record(self, bench: StoreBench) -> None:
        topic = "%RETRY%" + "g" * 140
        await bench.add(message(topic))
        (record,) = await bench.read_all(Queue(topic, 0))
        assert (record.magic, record.topic) == (MAGIC_V2, topic)

    @with_store()
    async def test_bodies_may_be_empty_or_a_view(self, bench: StoreBench) -> None:
        await bench.add(message(body=b""), message(body=memoryview(b"xviewx")[1:5]))
        assert bodies(await bench.read_all(T0)) == [b"", b"view"]

    @with_store()
    async def test_store_time_never_goes_back(self, bench: StoreBench) -> None:
        times = []
        for now in (START_MS + 5, START_MS, START_MS + 7):
            bench.clock.now = now
            times += [result.store_timestamp for result in await bench.add(message())]
        assert times == [START_MS + 5, START_MS + 5, START_MS + 7]

    @with_store(maxMessageSize=2048)
    async def test_what_is_too_long_is_refused_and_leaves_the_others_alone(self, bench: StoreBench) -> None:
        results = bench.store.put(
            [
                message(body=b"x" * 2048),
                message(body=b"x" * 2049),
                message(properties=b"a\x01" + b"x" * 32765 + b"\x02"),
                message(topic="T" * 256),
                message(body=b"last", properties=b"a\x01" + b"x" * 32764 + b"\x02"),
            ]
        )
        ok, illegal = PutStatus.OK, PutStatus.MESSAGE_ILLEGAL
        assert [result.status for result in results] == [ok, illegal, illegal, illegal, ok]
        assert all(result.problem for result in results[1:4])
        assert "2049" in results[1].problem
        assert "2048" in results[1].problem
        assert (results[4].queue_offset, results[4].log_offset) == (1, results[0].end)
        await bench.publish(results)
        assert bodies(await bench.read_all(T0)) == [b"x" * 2048, b"last"]

    @with_store()
    async def test_a_stopped_store_refuses_with_a_sentence(self, bench: StoreBench) -> None:
        await bench.add(message())
        await bench.store.stop()
        await bench.store.stop()
        results = bench.store.put([message(), message()])
        assert [result.status for result in results] == [PutStatus.SERVICE_NOT_AVAILABLE] * 2
        assert all(result.problem for result in results)
        assert bench.store.state().refusal

    @with_store()
    async def test_watermarks_follow_append_flush_and_publication(self, bench: StoreBench) -> None:
        before = bench.store.state()
        assert (before.min_log_offset, before.max_log_offset, before.published_offset) == (0, 0, 0)
        assert before.refusal is None
        (result,) = bench.store.put([message()])
        appended = bench.store.state()
        assert (appended.max_log_offset, appended.published_offset) == (result.end, 0)
        await bench.store.flushed(result.end)
        assert bench.store.state().flushed_offset == result.end
        bench.store.publish(result.end)
        assert bench.store.state().published_offset == result.end

    @with_store()
    async def test_many_may_wait_for_one_flush(self, bench: StoreBench) -> None:
        results = bench.store.put([message() for _ in range(20)])

        async def wait(log_offset: int) -> None:
            await bench.store.flushed(log_offset)

        await asyncio.gather(*[wait(result.end) for result in results])
        await bench.store.flushed(results[0].end)
        assert bench.store.state().flushed_offset == results[-1].end

    # --- get --------------------------------------------------------------------------------------------------------

    @with_store()
    async def test_status_and_next_offset_of_a_get_that_finds_nothing(self, bench: StoreBench) -> None:
        for queue_offset in (0, 7):
            result = await bench.get(NEVER, queue_offset)
            assert result[:4] == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        await bench.add(message(), message(), message())
        for queue_offset, status, next_offset in (
            (-1, GetStatus.OFFSET_TOO_SMALL, 0),
            (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
            (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
            (1 << 62, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
        ):
            result = await bench.get(T0, queue_offset)
            assert result[:4] == (status, next_offset, 0, 3), queue_offset
            assert (result.count, result.size, len(result.buffers)) == (0, 0, 0)

    @with_store()
    async def test_a_get_returns_the_records_as_they_lie_in_the_log(self, bench: StoreBench) -> None:
        results = await bench.add(*[message(body=b"%d" % n) for n in range(5)])
        got = await bench.get(T0, 1)
        assert got[:4] == (GetStatus.FOUND, 5, 0, 5)
        assert bodies(records_of(got)) == [b"1", b"2", b"3", b"4"]
        assert got.size == sum(result.size for result in results[1:])
        for result, record in zip(results[1:], records_of(got), strict=True):
            assert read_record(record.raw).log_offset == result.log_offset

    @with_store()
    async def test_a_get_keeps_to_the_count(self, bench: StoreBench) -> None:
        await bench.add(*[message(body=b"%d" % n) for n in range(5)])
        got = await bench.get(T0, 1, GetLimit(max_count=2))
        assert (bodies(records_of(got)), got.next_offset) == ([b"1", b"2"], 3)
        got = await bench.get(T0, 4, GetLimit(max_count=2))
        assert (bodies(records_of(got)), got.next_offset) == ([b"4"], 5)

    @with_store()
    async def test_a_get_keeps_to_the_bytes_but_returns_one_record_at_least(self, bench: StoreBench) -> None:
        results = await bench.add(*[message(body=bytes([n]) * 500) for n in range(4)])
        size = results[0].size
        for max_bytes, count in ((3 * size, 3), (3 * size - 1, 2), (size, 1), (101, 1)):
            got = await bench.get(T0, 0, GetLimit(max_bytes=max_bytes))
            assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, count, count), max_bytes

    @with_store()
    async def test_gets_by_next_offset_meet_every_message_once(self, bench: StoreBench) -> None:
        sent = [b"%d" % n * (n % 300 + 1) for n in range(400)]
        await bench.add(*[message(body=body) for body in sent])
        for limit in (GetLimit(), GetLimit(max_count=7), GetLimit(max_count=1000), GetLimit(max_bytes=2000)):
            assert bodies(await bench.read_all(T0, limit=limit)) == sent

    @with_store()
    async def test_what_a_get_returned_stays_as_it_was(self, bench: StoreBench) -> None:
        await bench.add(message(body=b"old"))
        got = await bench.get(T0, 0)
        kept = [bytes(buffer) for buffer in got.buffers]
        await bench.add(*[message(body=b"new" * 100) for _ in range(100)])
        assert [bytes(buffer) for buffer in got.buffers] == kept

    # --- filters ----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_a_filter_chooses(self, tmp_path: Path, needs_message: bool) -> None:
        @with_store()
        async def case(self: StoreContract, bench: StoreBench) -> None:
            await bench.add(*[message(body=b"%d" % n, tag="ABC"[n % 3]) for n in range(9)])
            got = await bench.get(T0, 0, match=OnlyTags("B", needs_message=needs_message))
            assert (got.status, got.next_offset) == (GetStatus.FOUND, 9)
            assert bodies(records_of(got)) == [b"1", b"4", b"7"]
            got = await bench.get(T0, 0, GetLimit(max_count=2), OnlyTags("A", "C", needs_message=needs_message))
            assert (bodies(records_of(got)), got.next_offset) == ([b"0", b"2"], 3)

        case(self, tmp_path)

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_next_offset_moves_past_what_is_filtered(self, tmp_path: Path, needs_message: bool) -> None:
        @with_store()
        async def case(self: StoreContract, bench: StoreBench) -> None:
            await bench.add(*[message(tag="A") for _ in range(6)])
            got = await bench.get(T0, 2, match=OnlyTags("Z", needs_message=needs_message))
            assert got[:4] == (GetStatus.NO_MATCHED_MESSAGE, 6, 0, 6)
            assert got.count == 0

        case(self, tmp_path)

    @with_store()
    async def test_the_needle_in_a_haystack_is_found(self, bench: StoreBench) -> None:
        await bench.add(*[message(tag="hay") for _ in range(2000)], message(body=b"needle", tag="N"))
        assert bodies(await bench.read_all(T0, match=OnlyTags("N"))) == [b"needle"]

    @with_store()
    async def test_a_filter_that_accepts_all_need_not_be_asked(self, bench: StoreBench) -> None:
        class Everything(OnlyTags):
            accepts_all = True

            def match_entry(self, tags_code: int, ext: object) -> bool:
                return True

            def match_message(self, record: RecordView) -> bool:
                return True

        await bench.add(message(tag="A"), message())
        assert (await bench.get(T0, 0, match=Everything())).count == 2

    # --- look-ups ---------------------------------------------------------------------------------------------------

    @with_store()
    async def test_bounds_of_a_queue(self, bench: StoreBench) -> None:
        assert bench.store.bounds(NEVER) == Bounds(0, 0)
        await bench.add(message(), message())
        assert bench.store.bounds(T0) == Bounds(0, 2)
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 0)
        assert list(bench.store.queues()) == [T0]

    @with_store()
    async def test_offset_by_time_with_equal_times(self, bench: StoreBench) -> None:
        assert await bench.offsets_at(NEVER, START_MS) == (0, 0)
        for seconds in (10, 20, 20, 20, 40):
            bench.clock.now = START_MS + seconds
            await bench.add(message(), message(queue_id=1))
        for seconds, lower, upper in (
            (0, 0, 0),  # before all
            (10, 0, 0),
            (15, 1, 0),
            (20, 1, 3),  # first and last of the equal ones
            (30, 4, 3),
            (40, 4, 4),
            (50, 5, 4),  # after all: the end, and the last
        ):
            assert await bench.offsets_at(T0, START_MS + seconds) == (lower, upper), seconds

    @with_store()
    async def test_read_finds_records_by_log_offset_and_nothing_between(self, bench: StoreBench) -> None:
        results = await bench.add(message(body=b"one"), message(body=b"two"))
        for result, body in zip(results, (b"one", b"two"), strict=True):
            record = bench.store.read(result.log_offset)
            assert record is not None
            assert (record.log_offset, bytes(record.body)) == (result.log_offset, body)
        for nowhere in (-1, 1, results[1].log_offset - 1, results[1].end, 1 << 62):
            assert bench.store.read(nowhere) is None, nowhere

    @with_store()
    async def test_scan_replays_what_publish_said(self, bench: StoreBench) -> None:
        results = bench.store.put([message("T", n % 3, b"%d" % n, "AB"[n % 2]) for n in range(10)])
        said = list(await bench.publish(results))
        (late,) = bench.store.put([message()])
        assert list(bench.store.scan(0, late.end)) == said
        assert list(bench.store.scan(results[3].log_offset, results[7].log_offset)) == said[3:7]
        assert list(bench.store.scan(results[9].end, late.end)) == []
        assert list(bench.store.scan(results[5].log_offset, results[5].log_offset)) == []

    @with_store()
    async def test_drop_forgets_the_queues_of_one_topic(self, bench: StoreBench) -> None:
        results = await bench.add(message("A"), message("A", 1), message("AB"), message("A"))
        dropped = [bench.store.drop("A"), bench.store.drop("Never")]
        assert bench.store.bounds(Queue("A", 0)) == Bounds(0, 0)  # at once
        for each in dropped:
            await each
        bench.store.drop("Never")  # nobody needs to wait
        assert bench.store.bounds(Queue("A", 0)) == Bounds(0, 0)
        assert (await bench.get(Queue("A", 1), 0)).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert list(bench.store.queues()) == [Queue("AB", 0)]
        assert bench.store.read(results[0].log_offset) is not None
        (again,) = await bench.add(message("A", body=b"again"))
        assert again.queue_offset == 0
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"again"]

    @with_store()
    async def test_view_finds_what_read_finds(self, bench: StoreBench) -> None:
        (first, second) = await bench.add(message(body=b"one"), message(body=b"two"))
        viewed = await bench.view(second.log_offset)
        assert viewed is not None
        assert bytes(viewed.body) == b"two"
        for nowhere in (-1, 1, second.end, 1 << 62):
            assert await bench.view(nowhere) is None, nowhere
        assert first.end == second.log_offset

    # --- query ------------------------------------------------------------------------------------------------------

    @with_store()
    async def test_messages_are_found_by_unique_key_and_by_each_key(self, bench: StoreBench) -> None:
        await bench.add(
            keyed(b"1", "red  green", "U1"),
            keyed(b"2", "green", "U2"),
            keyed(b"3", "ä \U0001f600", "U3"),
            message(body=b"no key"),
            keyed(b"4", unique="green"),
        )
        for key, found in (
            *(("U1", [b"1"]), ("red", [b"1"]), ("green", [b"1", b"2", b"4"])),
            *(("ä", [b"3"]), ("\U0001f600", [b"3"]), ("U3", [b"3"])),
        ):
            assert bodies((await bench.query(key))[0]) == found, key

    @with_store()
    async def test_a_query_looks_at_one_topic(self, bench: StoreBench) -> None:
        await bench.add(keyed(b"1", "k"), keyed(b"2", "k", topic="Other"), keyed(b"3", "k"))
        assert bodies((await bench.query("k"))[0]) == [b"1", b"3"]
        assert bodies((await bench.query("k", topic="Other"))[0]) == [b"2"]

    @with_store()
    async def test_a_query_gives_the_newest_oldest_first(self, bench: StoreBench) -> None:
        await bench.add(*[keyed(b"%d" % n, "k") for n in range(10)])
        assert bodies((await bench.query("k", limit=3))[0]) == [b"7", b"8", b"9"]
        assert bodies((await bench.query("k", limit=1))[0]) == [b"9"]
        assert (await bench.query("k", limit=0))[0] == []

    @with_store()
    async def test_a_query_keeps_to_its_window(self, bench: StoreBench) -> None:
        for n in range(5):
            bench.clock.now = START_MS + n * 10_000
            await bench.add(keyed(b"%d" % n, "k"))
        for first, last, found in ((0, 4, [0, 1, 2, 3, 4]), (1, 3, [1, 2, 3]), (2, 2, [2]), (4, 9, [4]), (5, 9, [])):
            window = (START_MS + first * 10_000, START_MS + last * 10_000)
            assert bodies((await bench.query("k", window))[0]) == [b"%d" % n for n in found]

    @with_store()
    async def test_prepared_messages_are_found_and_rolled_back_ones_are_not(self, bench: StoreBench) -> None:
        await bench.add(
            keyed(b"half", "k", sys_flag=sys_flag.TRANSACTION_PREPARED),
            keyed(b"undone", "k", sys_flag=sys_flag.TRANSACTION_ROLLBACK),
            keyed(b"done", "k", sys_flag=sys_flag.TRANSACTION_COMMIT),
        )
        assert bodies((await bench.query("k"))[0]) == [b"half", b"done"]

    @with_store()
    async def test_a_query_does_not_find_what_is_not_published(self, bench: StoreBench) -> None:
        results = bench.store.put([keyed(b"1", "k")])
        assert (await bench.query("k"))[0] == []
        await bench.publish(results)
        assert bodies((await bench.query("k"))[0]) == [b"1"]

    # --- cleaning ---------------------------------------------------------------------------------------------------

    @with_store()
    async def test_cleaning_leaves_alone_what_has_not_expired(self, bench: StoreBench) -> None:
        await bench.add(message("A", body=b"1"), message("B", body=b"2"))
        for what in Cleaning:
            assert await bench.store.clean(what) == CleanReport()
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"1"]
        assert sorted(bench.store.queues()) == [Queue("A", 0), Queue("B", 0)]

    @with_store()
    async def test_a_refusal_has_a_cause(self, bench: StoreBench) -> None:
        assert (bench.store.state().refusal, bench.store.state().refusal_cause) == (None, "")
        await bench.store.stop()
        assert bench.store.state().refusal
        assert bench.store.state().refusal_cause == "not_running"

    @with_store()
    async def test_a_query_that_finds_nothing_says_why(self, bench: StoreBench) -> None:
        assert (await bench.query("no-such-key"))[1]
        await bench.add(message(), keyed(b"1", "k"))
        records, problem = await bench.query("no-such-key")
        assert records == []
        assert "no-such-key" in problem
        assert (await bench.query("k", (0, START_MS - 10_000)))[1]

    # --- restart ----------------------------------------------------------------------------------------------------

    @with_store()
    async def test_a_restart_keeps_everything(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        sent = [message("AB"[n % 2], n % 3, b"%d" % n * 50, "TagA") for n in range(60)]
        results = await bench.add(*sent)
        queues = sorted(bench.store.queues())
        before = {queue: [bytes(record.raw) for record in await bench.read_all(queue)] for queue in queues}
        entries = list(bench.store.scan(0, results[-1].end))
        for _ in range(2):
            report = await bench.restart()
            assert report.clean
            assert (report.log_end, report.cut_bytes) == (results[-1].end, 0)
            assert sorted(bench.store.queues()) == queues
            after = {queue: [bytes(record.raw) for record in await bench.read_all(queue)] for queue in queues}
            assert after == before
            assert list(bench.store.scan(0, results[-1].end)) == entries
            state = bench.store.state()
            assert state.max_log_offset == state.flushed_offset == state.published_offset == results[-1].end

    @with_store()
    async def test_a_restart_keeps_keys(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        for n in range(3):
            await bench.add(keyed(b"%d" % n, "k", f"U{n}"), message(body=b"no key"))
            await bench.restart()
            assert bodies((await bench.query("k"))[0]) == [b"%d" % m for m in range(n + 1)]
            assert bodies((await bench.query(f"U{n}"))[0]) == [b"%d" % n]

    @with_store()
    async def test_numbers_go_on_after_a_restart(self, bench: StoreBench) -> None:
        if not self.durable:
            pytest.skip("this store is not durable")
        results = await bench.add(message(), message(), message(queue_id=1))
        bench.clock.now -= 1000
        await bench.restart()
        more = await bench.add(message(body=b"more"), message(queue_id=1), message("Other"))
        assert [result.queue_offset for result in more] == [2, 1, 0]
        assert more[0].log_offset == results[-1].end
        assert bodies(await bench.read_all(T0, 2)) == [b"more"]

    @with_store()
    async def test_an_empty_store_restarts(self, bench: StoreBench) -> None:
        report = await bench.restart()
        assert report.clean
        assert (report.log_end, report.records_checked) == (0, 0)
        assert list(bench.store.queues()) == []
