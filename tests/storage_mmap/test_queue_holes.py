"""Queue files that are missing, zeroed or garbage are made again from the log, at start and while the store runs."""

import asyncio
import os
import random
import shutil
from inspect import isawaitable

import pytest
from placed_messages import LIGHT, fanned, inner

from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading.entry_repair import AGAIN_S, EntryRepairer
from gantrymq_storage_mmap.recovery import queue_repair
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK
from gantrymq_testing.store_contract_bench import OnlyTags, bodies, message, records_of

MESSAGES = 100  # of queue T/0: 5 files of 20 entries
FILE_BYTES = 400


def garbage(size):
    return random.Random(7).randbytes(size)


def moved(path):
    """Replace the file with another file of the same queue."""
    other = path.with_name(f"{0 if int(path.name) else FILE_BYTES:020d}")
    shutil.copy(other, path)


DAMAGES = {
    "gone": os.unlink,
    "zeroed": lambda path: path.write_bytes(bytes(FILE_BYTES)),
    "garbage": lambda path: path.write_bytes(garbage(FILE_BYTES)),
    "short": lambda path: os.truncate(path, 130),
    "empty": lambda path: os.truncate(path, 0),
    "moved": moved,
}


async def fill(bench, topic="T"):
    messages = [
        (message(topic, body=b"%d" % number, tag="AB"[number % 2]), message("U", body=b"x" * 50))
        for number in range(MESSAGES)
    ]
    await bench.add(*[each for pair in messages for each in pair])


def expected(topic="T"):
    return [b"%d" % number for number in range(MESSAGES)]


def queue_bytes(rig, topic="T"):
    return [rig.queue(topic, 0, start).read_bytes() for start in range(0, MESSAGES * 20, FILE_BYTES)]


AT_START = [
    *[(damage, starts, "clean") for damage in DAMAGES for starts in ((0,), (800,), (1600,), (0, 400, 1200))],
    *[(damage, starts, "killed") for damage in ("gone", "garbage") for starts in ((0,), (400, 800), (1600,))],
    # Without a checkpoint of ours the queues are searched, and files of another size are refused.
    *[(damage, starts, "of another broker") for damage in ("gone", "zeroed") for starts in ((0,), (400, 800), (1600,))],
]


@pytest.mark.parametrize(("damage", "starts", "stop"), AT_START)
def test_files_that_are_wrong_at_start_are_made_again(rig, damage, starts, stop):
    async def first(bench):
        await fill(bench)
        rig.write_queues(bench)
        await rig.checkpoint(bench)

    (rig.kill if stop == "killed" else rig.run)(first)
    before = queue_bytes(rig)
    if stop == "of another broker":
        os.unlink(rig.root / "checkpoint.json")
    for start in starts:
        DAMAGES[damage](rig.queue(start=start))
    rig.said.clear()

    async def then(bench):
        assert bodies(await bench.read_all(Queue("T", 0))) == expected()
        assert (await bench.add(message(body=b"next")))[0].queue_offset == MESSAGES

    rig.run(then)
    assert len([sentence for sentence in rig.said if "T/0" in sentence]) == 1, rig.said
    assert [new[: len(old)] for new, old in zip(queue_bytes(rig), before, strict=True)] == before

    async def again(bench):
        assert bodies(await bench.read_all(Queue("T", 0))) == [*expected(), b"next"]

    rig.said.clear()
    rig.run(again)
    assert rig.said == []


def damage_in_place(rig, start, data=bytes(FILE_BYTES), at=0):
    rig.patch(rig.queue(start=start), at, data)


WAYS = [
    (None, True, True),
    (None, False, True),
    (None, False, False),
    (OnlyTags("A", "B"), True, True),
    (OnlyTags("A", "B"), False, True),
    (OnlyTags("A", "B"), True, False),
    (OnlyTags("A", "B", needs_message=True), False, True),
]


@pytest.mark.parametrize(("match", "cached", "restarted"), WAYS)
@pytest.mark.parametrize(("start", "data"), [(0, bytes(60)), (400, garbage(FILE_BYTES)), (1600, bytes(FILE_BYTES))])
def test_a_hole_met_while_running_is_made_again(rig, start, data, match, cached, restarted):
    rig.faults.cached = cached
    run_between(rig, lambda: damage_in_place(rig, start, data, 100 if len(data) < FILE_BYTES else 0), match, restarted)


