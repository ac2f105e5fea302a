"""With synchronous flush no reply leaves before a sync that covers its bytes has ended, and no consumer sees more.

The broker runs in this process over recorded files; every frame that it hands to a transport is noted in the same
order as its writes and syncs (`durability_rig.oracle` says what is then asked). Once in the real world, with threads,
sockets and a disk, and for several seeds in a simulated one.

Then the other way round: with the sync taken out, in part or in whole, or with asynchronous flush, the same check has
to fail.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from durability_rig.sync_faults import Held, Unsynced
from durability_rig.watched_broker import LOG_FILE_BYTES, Case, Watched, load_case, run_watched

from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.model.queue import MessageQueue
from gantrymq_testing.recording import RecordingFiles

REQUESTS = 400
SEEDS = range(3)
SECOND_FILE = f"{LOG_FILE_BYTES:020d}"


every_seed = pytest.mark.parametrize("seed", [None, *SEEDS], ids=["real", *(f"seed{seed}" for seed in SEEDS)])
"""None: the real world."""
one_seed = pytest.mark.parametrize("seed", [None, 0], ids=["real", "seed0"])


def load(seed: int | None, unwaited: float = 0.0) -> Case:
    return load_case(seed or 0, REQUESTS, unwaited)


@every_seed
def test_no_reply_leaves_before_its_bytes_are_durable(seed: int | None, tmp_path: Path) -> None:
    watched = run_watched(load(seed), seed=seed, folder=tmp_path)
    verdict = watched.verdict()
    print(verdict)
    assert verdict.violations == [], verdict
    assert verdict.sends == watched.ledger.acknowledged >= REQUESTS
    assert verdict.pulled > 0
    assert verdict.syncs > 10
    assert len(verdict.files) > 2  # files rolled on the way
    assert watched.network.connections > 3


@every_seed
def test_unwaited_sends_may_be_answered_early_but_are_not_shown(seed: int | None, tmp_path: Path) -> None:
    watched = run_watched(load(seed, unwaited=0.5), seed=seed, folder=tmp_path)
    verdict = watched.verdict()
    print(verdict)
    assert verdict.violations == [], verdict
    assert verdict.unwaited_early > 0
    assert verdict.sends + verdict.unwaited == watched.ledger.acknowledged
    assert verdict.pulled > 0


def test_a_sync_that_does_not_end_holds_back_replies_and_messages(tmp_path: Path) -> None:
    held = Held(lambda path: path.parent.name == "commitlog")

    async def case(watched: Watched) -> None:
        topic, world = "AutoHeld", watched.world
        queue = MessageQueue(topic, "b", 0)
        async with (
            Client(watched.namesrv, world=world) as client,
            client.producer("producers", retries=0) as producer,
            client.reader(group="readers") as consumer,
        ):
            await producer.send(Message(topic, b"first"))
            assert queue in await consumer.queues(topic)
            before = await consumer.max_offset(queue)
            with held.holding():
                waiting = producer.send_async(Message(topic, b"waits"), queue=queue)
                early = await producer.send(Message(topic, b"does not wait", wait_stored=False), queue)
                assert (await consumer.pull(queue, before)).messages == ()
                assert (await consumer.pull(queue, before, suspend_ms=100)).messages == ()
                assert await consumer.max_offset(queue) == before
                assert not waiting.done()
            late = await waiting
            bodies = {early.queue_offset: b"does not wait", late.queue_offset: b"waits"}
            assert set(bodies) == {before, before + 1}
            for offset, body in bodies.items():
                found = await consumer.pull(queue, offset, max_count=1, suspend_ms=5000)
                assert [message.body for message in found.messages] == [body]

    verdict = run_watched(case, folder=tmp_path, wrap=held.around).verdict()
    assert verdict.violations == []
    assert (verdict.sends, verdict.unwaited, verdict.unwaited_early, verdict.pulled) == (2, 1, 1, 2)


def test_the_reply_to_a_send_that_makes_its_topic_waits_for_the_topics_file(tmp_path: Path) -> None:
    held = Held(lambda path: path.name == "topics.json")

    async def case(watched: Watched) -> None:
        async with (
            Client(watched.namesrv, world=watched.world) as client,
            client.producer("producers", retries=0) as producer,
        ):
            await producer.send(Message("AutoOld", b"first"))
            with held.holding():
                sends = [producer.send_async(Message("AutoNew", b"new"), timeout_s=60) for _ in range(3)]
                for _ in range(20):  # each of them passes a sync that would cover the others
                    await producer.send(Message("AutoOld", b"again"))
                assert not any(send.done() for send in sends)
            offsets = [(result.queue, result.queue_offset) for result in await asyncio.gather(*sends)]
            assert len(set(offsets)) == len(sends)

    verdict = run_watched(case, folder=tmp_path, wrap=held.around).verdict()
    assert verdict.violations == []
    assert verdict.sends == 1 + 20 + 3


# --- the other way round ------------------------------------------------------------------------------------------


@one_seed
def test_without_the_sync_the_check_fails_for_every_reply(seed: int | None, tmp_path: Path) -> None:
    verdict = run_watched(load(seed), seed=seed, folder=tmp_path, wrap=Unsynced).verdict()
    print(verdict)
    assert verdict.sends >= REQUESTS
    assert len(verdict.violations) == verdict.sends + verdict.pulled
    assert {violation.missing for violation in verdict.violations} == {"not synced"}
    assert verdict.syncs == 0


@one_seed
def test_without_the_sync_of_one_file_the_check_fails_for_its_content(seed: int | None, tmp_path: Path) -> None:
    def wrap(record: RecordingFiles) -> Unsynced:
        return Unsynced(record, lambda path: path.name == SECOND_FILE)

    verdict = run_watched(load(seed), seed=seed, folder=tmp_path, wrap=wrap).verdict()
    print(verdict)
    assert {violation.path.name for violation in verdict.violations} == {SECOND_FILE}
    assert verdict.syncs > 10


@one_seed
def test_without_the_sync_of_the_folder_the_check_fails(seed: int | None, tmp_path: Path) -> None:
    def wrap(record: RecordingFiles) -> Unsynced:
        return Unsynced(record, lambda path: path.name == "commitlog")

    verdict = run_watched(load(seed), seed=seed, folder=tmp_path, wrap=wrap).verdict()
    assert {violation.missing for violation in verdict.violations} == {"in a file whose name is not synced"}


@one_seed
def test_with_asynchronous_flush_replies_leave_before_the_sync(seed: int | None, tmp_path: Path) -> None:
    watched = run_watched(load(seed), seed=seed, folder=tmp_path, flushDiskType="ASYNC_FLUSH")
    verdict = watched.verdict()
    print(verdict)
    early = [violation for violation in verdict.violations if violation.shown.kind == "send"]
    assert len(early) > verdict.sends / 2
    assert verdict.sends == watched.ledger.acknowledged
