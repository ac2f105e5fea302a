"""Deleting topics while the store runs: immediate effects, work in the thread, and crashes."""

import asyncio
import json

import pytest
from placed_messages import EXT, alone

from gantrymq.errors import StoreError
from gantrymq.interfaces import Bounds
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import bodies, message

GONE, STAYS = Queue("IsExpired", 0), Queue("Stays", 0)


def noted(rig):
    path = rig.root / "droppedTopics.json"
    return json.loads(path.read_bytes()) if path.exists() else {}


def aside(rig):
    folder = rig.root / "dropped"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def two_topics(rig, bench):
    """Two messages of one topic and one of another, in files and durable; returns the log's end."""
    results = await bench.add(message("IsExpired", body=b"0"), message("Stays"), message("IsExpired", body=b"1"))
    await rig.checkpoint(bench)
    return results[-1].end


def test_the_queues_are_gone_at_once_and_the_note_and_the_folders_follow_in_a_thread(rig):
    async def case(bench):
        end = await two_topics(rig, bench)
        rig.workers.held = True
        done = bench.store.drop("IsExpired")
        assert bench.store.queues() == [STAYS]
        assert bench.store.bounds(GONE) == Bounds(0, 0)
        assert not rig.queue("IsExpired").parent.parent.exists()
        assert (aside(rig), noted(rig), done.done()) == (["IsExpired.1"], {}, False)
        await asyncio.sleep(0)  # others that are dropped in this step share the note
        rig.workers.step()
        assert (aside(rig), noted(rig), done.done()) == ([], {"IsExpired": end}, True)
        assert (bench.store._dropper.busy, rig.workers.waiting) == (0, [])
        await done

    rig.run(case)


def test_deletions_share_the_note_that_comes_next(rig):
    async def case(bench):
        end = (await bench.add(*[message(topic) for topic in "abcde"]))[-1].end
        rig.workers.held = True
        before = rig.faults.calls["replace"]
        waiting = [bench.store.drop(topic) for topic in "ab"]
        await asyncio.sleep(0)
        waiting += [bench.store.drop(topic) for topic in "cd"]
        await asyncio.sleep(0)
        rig.workers.step()
        assert [each.done() for each in waiting] == [True, True, False, False]
        rig.workers.step()
        assert [each.done() for each in waiting] == [True, True, True, True]
        assert rig.faults.calls["replace"] == before + 2
        assert noted(rig) == dict.fromkeys("abcd", end)
        rig.workers.held = False

    rig.run(case)


def test_a_topic_without_queues_has_nothing_to_wait_for(rig):
    async def case(bench):
        before = rig.faults.calls.copy()
        await bench.store.drop("Never")
        assert rig.faults.calls == before

    rig.run(case)


def test_every_kind_of_queue_goes(rig):
    async def case(bench):
        await bench.add(message("IsExpired", tag="A"), message("IsExpired", 3), alone(topic="Batch"))
        await rig.checkpoint(bench)
        for topic in ("IsExpired", "Batch"):
            await bench.store.drop(topic)
        assert bench.store.queues() == []
        for kind in ("consumequeue", "consumequeue_ext", "batchconsumequeue"):
            assert not any((rig.root / kind).iterdir())
        assert aside(rig) == []

    rig.run(case, **EXT)


def test_the_topic_can_be_made_again_before_the_threads_are_done(rig):
    async def case(bench):
        end = await two_topics(rig, bench)
        rig.workers.held = True
        bench.store.drop("IsExpired")
        (result,) = bench.store.put([message("IsExpired", body=b"anew")])
        bench.store.publish(result.end)
        rig.write_queues(bench)
        assert (result.queue_offset, result.log_offset) == (0, end)
        bench.store.drop("IsExpired")
        (result,) = bench.store.put([message("IsExpired", body=b"once more")])
        bench.store.publish(result.end)
        rig.write_queues(bench)
        assert aside(rig) == ["IsExpired.1", "IsExpired.2"]
        await asyncio.sleep(0)
        while rig.workers.waiting:
            rig.workers.step()
        assert (aside(rig), noted(rig)) == ([], {"IsExpired": result.log_offset})
        assert bodies(await bench.read_all(GONE)) == [b"once more"]
        rig.workers.held = False
        await bench.restart()
        assert bodies(await bench.read_all(GONE)) == [b"once more"]

    rig.run(case)


def test_what_waits_for_its_gates_when_the_topic_goes_is_in_no_queue(rig):
    async def case(bench):
        bench.store.put([message("IsExpired")])
        bench.store.drop("IsExpired")
        (result,) = await bench.add(message("IsExpired", body=b"anew"))
        assert result.queue_offset == 0
        assert bodies(await bench.read_all(GONE)) == [b"anew"]

    rig.run(case)