@pytest.mark.parametrize("start", [0, 400, 1600])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_file_that_goes_while_running_is_made_again(rig, start, restarted):
    run_between(rig, lambda: os.unlink(rig.queue(start=start)), None, restarted, maxOpenQueueFiles=1)
    assert rig.queue(start=start).stat().st_size == FILE_BYTES


def run_between(rig, damage, match, restarted, **settings):
    async def first(bench):
        await fill(bench)

    async def then(bench):
        if not restarted:
            await fill(bench)
        rig.write_queues(bench)
        await rig.checkpoint(bench)
        await bench.get(Queue("U", 0), 0)
        damage()
        found = bodies(await bench.read_all(Queue("T", 0), limit=GetLimit(7), match=match))
        assert found == expected()
        assert found == bodies(await bench.read_all(Queue("T", 0), limit=GetLimit(7), match=match))

    if restarted:
        rig.run(first, **settings)
    rig.said.clear()
    rig.run(then, **settings)
    assert len([sentence for sentence in rig.said if "T/0" in sentence]) == 1, rig.said


def test_pulls_that_meet_one_hole_together_have_it_made_again_once(rig):
    async def first(bench):
        await fill(bench)

    async def then(bench):
        rig.workers.held_runs = rig.workers.held = True
        damage_in_place(rig, 800)
        pulls = [bench.store.get(Queue("T", 0), 40 + n, GetLimit(), None) for n in range(3)]
        tasks = [asyncio.ensure_future(pull) for pull in pulls]
        while not all(task.done() for task in tasks):
            await bench.clock.sleep(0)
            while rig.workers.waiting:
                rig.workers.step()
        assert [task.result().count for task in tasks] == [20, 19, 18]

    rig.run(first)
    rig.said.clear()
    rig.run(then)
    assert len(rig.said) == 1


def test_a_queue_that_retention_shortened_has_no_hole(rig):
    """Its first files were deleted with the messages: nothing is reported or restored."""

    async def first(bench):
        await fill(bench)
        queue = bench.store._queues.by_name["T", 0]
        rig.write_queues(bench)
        queue.min_offset = 45
        for start in (0, 400):
            queue.files.forget_file(queue, start)
            os.unlink(rig.queue(start=start))

    async def then(bench):
        assert bodies(await bench.read_all(Queue("T", 0), 45)) == expected()[45:]
        assert bench.store.bounds(Queue("T", 0)).min_offset == 45

    rig.run(first)
    rig.said.clear()
    rig.run(then)
    assert rig.said == []
    assert not rig.queue(start=0).exists()


