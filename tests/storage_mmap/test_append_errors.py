"""Exceptions in an append, and entries out of order: queue offsets stay right, also after a kill."""

import json

import pytest
from placed_messages import EXT, LIGHT, alone, fanned

from gantrymq.interfaces import Bounds, PutStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.log import append
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_testing.store_contract_bench import bodies, message

T0, T1, B0 = Queue("T", 0), Queue("T", 1), Queue("B", 0)
OK, ILLEGAL, UNAVAILABLE = PutStatus.OK, PutStatus.MESSAGE_ILLEGAL, PutStatus.SERVICE_NOT_AVAILABLE


@pytest.fixture(params=[True, False], ids=["compiled", "python"])
def speed(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(append, "encode_records", None)
    elif append.encode_records is None:
        pytest.skip("speedups are not installed")


def once(monkeypatch, owner, name, error=MemoryError, skips=0):
    """Have *name* of *owner* raise *error* at its next call only, or *skips* calls later."""
    real, left = getattr(owner, name), [skips]

    def failing(*args, **named):
        left[0] -= 1
        if left[0] == -1:
            raise error("no memory")
        return real(*args, **named)

    monkeypatch.setattr(owner, name, failing)


def assert_continues(rig, expected, **settings):
    """Check after the kill that each queue has the bodies *expected*, and continues at the next offset."""

    async def after(bench):
        for queue, found in expected.items():
            records = await bench.read_all(queue)
            assert bodies(records) == found
            assert [record.queue_offset for record in records] == list(range(len(found)))
            (result,) = await bench.add((alone if queue == B0 else message)(topic=queue.topic, queue_id=queue.queue_id))
            assert result.queue_offset == len(found)

    rig.run(after, **settings)


@pytest.mark.parametrize("body", ["text", None, 7, ["x"]])
def test_a_body_that_is_no_bytes_spoils_its_own_message_only(rig, speed, body):
    async def case(bench):
        good = [message(body=b"0"), message(body=b"1"), message(queue_id=1, body=b"2")]
        if body is None or body == 7:  # has no length: the caller violated the interface, and nothing was stored
            with pytest.raises(TypeError):
                bench.store.put([good[0], message(body=body)])
            results = bench.store.put(good)
            assert [result.status for result in results] == [OK] * 3
        else:
            results = bench.store.put([good[0], message(body=body), good[1], good[2]])
            assert [result.status for result in results] == [OK, ILLEGAL, OK, OK]
            assert "body and hosts have to be bytes" in results.pop(1).problem
        assert [result.queue_offset for result in results] == [0, 1, 0]
        await bench.publish(results)
        assert bodies(await bench.read_all(T0)) == [b"0", b"1"]

    rig.kill(case)
    assert_continues(rig, {T0: [b"0", b"1"], T1: [b"2"]})


def test_what_is_raised_before_the_write_stores_nothing_and_gives_the_offsets_back(rig, speed, monkeypatch):
    async def case(bench):
        await bench.add(message(body=b"0"))
        end = bench.store.state().max_log_offset
        once(monkeypatch, LogWriter, "write")
        with pytest.raises(MemoryError):
            bench.store.put([message(), message(queue_id=1), message()])
        assert bench.store.state().max_log_offset == end
        assert bench.store.refusal() is None
        results = await bench.add(message(body=b"1"), message(queue_id=1, body=b"2"))
        assert (results[0].queue_offset, results[0].log_offset) == (1, end)
        assert results[1].queue_offset == 0

    rig.kill(case)
    assert_continues(rig, {T0: [b"0", b"1"], T1: [b"2"]})


def test_what_is_raised_in_the_middle_of_the_messages_gives_their_offsets_back(rig, monkeypatch):
    monkeypatch.setattr(append, "encode_records", None)

    async def case(bench):
        once(monkeypatch, append, "_pack_entry", skips=2)
        with pytest.raises(MemoryError):
            bench.store.put([message(), message(queue_id=1), message(), message()])
        results = await bench.add(message(body=b"0"), message(queue_id=1, body=b"1"), message(body=b"2"))
        assert [result.queue_offset for result in results] == [0, 0, 1]

    rig.kill(case)
    assert_continues(rig, {T0: [b"0", b"2"], T1: [b"1"]})


def test_what_was_written_before_the_error_is_stored_and_stays(rig, speed, monkeypatch):
    async def case(bench):
        once(monkeypatch, LogWriter, "write", skips=1)
        with pytest.raises(MemoryError):  # the third one begins a new file
            bench.store.put([message(body=b"%d" % n * 3000) for n in range(3)])
        assert bench.store.refusal() is None
        (result,) = await bench.add(message(body=b"after"))
        assert (result.queue_offset, result.log_offset) == (2, 8192)
        assert bodies(await bench.read_all(T0)) == [b"0" * 3000, b"1" * 3000, b"after"]

    rig.kill(case)
    assert_continues(rig, {T0: [b"0" * 3000, b"1" * 3000, b"after"]})


def test_a_record_that_was_written_and_not_handed_on_ends_the_writes_until_a_start_finds_it(rig, speed, monkeypatch):
    async def case(bench):
        await bench.add(message(body=b"0"))
        once(monkeypatch, Publisher, "add")
        with pytest.raises(MemoryError):
            bench.store.put([message(body=b"1"), message(queue_id=1, body=b"2")])
        (refused,) = bench.store.put([message()])
        assert refused.status is UNAVAILABLE
        assert "the commit log cannot be written: no memory" in refused.problem
        assert bodies(await bench.read_all(T0)) == [b"0"]
        await bench.store.stop()
        assert (rig.root / "abort").exists()

    rig.run(case)
    assert_continues(rig, {T0: [b"0", b"1"], T1: [b"2"]})


@pytest.fixture
def batch_topic(rig):
    """The broker's own file says that topic B has batch queues; a record of one message does not."""
    (rig.root / "config").mkdir(parents=True)
    table = {"B": {"topicName": "B", "attributes": {"queue.type": "BatchCQ"}}}
    (rig.root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))


