"""Cases of puts: what a store accepts and refuses, when it is visible, and what cleaning and a restart preserve."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, RecordView, body_crc
from gantrymq.interfaces import (
    Bounds,
    Cleaning,
    CleanReport,
    ExtUnit,
    GetLimit,
    GetResult,
    GetStatus,
    MessageBatch,
    PutStatus,
    QueueTargets,
)
from gantrymq.model import sys_flag
from gantrymq.model.hosts import pack_host
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import (
    START_MS,
    T0,
    StoreBench,
    StoreCases,
    bodies,
    keyed,
    message,
    with_store,
)

HOUR_MS = 3_600_000


class VisibilityCases(StoreCases):
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
    async def test_an_encoded_batch_is_stored_like_its_messages(self, bench: StoreBench) -> None:
        body = encode_batch([BatchEntry(3, b"one", b"TAGS\x01TagA\x02"), BatchEntry(0, b"two", b"KEYS\x01k")])
        host = pack_host("10.1.2.3", 5)
        batch = MessageBatch(2, T0.topic, 0, body, b"WAIT\x01true\x02", None, 1, START_MS - 1, host, host, 2, True)
        for _ in range(2):  # stores may treat the first message of a queue differently
            first, second = await bench.publish(bench.store.put(batch))
            assert (first.tags_code, second.tags_code) == (2598919, 0)
            assert [bytes(each.properties) for each in (first, second)] == [
                b"TAGS\x01TagA\x02WAIT\x01true\x02",
                b"KEYS\x01k\x02WAIT\x01true\x02",
            ]
        found = await bench.read_all(T0)
        assert bodies(found) == [b"one", b"two"] * 2
        assert [each.queue_offset for each in found] == [0, 1, 2, 3]
        for record in found:
            assert (record.sys_flag, record.born_timestamp, record.reconsume_times) == (1, START_MS - 1, 2)
            assert (bytes(record.born_host), bytes(record.store_host)) == (host, host)
            assert record.body_crc == body_crc(record.body)
        assert [each.flag for each in found] == [3, 0] * 2

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


class PutCases(StoreCases):
    """Messages are in the log as they were put."""

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
        batch = [message(body=b"%d" % n, same_file_as_previous=n > 0) for n in range(5)]
        results = await bench.add(message(body=b"single"), *batch)
        assert [result.queue_offset for result in results] == [0, 1, 2, 3, 4, 5]
        assert [result.log_offset for result in results[1:]] == [result.end for result in results[:-1]]
        assert bodies(await bench.read_all(T0, 1)) == [b"0", b"1", b"2", b"3", b"4"]

    @with_store(maxMessageSize=2048)
    async def test_joined_messages_are_stored_together_or_not_at_all(self, bench: StoreBench) -> None:
        wrong_ones: list[dict[str, Any]] = [
            {"body": b"x" * 2049},
            {"properties": b"a\x01" + b"x" * 32765 + b"\x02"},
            {"topic": "T" * 256},
            {"flag": 1 << 31},
        ]
        kept = [(await bench.add(message(body=b"0")))[0]]
        expected = [b"0"]
        for wrong in wrong_ones:
            for place in range(3):
                batch = [message("T", n % 2, b"lost", same_file_as_previous=n > 0) for n in range(3)]
                batch[place] = message(**{"body": b"lost", "same_file_as_previous": place > 0, **wrong})
                before, after = b"before %d" % len(expected), b"after %d" % len(expected)
                first, *refused, last = bench.store.put([message(body=before), *batch, message(body=after)])
                kept += [first, last]
                expected += [before, after]
                assert all(result.status.is_illegal for result in refused), (wrong.keys(), place)
                assert f"message {place + 1} of 3" in refused[0].problem
                assert len({result.problem for result in refused}) == 1
        await bench.publish(kept)
        assert [result.queue_offset for result in kept] == list(range(len(kept)))
        assert [result.log_offset for result in kept[1:]] == [result.end for result in kept[:-1]]
        assert bodies(await bench.read_all(T0)) == expected
        assert bench.store.bounds(Queue("T", 1)).max_offset == 0

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
    async def test_a_tags_code_may_count_from_the_store_time(self, bench: StoreBench) -> None:
        class Codes:
            accepts_all = needs_message = False
            seen: list[int] = []

            def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
                self.seen.append(tags_code)
                return True

            def match_message(self, record: RecordView) -> bool:
                return True

        delays = (5000, None, 0)
        sent = [
            message(body=b"%d" % n, tag="A", queue_targets=QueueTargets(due_in_ms=delay))
            for n, delay in enumerate(delays)
        ]
        sent[1].queue_targets = None
        results = bench.store.put(sent)
        await bench.store.flushed(results[-1].end)
        codes = [START_MS + 5000, sent[1].tags_code, START_MS]
        assert [entry.tags_code for entry in bench.store.publish(results[-1].end)] == codes
        found = bench.store.get(T0, 0, GetLimit(3), Codes())
        result = found if isinstance(found, GetResult) else await found
        assert (result.count, Codes.seen) == (3, codes)

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

    @with_store()
    async def test_a_delay_counts_from_the_clock_also_after_it_was_set_back(self, bench: StoreBench) -> None:
        delayed = [message("Delayed", queue_targets=QueueTargets(due_in_ms=5000)) for _ in range(2)]
        bench.clock.now = START_MS + HOUR_MS
        await bench.add(message())
        bench.clock.now = START_MS
        sent = [delayed[0], message(), delayed[1]]
        results = bench.store.put(sent)
        await bench.store.flushed(results[-1].end)
        times = [START_MS, START_MS + HOUR_MS, START_MS]
        assert [result.store_timestamp for result in results] == times
        published = bench.store.publish(results[-1].end)
        assert [entry.store_timestamp for entry in published] == times
        assert [entry.tags_code for entry in published] == [START_MS + 5000, sent[1].tags_code, START_MS + 5000]
        stored = [record.store_timestamp for record in await bench.read_all(Queue("Delayed", 0))]
        assert stored == [START_MS, START_MS]
        (last,) = await bench.add(message())
        assert last.store_timestamp == START_MS + HOUR_MS

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
        assert [result.status for result in results] == [
            PutStatus.OK,
            PutStatus.BODY_TOO_LARGE,
            PutStatus.PROPERTIES_TOO_LARGE,
            PutStatus.MESSAGE_ILLEGAL,
            PutStatus.OK,
        ]
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
    async def test_a_refusal_has_a_cause(self, bench: StoreBench) -> None:
        assert (bench.store.state().refusal, bench.store.state().refusal_cause) == (None, "")
        await bench.store.stop()
        assert bench.store.state().refusal
        assert bench.store.state().refusal_cause == "not_running"

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


class PreservationCases(StoreCases):
    """Only expired messages are removed."""

    # --- cleaning -----------------------------------------------------------------------------------------------------

    @with_store()
    async def test_cleaning_leaves_alone_what_has_not_expired(self, bench: StoreBench) -> None:
        await bench.add(message("A", body=b"1"), message("B", body=b"2"))
        for what in Cleaning:
            assert await bench.require(bench.capabilities.cleaning).clean(what) == CleanReport()
        assert bodies(await bench.read_all(Queue("A", 0))) == [b"1"]
        assert sorted(bench.store.queues()) == [Queue("A", 0), Queue("B", 0)]

    # --- restart ------------------------------------------------------------------------------------------------------

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