@pytest.mark.parametrize("saved", [False, True], ids=["no checkpoint", "checkpoint"])
def test_a_crash_before_the_note_brings_the_topic_back(rig, saved):
    async def case(bench):
        if saved:
            await two_topics(rig, bench)
        else:
            await bench.add(message("IsExpired", body=b"0"), message("Stays"), message("IsExpired", body=b"1"))
            rig.write_queues(bench)
        rig.workers.held = True
        assert not bench.store.drop("IsExpired").done()
        assert aside(rig) == ["IsExpired.1"]

    rig.kill(case)
    rig.workers.held = False
    rig.workers.waiting.clear()

    async def after(bench):
        assert bench.store.queues() == [GONE, STAYS]
        assert bodies(await bench.read_all(GONE)) == [b"0", b"1"]
        assert aside(rig) == []
        (result,) = await bench.add(message("IsExpired"))
        assert result.queue_offset == 2

    rig.run(after)


@pytest.mark.parametrize("anew", [0, 2], ids=["", "made anew"])
def test_a_crash_behind_the_note_leaves_nothing_of_the_topic_but_what_was_made_anew(rig, anew):
    async def case(bench):
        await two_topics(rig, bench)
        rig.faults.failing, rig.faults.only = {"remove": rig.BROKEN}, "dropped"
        await bench.store.drop("IsExpired")
        for n in range(anew):
            (result,) = bench.store.put([message("IsExpired", body=b"anew %d" % n)])
            bench.store.publish(result.end)
        rig.write_queues(bench)

    rig.kill(case)
    assert aside(rig) == ["IsExpired.1"]
    rig.faults.failing = {}

    async def after(bench):
        assert bodies(await bench.read_all(GONE)) == [b"anew %d" % n for n in range(anew)]
        assert len(await bench.read_all(STAYS)) == 1
        assert aside(rig) == []
        (result,) = await bench.add(message("IsExpired"))
        assert result.queue_offset == anew

    rig.run(after)


def test_a_failed_save_is_reported_to_waiting_callers_and_repeated_with_the_next(rig):
    async def case(bench):
        end = await two_topics(rig, bench)
        rig.faults.once, rig.faults.once_number = "replace", rig.NO_SPACE
        with pytest.raises(StoreError, match="the deletion of a topic cannot be noted: .*No space left"):
            await bench.store.drop("IsExpired")
        assert "a crash would bring their queues back" in rig.said[-1]
        assert bench.store.queues() == [STAYS]
        await bench.store.drop("Stays")
        assert noted(rig) == {"IsExpired": end, "Stays": end}

    rig.run(case)


def test_folders_that_cannot_be_moved_are_a_store_error(rig):
    async def case(bench):
        await two_topics(rig, bench)
        rig.faults.failing, rig.faults.only = {"rename": rig.BROKEN}, "IsExpired"
        with pytest.raises(StoreError, match="the queues of topic IsExpired cannot be removed"):
            bench.store.drop("IsExpired")
        rig.faults.failing = {}

    rig.run(case)


def test_folders_that_cannot_be_removed_are_told_and_go_at_the_next_start(rig):
    async def case(bench):
        await two_topics(rig, bench)
        rig.faults.failing, rig.faults.only = {"remove": rig.BROKEN}, "dropped"
        await bench.store.drop("IsExpired")
        assert "could not be removed" in rig.said[-1]
        assert aside(rig) == ["IsExpired.1"]
        rig.faults.failing = {}
        await bench.restart()
        assert aside(rig) == []
        await bench.add(message("IsExpired"))

    rig.run(case)


def test_names_aside_are_not_given_twice_across_starts(rig):
    async def case(bench):
        await two_topics(rig, bench)
        rig.faults.failing, rig.faults.only = {"remove": rig.BROKEN}, "dropped"
        await bench.store.drop("IsExpired")
        await bench.restart()
        await bench.add(message("IsExpired"))
        rig.write_queues(bench)
        await bench.store.drop("IsExpired")
        assert aside(rig) == ["IsExpired.1", "IsExpired.2"]
        await asyncio.sleep(0)
        rig.faults.failing = {}

    rig.run(case)


def test_a_stop_waits_for_the_threads(rig):
    async def case(bench):
        await two_topics(rig, bench)
        rig.workers.held = True
        bench.store.drop("IsExpired")
        assert bench.store._busy()
        await asyncio.sleep(0)
        while rig.workers.waiting:
            rig.workers.step()
        assert not bench.store._busy()
        rig.workers.held = False

    rig.run(case)
