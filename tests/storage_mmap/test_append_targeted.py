import pytest
from placed_messages import LIGHT, alone, fanned, inner

from gantrymq.formats.batch_body import decode_batch
from gantrymq.interfaces import PutStatus, QueueTargets
from gantrymq.model.light_queues import light_queue_offsets
from gantrymq.model.queue import Queue
from gantrymq_store_files.batch_entry import BATCH_ENTRY, read_batch_entry
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import START_MS, bodies, message

OK, ILLEGAL = PutStatus.OK, PutStatus.MESSAGE_ILLEGAL


def test_an_inner_batch_is_one_record_that_says_where_it_begins(rig):
    async def case(bench):
        results = await bench.add(inner(b"a", b"b"), alone(), inner(b"c", b"d", b"e"))
        assert [result.queue_offset for result in results] == [0, 2, 3]
        records = [bench.store.read(result.log_offset) for result in results]
        assert [record.properties.get("INNER_BASE") for record in records] == ["0", None, "3"]
        assert [record.sys_flag for record in records] == [0xC0, 0, 0xC0]
        assert [bytes(entry.body) for entry in decode_batch(records[2].body)] == [b"c", b"d", b"e"]
        assert bench.store.bounds(Queue("B", 0)) == (0, 6)
        rig.write_queues(bench)
        data = (rig.root / "batchconsumequeue" / "B" / "0" / f"{0:020d}").read_bytes()
        entries = [read_batch_entry(data, n) for n in range(3)]
        assert [(e.log_offset, e.size, e.store_timestamp, e.base_offset, e.messages) for e in entries] == [
            (result.log_offset, result.size, START_MS, result.queue_offset, count)
            for result, count in zip(results, (2, 1, 3), strict=True)
        ]
        assert not any(data[3 * BATCH_ENTRY.size :])

    rig.run(case)


def test_ordinary_messages_beside_are_stored_in_the_order_of_the_call(rig):
    async def case(bench):
        results = await bench.add(message(), inner(b"a", b"b"), message(), message(), alone(), message())
        ends = [result.end for result in results]
        assert [result.log_offset for result in results] == [0, *ends[:-1]]
        assert [result.queue_offset for result in results] == [0, 0, 1, 2, 2, 3]
        entries = list(bench.store.scan(0, ends[-1]))
        assert [(entry.topic, entry.messages) for entry in entries] == [
            *(("T", 1), ("B", 2), ("T", 1), ("T", 1), ("B", 1), ("T", 1))
        ]

    rig.run(case)


def test_joined_messages_of_a_batch_queue_lie_in_one_file(rig):
    async def case(bench):
        await bench.add(message(body=b"x" * 7000))
        results = await bench.add(*[alone(b"y" * 900, same_file_as_previous=n > 0) for n in range(3)])
        assert [result.log_offset // 8192 for result in results] == [1, 1, 1]
        (refused,) = bench.store.put([alone(b"z" * 9000)])
        assert (refused.status, "must fit one commit log file" in refused.problem) == (ILLEGAL, True)
        assert bodies([bench.store.read(result.log_offset) for result in results]) == [b"y" * 900] * 3
        (after,) = await bench.add(alone())
        assert after.queue_offset == 3

    rig.run(case)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (alone(topic="Other"), "has ordinary queues"),
        (alone(flag=1 << 40), "record of topic"),
        (alone(properties=b"a\x01b\x02\0"), "zero bytes"),
        (alone(sys_flag=4), "half message"),
        (message("B", queue_targets=QueueTargets(batch=2)), "a batch of 2 messages"),
        (message("B", queue_targets=QueueTargets(batch=40000), sys_flag=0xC0), "a batch of 40000 messages"),
        (message("B"), "-a +queue.type=BatchCQ"),
        (message(sys_flag=0x80), "queue.type=BatchCQ"),
        (fanned("%LMQ%a", topic="Other"), "light queues are off"),
    ],
)
def test_what_fits_no_batch_queue_is_refused_and_takes_no_offset(rig, sent, says):
    async def case(bench):
        await bench.add(alone(), message("Other"))
        refused, taken = bench.store.put([sent, alone()])
        assert (refused.status, taken.status, taken.queue_offset) == (ILLEGAL, OK, 1)
        assert says in refused.problem

    rig.run(case)


def test_a_record_is_listed_in_each_light_queue_it_names(rig):
    async def case(bench):
        results = await bench.add(
            fanned("%LMQ%a", tag="x"),
            fanned("%LMQ%b", "%LMQ%a", "%LMQ%b", tag="y"),
            message(),
            message("%LMQ%a", body=b"direct"),
            fanned("%LMQ%a"),
        )
        texts = [bench.store.read(result.log_offset).properties.get("INNER_MULTI_QUEUE_OFFSET") for result in results]
        assert texts == ["0", "0,1,0", None, None, "3"]
        assert [result.queue_offset for result in results] == [0, 1, 2, 2, 3]
        for name, listed in (("%LMQ%a", [0, 1, 3, 4]), ("%LMQ%b", [1])):
            records = await bench.read_all(Queue(name, 0))
            assert [record.log_offset for record in records] == [results[n].log_offset for n in listed]
        rig.write_queues(bench)
        data = rig.queue("%LMQ%b").read_bytes()
        assert ENTRY.unpack_from(data)[:2] == (results[1].log_offset, results[1].size)
        assert set(bench.store.queues()) == {Queue("T", 0), Queue("%LMQ%a", 0), Queue("%LMQ%b", 0)}

    rig.run(case, **LIGHT)


