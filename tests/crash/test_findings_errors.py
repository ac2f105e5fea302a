"""Errors in the middle of the work: other operations at that moment stay correct.

An unexpected exception in an append, a queue file that cannot be written, a disk that cannot be read.
"""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress

import pytest
from crash_rig.lives import Life
from crash_rig.oracle import content_of
from crash_rig.starts import NEW, ROOT, Starts
from crash_rig.story import QUIET, Story, tell

from gantrymq.errors import GantryError
from gantrymq.interfaces import Cleaning, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq_storage_faults import Failure, FaultPlan, FaultyFiles
from gantrymq_store_files.queue_entry import ENTRY_BYTES

A, A1, B = Queue("ErrorA", 0), Queue("ErrorA", 1), Queue("ErrorB", 0)


class Heavy:
    """A number for which there is no memory."""

    def __index__(self) -> int:
        raise MemoryError("injected")


def with_text_body(message: StoreMessage) -> StoreMessage:
    """A body that is no bytes."""
    message.body = "a plugin's mistake"  # type: ignore[assignment]
    return message


def without_memory(message: StoreMessage) -> StoreMessage:
    """Return a message whose append runs out of memory."""
    message.tags_code = Heavy()  # type: ignore[assignment]
    return message


# --- 4: exceptions inside an append -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [with_text_body, without_memory], ids=["text body", "no memory"])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_message_that_raises_in_an_append_shifts_no_other(before: int, spoil: object, starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 2)
            await story.send(life, B, 2)
            for _ in range(3):
                batch = [story.message(queue) for queue in (A, B, A, A1)]
                batch.insert(before, spoil(story.message(A)))  # type: ignore[operator]
                await asyncio.gather(*(story.put(life, message) for message in batch))  # one append
                await story.send(life, A)
                await story.send(life, B)
            assert len(story.refused) >= 3
            await story.judge(life)

        await story.live(day, end="kill")
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_store_that_is_given_such_a_message_refuses_it_and_it_alone(before: int, starts: Starts) -> None:
    """For plugins that put messages into the store directly: an exception must not consume queue offsets."""

    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            store = life.broker.store
            await story.send(life, A)
            batch = [story.message(queue) for queue in (A, B, A, B)]
            batch.insert(before, with_text_body(story.message(A)))
            try:
                store.put(batch)
            except Exception as error:
                story.refused.append(repr(error))
            for queue in (A, B, A, B):
                await story.send(life, queue)
            await story.judge(life)

        await story.live(day, end="kill")
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


def test_an_ext_file_of_another_size_shifts_no_queue(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, B, 3)
            folder = ROOT / "consumequeue_ext" / A.topic / str(A.queue_id)
            life.files.make_dirs(folder)
            life.files.replace(folder / f"{0:020d}", bytes(100))

        async def second(life: Life) -> None:
            for batch in ((B, A, B, A1), (A, B, A1), (B,), (A,)):  # A is a new queue in the middle of an append
                await asyncio.gather(*(story.put(life, story.message(queue)) for queue in batch))
            await story.judge(life)

        await story.live(first)
        ext = {"enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 4096}
        with suppress(GantryError):  # a start that reports it is fine too
            await story.live(second, end="kill", **ext)
        operator = FaultyFiles(story.machine)
        operator.remove(ROOT / "consumequeue_ext" / A.topic / str(A.queue_id) / f"{0:020d}")
        operator.crash()
        await story.live(story.judge, **ext)

    tell(starts.get(NEW), tale)


# --- 5: one queue's file cannot be written ----------------------------------------------------------------------------


def test_retention_does_not_go_on_behind_a_queue_that_cannot_be_written(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            where = f"/consumequeue/{A.topic}/{A.queue_id}/"
            life.files.fail(Failure(errno.EIO, {"create", "open", "pwrite", "truncate"}, where=where))
            for _ in range(20):
                for queue in (A, B, A1):
                    await story.send(life, queue)
            needed = len(story.kept[A])
            await life.world.clock.sleep(20)
            assert life.files.failed
            await story.send(life, B, 20, pause_s=0.1)  # taken or refused, as the store likes
            await life.broker.store.clean(Cleaning.EXPIRED_LOG)
            await life.world.clock.sleep(20)
            assert needed
            assert (await content_of(life.broker.store))[A] == story.kept[A]
            assert life.files.list(ROOT / "commitlog")[0] == f"{0:020d}", "the log of A's first message was deleted"
            written = life.files.read(ROOT / "consumequeue" / B.topic / str(B.queue_id) / f"{0:020d}")
            entries = [any(written[at : at + ENTRY_BYTES]) for at in range(0, len(written), ENTRY_BYTES)]
            assert sum(entries) >= 20, "another queue's entries were not written"

        await story.live(day, end="kill", flushConsumeQueueThoroughInterval=5000)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


# --- 6: reads that fail -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 4])
@pytest.mark.parametrize("calls", [{"pread"}, {"pread", "read"}], ids=lambda calls: "+".join(sorted(calls)))
def test_a_start_that_cannot_read_the_log_says_so_and_gives_nothing_up(
    calls: set[str], at: int, starts: Starts
) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 60)

        await story.live(day, end="kill")
        failures = tuple(Failure(errno.EIO, {call}, where="/commitlog/", at=at) for call in sorted(calls))
        plan = FaultPlan(lose=1.0, tear=0.0, write_back=0.0, failures=failures)
        said = "nothing failed"
        try:
            life = await story.live(story.judge, end="kill", plan=plan)
        except GantryError as error:
            said = str(error)
        else:
            assert not life.files.failed
        assert ("/commitlog/" in said) or (len(calls) == 1 and said == "nothing failed"), said
        report = (await story.live(story.judge)).report
        assert report is not None
        assert report.cut_bytes == 0

    tell(starts.get(NEW), tale)


@pytest.mark.parametrize(
    "calls",
    [{"pread"}, {"pread", "pread_cached"}],
    ids=lambda calls: "+".join(sorted(calls)),
)
def test_a_read_that_fails_is_refused_with_a_sentence(calls: set[str], starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 40)
            life.files.fail(Failure(errno.EIO, calls, where="/commitlog/"))
            said = "nothing failed"
            try:
                assert (await content_of(life.broker.store))[A] == story.kept[A]  # out of memory
            except GantryError as error:
                said = str(error)
            assert ("commitlog" in said) is bool(life.files.failed)

        await story.live(day, end="kill")
        await story.live(story.judge)

    tell(starts.get(NEW), tale)


def test_a_message_is_stored_while_the_log_cannot_be_read(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 10)
            life.files.fail(Failure(errno.EIO, {"pread"}, where="/commitlog/"))
            await story.send(life, A, 60)  # into the next log files too
            await life.world.clock.sleep(5)

        await story.live(day, end="power", plan=QUIET)
        await story.live(story.judge)

    tell(starts.get(NEW), tale)