@pytest.mark.usefixtures("batch_topic")
@pytest.mark.parametrize("owner", [LogWriter, Publisher], ids=["before", "behind"])
def test_the_same_for_messages_of_batch_queues_and_light_queues(rig, monkeypatch, owner):
    light = Queue("%LMQ%a", 0)
    bad = [alone(b"bad"), fanned(light.topic, body=b"bad")]

    async def case(bench):
        await bench.add(alone(b"0"), fanned(light.topic, body=b"1"))
        for sent in bad if owner is LogWriter else bad[:1]:
            once(monkeypatch, owner, "write" if owner is LogWriter else "add")
            with pytest.raises(MemoryError):
                bench.store.put([sent])
        if owner is LogWriter:
            results = await bench.add(alone(b"2"), fanned(light.topic, body=b"3"))
            assert [result.queue_offset for result in results] == [1, 1]
        else:
            assert bench.store.put([alone()])[0].status is UNAVAILABLE

    rig.kill(case, **LIGHT)
    if owner is LogWriter:
        assert_continues(rig, {B0: [b"0", b"2"], light: [b"1", b"3"]}, **LIGHT)
    else:
        assert_continues(rig, {B0: [b"0", b"bad"], light: [b"1"]}, **LIGHT)


@pytest.mark.usefixtures("batch_topic")
def test_a_body_that_is_no_bytes_in_a_batch_queue_takes_no_offset(rig):
    async def case(bench):
        with pytest.raises(TypeError):
            bench.store.put([message(body=b"0"), alone("text")])
        results = await bench.add(alone(b"1"), message(body=b"2"))
        assert [result.queue_offset for result in results] == [0, 1]
        assert bodies(await bench.read_all(T0)) == [b"0", b"2"]

    rig.kill(case)
    assert_continues(rig, {B0: [b"1"], T0: [b"0", b"2"]})


def test_leftover_ext_files_of_another_size_refuse_their_own_queue_only(rig):
    folder = rig.root / "consumequeue_ext" / "T" / "1"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(bytes(256))

    async def case(bench):
        for _ in range(2):
            results = bench.store.put([message(tag="A"), message(queue_id=1), message("Other"), message()])
            assert [result.status for result in results] == [OK, ILLEGAL, OK, OK]
            assert "set mappedFileSizeConsumeQueueExt=256 for this store" in results[1].problem
            await bench.publish(results)
        assert bench.store.refusal() is None
        assert bench.store.queues() == [Queue("Other", 0), T0]
        assert bench.store.bounds(T0) == Bounds(0, 4)

    rig.run(case, **EXT)
    assert (folder / f"{0:020d}").read_bytes() == bytes(256)


@pytest.mark.parametrize("end", ["stop", "checkpoint", "kill"])
def test_an_entry_that_does_not_follow_refuses_writes_and_a_restart_lists_it(rig, end):
    async def case(bench):
        await bench.add(message(body=b"0"), message(body=b"1"))
        await rig.checkpoint(bench)
        before = bench.store._checkpointer.durable_offset
        bench.store._queues.get(T0).next_offset += 1
        results = bench.store.put([message(body=b"3"), message(queue_id=1, body=b"other")])
        await bench.publish(results)
        sentence = (
            f"queue T/0 continues at 2, but the record at log offset {results[0].log_offset} says 3; it is in the log, "
            "restart the broker to have the queue rebuilt"
        )
        assert bench.store.refusal() == bench.store.put([message()])[0].problem == sentence
        assert bodies(await bench.read_all(T0)) == [b"0", b"1"]
        assert bodies(await bench.read_all(T1)) == [b"other"]
        if end != "kill":
            await rig.checkpoint(bench)
            assert sentence in rig.said[-1]
            assert bench.store._checkpointer.durable_offset == before
        if end == "stop":
            await bench.store.stop()
            assert sentence in rig.said[-1]

    (rig.run if end == "stop" else rig.kill)(case)
    assert (rig.root / "abort").exists()

    async def after(bench):
        assert bench.store.refusal() is None
        records = await bench.read_all(T0)
        assert bodies(records) == [b"0", b"1", b"3"]
        assert [record.queue_offset for record in records] == [0, 1, 3]
        assert "queue T/0: 1 messages are not in the log" in bench.report.notes
        assert bodies(await bench.read_all(T1)) == [b"other"]
        (result,) = await bench.add(message())
        assert result.queue_offset == 4

    rig.run(after)
