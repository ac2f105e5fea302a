"""Data that looks durable but is not: pages of a killed process, and pages left clean by a failed sync.

Each test is a scenario that once lost acknowledged messages with synchronous flush.
"""

from __future__ import annotations

import errno

import attrs
import pytest
from crash_rig.lives import Life
from crash_rig.oracle import Content, content_of
from crash_rig.starts import NEW, Starts
from crash_rig.story import QUIET, Story, tell

from gantrymq.interfaces import Cleaning
from gantrymq.model.queue import Queue
from gantrymq_storage_faults import Failure

A, B, C = Queue("IdleA", 0), Queue("BusyB", 0), Queue("OtherC", 1)
SOON = {"flushConsumeQueueThoroughInterval": 1000, "flushIntervalConsumeQueue": 100}


# --- 1: a killed process's page cache ---------------------------------------------------------------------------------


def test_an_idle_topic_survives_a_kill_and_then_a_power_cut(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, A, 30)
            await life.world.clock.sleep(8)  # the entries of A are in the page cache, and no flush has synced them

        async def second(life: Life) -> None:
            await story.send(life, B, 200, pause_s=0.1)

        await story.live(first, end="kill")
        await story.live(second, end="power", flushConsumeQueueThoroughInterval=10_000)
        await story.live(story.judge)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


def test_an_idle_queue_keeps_its_offsets_when_retention_takes_the_log_after_a_kill(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, A, 30)
            await story.send(life, B, 60)
            await life.world.clock.sleep(8)

        async def second(life: Life) -> None:
            await life.broker.store.clean(Cleaning.EXPIRED_LOG)
            await life.world.clock.sleep(5)
            await story.send(life, B, 20, pause_s=0.1)

        await story.live(first, end="kill")
        await story.live(second, end="power", flushConsumeQueueThoroughInterval=10_000)
        await story.live(story.go_on)
        assert min(set(story.kept[A]) - set(range(30))) == 30

    tell(starts.get(NEW), tale)


def test_messages_that_a_second_process_found_survive_the_power_cut_after_it(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, A, 30)
            await story.send(life, B, 10)
            await life.world.clock.sleep(8)

        async def nothing(life: Life) -> None:
            await life.world.clock.sleep(3)

        await story.live(first, end="kill")
        await story.live(nothing, end="kill")
        await story.live(nothing, end="stop")  # leaves no abort: all it had is durable
        story.machine.power_cut(QUIET)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


# --- 2: failed syncs of queues and index ------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["datasync", "syncfs"])
def test_a_failed_sync_of_the_queues_is_made_up_for(call: str, starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 20)
            await story.send(life, C, 20)
            await life.world.clock.sleep(5)
            where = "consumequeue" if call == "datasync" else ""
            life.files.fail(Failure(errno.EIO, {call}, where=where, times=1))
            await story.send(life, A, 20)
            await life.world.clock.sleep(5)
            await story.send(life, B, 150, pause_s=0.05)
            await life.world.clock.sleep(5)

        await story.live(day, end="power", **SOON)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


def test_a_queue_page_that_was_lost_shows_its_old_content_and_is_made_up_for(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            life.files.fail(
                Failure(errno.EIO, {"datasync"}, where="consumequeue", times=1),
                Failure(errno.EIO, {"syncfs"}, times=1),
            )
            await story.send(life, A, 20)
            await life.world.clock.sleep(5)
            await story.send(life, B, 150, pause_s=0.05)
            await life.world.clock.sleep(5)
            assert life.files.failed
            await story.judge(life)

        await story.live(day, end="kill", plan=attrs.evolve(QUIET, evict=0.5), **SOON)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


@pytest.mark.parametrize(("call", "seed"), [("datasync", 0), ("syncfs", 0), ("write_back", 0)])
def test_a_failed_sync_of_the_index_is_made_up_for(call: str, seed: int, starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 30)
            await life.world.clock.sleep(2)
            where = "" if call == "syncfs" else "/index/"
            life.files.fail(Failure(errno.EIO, {call}, where=where, times=1))
            await story.send(life, A, 510, pause_s=0.02, size=20)  # two index files, of two pages each, and more
            await life.world.clock.sleep(5)

        async def query(life: Life) -> None:
            await life.world.clock.sleep(30)
            for body in story.kept[A].values():
                assert await story.found_by_key(life, A, body) == [body]

        plan = attrs.evolve(QUIET, seed=seed, write_back=0.05 if call == "write_back" else 0.0)
        await story.live(day, end="power", plan=plan, **SOON)
        await story.live(query, **SOON)

    tell(starts.get(NEW), tale, maxHashSlotNum=100, maxIndexNum=250)


# --- 3: a failed sync of the log --------------------------------------------------------------------------------------


@pytest.mark.parametrize("evict", [0.0, 0.3])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_is_shown_after_a_failed_sync_of_the_log_and_a_restart_stays(
    end: str, evict: float, starts: Starts
) -> None:
    shown: Content = {}

    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, A, 5)
            life.files.fail(Failure(errno.EIO, {"datasync"}, where="commitlog/00000000000000000000", times=1))
            await story.send(life, A, 5, size=9000)  # whole pages that no later write covers
            assert len(story.refused) == 5  # from the first on that failed until a restart
            assert life.broker.store.state().refusal

        async def second(life: Life) -> None:
            await life.world.clock.sleep(2)
            shown.update(await content_of(life.broker.store))
            await story.send(life, B, 5)

        async def third(life: Life) -> None:
            await story.judge(life)
            found = await content_of(life.broker.store)
            for queue, messages in shown.items():
                assert messages.items() <= found[queue].items(), f"{queue} was shown {len(messages)} messages"

        await story.live(first, end=end, plan=attrs.evolve(QUIET, evict=evict))
        await story.live(second, end="power")
        await story.live(third)

    tell(starts.get(NEW), tale)
