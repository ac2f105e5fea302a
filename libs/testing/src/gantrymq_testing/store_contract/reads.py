"""Cases of reads: results of a get, filtering, and look-ups by offset, by time and by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import Bounds, GetLimit, GetStatus
from gantrymq.model import sys_flag
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import (
    NEVER,
    START_MS,
    T0,
    OnlyTags,
    ShortTurn,
    StoreBench,
    StoreCases,
    bodies,
    keyed,
    message,
    records_of,
    with_store,
)


class GetCases(StoreCases):
    """Statuses, offsets and bounds of a get are RocketMQ's."""

    # --- get ----------------------------------------------------------------------------------------------------------

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

    # --- filters ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_a_filter_chooses(self, tmp_path: Path, needs_message: bool) -> None:
        @with_store()
        async def case(self: StoreCases, bench: StoreBench) -> None:
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
        async def case(self: StoreCases, bench: StoreBench) -> None:
            await bench.add(*[message(tag="A") for _ in range(6)])
            got = await bench.get(T0, 2, match=OnlyTags("Z", needs_message=needs_message))
            assert got[:4] == (GetStatus.NO_MATCHED_MESSAGE, 6, 0, 6)
            assert got.count == 0

        case(self, tmp_path)

    @pytest.mark.parametrize("needs_message", [False, True], ids=["on the entry", "on the message"])
    def test_a_filter_whose_turn_is_over_ends_the_get_before_the_entry(
        self, tmp_path: Path, needs_message: bool
    ) -> None:
        @with_store()
        async def case(self: StoreCases, bench: StoreBench) -> None:
            await bench.add(*[message(body=b"%d" % n, tag="AB"[n % 2]) for n in range(9)])
            for asked in range(10):
                got = await bench.get(T0, 0, match=ShortTurn(asked, "A", needs_message=needs_message))
                found = [b"%d" % n for n in range(0, min(asked, 9), 2)]
                assert (got.count, got.next_offset, bodies(records_of(got))) == (len(found), min(asked, 9), found)
                assert got.status is (GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE)

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


class LookupCases(StoreCases):
    """Messages are found by offset, time and key."""

    # --- look-ups -----------------------------------------------------------------------------------------------------

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
        bench.store.drop("Never")  # need not be awaited
        assert bench.store.bounds(Queue("A", 0)) == Bounds(0, 0)
        assert (await bench.get(Queue("A", 1), 0)).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert list(bench.store.queues()) == [Queue("AB", 0)]
        assert bench.store.read(results[0].log_offset) is not None
        (again,) = await bench.add(message("A", body=b"again"))
        assert again.queue_offset == 0
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"again"]

    @with_store()
    async def test_a_store_knows_when_a_topic_was_dropped(self, bench: StoreBench) -> None:
        if not hasattr(bench.store, "dropped_at"):
            pytest.skip("this store does not remember when topics were dropped")
        (before,) = await bench.add(message("Other"))
        await bench.store.drop("A")  # had no queue; its messages may be in the broker's own queue
        assert bench.capabilities.dropped_at("A") == before.end
        (again,) = await bench.add(message("A"))
        assert (bench.capabilities.dropped_at("A"), bench.capabilities.dropped_at("Other")) == (before.end, 0)
        await bench.store.drop("A")
        if self.durable:
            await bench.restart()
        assert bench.capabilities.dropped_at("A") == again.end

    @with_store()
    async def test_view_finds_what_read_finds(self, bench: StoreBench) -> None:
        (first, second) = await bench.add(message(body=b"one"), message(body=b"two"))
        viewed = await bench.view(second.log_offset)
        assert viewed is not None
        assert bytes(viewed.body) == b"two"
        for nowhere in (-1, 1, second.end, 1 << 62):
            assert await bench.view(nowhere) is None, nowhere
        assert first.end == second.log_offset

    # --- query --------------------------------------------------------------------------------------------------------

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

    @with_store()
    async def test_a_query_that_finds_nothing_says_why(self, bench: StoreBench) -> None:
        assert (await bench.query("no-such-key"))[1]
        await bench.add(message(), keyed(b"1", "k"))
        records, problem = await bench.query("no-such-key")
        assert records == []
        assert "no-such-key" in problem
        assert (await bench.query("k", (0, START_MS - 10_000)))[1]