def test_messages_that_the_log_has_lost_too_are_told_and_passed(rig):
    async def first(bench):
        await fill(bench)
        places.append((await bench.get(Queue("T", 0), 25, GetLimit(1))).next_offset)
        places[0] = bench.store._queues.by_name["T", 0].entry(25).log_offset

    places = []
    rig.run(first)
    rig.patch(rig.log(places[0] // 8192 * 8192), places[0] % 8192 + 4, bytes(4))  # its magic
    rig.queue(start=400).unlink()
    rig.said.clear()

    async def then(bench):
        assert bodies(await bench.read_all(Queue("T", 0))) == [body for body in expected() if body != b"25"]

    rig.run(then)
    assert [sentence for sentence in rig.said if "T/0" in sentence] == [
        "files of consume queues were missing or wrong (T/0): 19 entries were rebuilt from the log; 1 message is "
        "not in the log"
    ]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("damage", ["gone", "zeroed", "garbage"])
@pytest.mark.parametrize("start", [0, 400, 800])
def test_entries_of_a_queue_with_ext_files_are_made_again(rig, damage, start, running):
    check(rig, Queue("T", 0), rig.queue(start=start), damage, running, enableConsumeQueueExt=True)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("damage", ["gone", "zeroed", "garbage"])
@pytest.mark.parametrize("start", [0, 400, 800])
def test_light_queues_are_made_again(rig, damage, start, running):
    def messages():
        for number in range(50):
            yield message("U")
            yield fanned("%LMQ%L", topic="V", body=b"%d" % number)

    check(rig, Queue("%LMQ%L", 0), rig.queue("%LMQ%L", start=start), damage, running, messages, **LIGHT)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("damage", ["gone", "zeroed", "garbage"])
@pytest.mark.parametrize("start", [0, 460, 920])
def test_batch_queues_are_made_again(rig, damage, start, running):
    def messages():
        for number in range(25):
            yield message("U")
            yield inner(b"%d" % number, b"x", topic="B")

    path = rig.root / "batchconsumequeue" / "B" / "0" / f"{start:020d}"
    check(rig, Queue("B", 0), path, damage, running, messages, mapperFileSizeBatchConsumeQueue=460)


def check(rig, queue, path, damage, running, messages=None, **settings):
    """Fill a queue, damage the file *path*, at once or between two runs, and read all messages."""

    async def first(bench):
        await (fill(bench) if messages is None else bench.add(*messages()))
        rig.write_queues(bench)
        await rig.checkpoint(bench)
        read.append(await read_of(bench, queue))
        assert len(read[0]) > 20
        if running:
            files = bench.store._queues.get(queue).files
            files.forget(bench.store._queues.get(queue))
            DAMAGES[damage](path)
            read.append(await read_of(bench, queue))

    async def then(bench):
        read.append(await read_of(bench, queue))

    read = []
    rig.run(first, **settings)
    if not running:
        DAMAGES[damage](path)
        rig.run(then, **settings)
    assert read[1] == read[0]
    assert any(f"{queue.topic}/{queue.queue_id}" in sentence for sentence in rig.said), rig.said
    rig.said.clear()
    rig.run(then, **settings)
    assert (read[2], rig.said) == (read[0], [])


async def read_of(bench, queue):
    """Bodies of the records of a queue, of inner batches as they are."""
    found, queue_offset = [], 0
    while queue_offset < bench.store.bounds(queue).max_offset:
        result = bench.store.get(queue, queue_offset, GetLimit(), None)
        if isawaitable(result):
            result = await result
        found += bodies(records_of(result))
        queue_offset = result.next_offset
    return found


@pytest.mark.parametrize("searched", [True, False])
def test_blank_entries_before_the_first_message_are_no_hole(rig, searched):
    """RocketMQ pads a queue up to its first message when it rebuilds its files."""

    async def first(bench):
        await fill(bench)
        rig.write_queues(bench)
        if not searched:
            bench.store._queues.by_name["T", 0].min_offset = 0

    async def then(bench):
        assert bench.report.entries_rebuilt == 0
        assert bodies(await bench.read_all(Queue("T", 0), 30)) == expected()[30:]

    rig.run(first)
    rig.patch(rig.queue(), 0, PRE_BLANK * 20)
    rig.patch(rig.queue(start=400), 0, PRE_BLANK * 10)
    if searched:
        (rig.root / "checkpoint.json").unlink()
    rig.said.clear()
    rig.run(then)
    assert rig.said == []


def test_a_queue_without_a_file_in_a_store_of_another_broker_is_no_hole(rig):
    """Its first message was stored a moment before the crash, and its entries wait in memory."""

    async def first(bench):
        for _ in range(30):
            bench.clock.now += 1000
            await bench.add(message(body=b"x" * 900))

    async def crash(bench):
        bench.clock.now += 10_000
        await bench.add(message("New", body=b"new"))

    async def then(bench):
        assert bodies(await bench.read_all(Queue("New", 0))) == [b"new"]
        assert len(await bench.read_all(Queue("T", 0))) == 30

    rig.run(first)
    rig.kill(crash)
    assert not rig.queue("New").exists()
    (rig.root / "checkpoint.json").unlink()
    rig.run(then)


# --- single entries ---------------------------------------------------------------------------------------------------

COLD = {"hotReadWindow": 0, "mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000}

WRONG = {
    "inside a record": lambda own, other: ENTRY.pack(own[0] + 9, own[1], own[2]),
    "a wrong size": lambda own, other: ENTRY.pack(own[0], own[1] + 64, own[2]),
    "a record of another topic": lambda own, other: ENTRY.pack(*other[:2], own[2]),
    "zeros": lambda own, other: bytes(20),
}


async def fill_three(bench):
    """Queue ``T/0``, queue ``U/0`` and a light queue, with 40 records each; all records have different bodies."""
    for number in range(40):
        more = fanned("%LMQ%a", body=b"T%d" % number, tag="A")
        await bench.add(more, message("U", body=b"U%d" % number, tag="A"))


@pytest.mark.parametrize("topic", ["T", "U", "%LMQ%a"])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("match", [None, OnlyTags("A")], ids=["all", "tag"])
def test_single_wrong_entries_are_made_again(rig, topic, wrong, match):
    settings = COLD | LIGHT
    rig.run(fill_three, **settings)
    right = rig.queue(topic).read_bytes()
    for number in (3, 17, 39):  # all in one file
        own = ENTRY.unpack_from(right, 20 * number)
        other = ENTRY.unpack_from(rig.queue("T" if topic == "U" else "U").read_bytes(), 20 * number)
        rig.patch(rig.queue(topic), 20 * number, wrong(own, other))

    async def then(bench):
        found = bodies(await bench.read_all(Queue(topic, 0), 2, match=match))
        assert found == [b"%s%d" % (b"U" if topic == "U" else b"T", number) for number in range(2, 40)]
        rig.write_queues(bench)
        assert rig.queue(topic).read_bytes() == right

    rig.run(then, **settings)


def test_a_single_entry_of_a_damaged_record_stays(rig):
    rig.run(fill_three, **COLD | LIGHT)
    right = rig.queue("U").read_bytes()
    rig.patch(rig.log(), ENTRY.unpack_from(right, 20 * 17)[0] + 88, b"?")

    async def then(bench):
        for _ in range(2):
            assert len(await bench.read_all(Queue("U", 0))) == 39
        assert rig.queue("U").read_bytes() == right
        assert [sentence for sentence in rig.said if "rebuilt" in sentence] == []

    rig.run(then, **COLD | LIGHT)


def test_an_entry_is_not_sought_in_much_of_the_log(rig, monkeypatch):
    rig.run(fill_three, **COLD | LIGHT)
    monkeypatch.setattr(queue_repair, "MOST_BETWEEN", 100)
    right = rig.queue("U").read_bytes()
    rig.patch(rig.queue("U"), 20 * 17, WRONG["inside a record"](ENTRY.unpack_from(right, 20 * 17), ()))

    async def then(bench):
        assert len(await bench.read_all(Queue("U", 0))) == 39

    rig.run(then, **COLD | LIGHT)


@pytest.mark.parametrize("repairs", [True, False])
@pytest.mark.parametrize("filters", [None, OnlyTags("")])
def test_an_entry_for_a_place_before_that_of_the_last_one_is_impossible(rig, monkeypatch, repairs, filters):
    """It extends over the records after its own, which are selected, too."""

    async def first(bench):
        await bench.add(*[message(body=b"%d" % number) for number in range(30)])

    rig.run(first, **COLD)
    right = rig.queue().read_bytes()
    place, size, code = ENTRY.unpack_from(right, 20 * 12)
    rig.patch(rig.queue(), 20 * 15, ENTRY.pack(place, size + 70, code))
    if not repairs:
        monkeypatch.setattr(EntryRepairer, "can_repair", lambda *given, **more: False)

    async def then(bench):
        found = bodies(await bench.read_all(Queue("T", 0), match=filters))
        assert not repairs or found == [b"%d" % number for number in range(30)]
        assert {b"%d" % number for number in (*range(12), *range(16, 30))} <= set(found)

    rig.run(then, **COLD)


def test_tried_repairs_are_forgotten_after_a_while(rig):
    rig.run(fill_three, **COLD | LIGHT)
    right = rig.queue("U").read_bytes()
    for number in (5, 25):
        rig.patch(rig.log(), ENTRY.unpack_from(right, 20 * number)[0] + 88, b"?")

    async def then(bench):
        repaired = bench.store._reader._entry_repairer._repaired_at
        assert len(await bench.read_all(Queue("U", 0))) == 38
        assert [number for _, number, _ in repaired] == [5, 25]
        for place in repaired:
            repaired[place] -= AGAIN_S + 1
        assert len(await bench.read_all(Queue("U", 0), 20)) == 19
        assert [number for _, number, _ in repaired] == [25]

    rig.run(then, **COLD | LIGHT)
