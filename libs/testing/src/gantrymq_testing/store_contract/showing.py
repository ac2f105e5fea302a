"""Visibility of messages."""

from __future__ import annotations

from gantrymq.interfaces import Bounds, GetStatus
from gantrymq.model import sys_flag
from gantrymq_testing.store_contract.cases import T0, StoreCases, with_store
from gantrymq_testing.store_contract_bench import START_MS, StoreBench, bodies, message


class ShowingCases(StoreCases):
    """Nothing is visible before it is published."""

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
        assert list(bench.store.publish(first.end)) == []  # moving the end back shows no message twice
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