def test_followers_see_a_fanned_record_once(rig):
    async def case(bench):
        results = bench.store.put([fanned("%LMQ%a", "%LMQ%b"), message(), fanned("%LMQ%a")])
        entries = await bench.publish(results)
        assert [(entry.topic, entry.queue_offset) for entry in entries] == [("T", 0), ("T", 1), ("T", 2)]
        assert [entry.light_queue_offsets for entry in entries] == [[("%LMQ%a", 0), ("%LMQ%b", 0)], [], [("%LMQ%a", 1)]]

    rig.run(case, **LIGHT)


def test_a_light_queue_too_many_is_refused(rig):
    async def case(bench):
        await bench.add(fanned("%LMQ%a", "%LMQ%b"))
        refused, taken = bench.store.put([fanned("%LMQ%a", "%LMQ%c"), fanned("%LMQ%b", "%LMQ%a")])
        assert refused.status is PutStatus.LIGHT_QUEUE_QUOTA
        assert "%LMQ%c would be a new light queue" in refused.problem
        assert "maxLmqConsumeQueueNum allows 2" in refused.problem
        own = bench.store.read(taken.log_offset).properties
        assert (taken.queue_offset, light_queue_offsets("T", own)) == (1, [("%LMQ%b", 1), ("%LMQ%a", 1)])

    rig.run(case, maxLmqConsumeQueueNum=2, **LIGHT)


@pytest.mark.parametrize("name", ["q", "%LMQ%a/b", "%LMQ%" + "x" * 200])
def test_a_name_that_is_no_light_queue_is_refused(rig, name):
    async def case(bench):
        refused, taken = bench.store.put([fanned("%LMQ%a", name), fanned("%LMQ%a")])
        assert (refused.status, taken.queue_offset) == (ILLEGAL, 0)
        assert "is not a light queue" in refused.problem
        assert bench.store.read(taken.log_offset).properties["INNER_MULTI_QUEUE_OFFSET"] == "0"

    rig.run(case, **LIGHT)


def test_a_write_that_fails_gives_the_offsets_back_and_refuses_from_then_on(rig):
    async def case(bench):
        await bench.add(alone(), fanned("%LMQ%a"))
        rig.faults.once, rig.faults.once_number = "pwrite", 5
        results = bench.store.put([alone(), message()])
        assert {result.status for result in results} == {PutStatus.SERVICE_NOT_AVAILABLE}
        assert "the commit log cannot be written" in bench.store.refusal()
        assert bench.store.bounds(Queue("B", 0)) == (0, 1)

    rig.run(case, **LIGHT)
    rig.run(lambda bench: after_failure(bench), **LIGHT)


async def after_failure(bench):
    results = await bench.add(alone(), fanned("%LMQ%a"))
    assert [result.queue_offset for result in results] == [1, 1]
    assert len(await bench.read_all(Queue("%LMQ%a", 0))) == 2


@pytest.mark.parametrize("bad", range(4))
def test_a_group_of_all_kinds_is_stored_together_or_not_at_all(rig, bad):
    def group(wrong=None):
        made = [
            message("T", 0, b"plain"),
            alone(b"batch queue"),
            fanned("%LMQ%a", body=b"light"),
            message("T", 1, b"due", queue_targets=QueueTargets(due_in_ms=5000)),
        ]
        for number, each in enumerate(made):
            each.same_file_as_previous = number > 0
        if wrong is not None:
            made[wrong].properties += b"a\x01" + b"x" * 32767 + b"\x02"
        return made

    async def case(bench):
        refused = bench.store.put(group(bad))
        assert all(result.status.is_illegal for result in refused)
        assert f"message {bad + 1} of 4" in refused[0].problem
        results = bench.store.put([message("T", 0, b"before"), *group(), message("T", 0, b"after")])
        await bench.store.flushed(results[-1].end)
        codes = [entry.tags_code for entry in bench.store.publish(results[-1].end) if entry.queue_id == 1]
        assert [result.queue_offset for result in results] == [0, 1, 0, 2, 0, 3]
        assert [result.log_offset for result in results] == [0, *(result.end for result in results[:-1])]
        assert bodies(await bench.read_all(Queue("T", 0))) == [b"before", b"plain", b"light", b"after"]
        assert bodies(await bench.read_all(Queue("T", 1))) == [b"due"]
        assert bodies(await bench.read_all(Queue("B", 0))) == [b"batch queue"]
        assert bodies(await bench.read_all(Queue("%LMQ%a", 0))) == [b"light"]
        assert codes == [START_MS + 5000]

    rig.run(case, **LIGHT)
