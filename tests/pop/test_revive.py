"""The state of one queue of the revive log, over random acknowledgements, times and restarts."""

import random
from collections import Counter

import pytest

from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey, ReviveRecord, retry_checkpoint
from gantrymq_pop.revive import FAR, ReviveQueue


def checkpoint(start, pop_time, invisible_ms, count=2):
    return Checkpoint(
        CheckpointKey("T", "CG", 0, start, pop_time, "b"), invisible_ms, tuple(range(start, start + count))
    )


def ours(said):
    return ReviveRecord(said, False, 0)


def test_unacknowledged_messages_become_due():
    queue = ReviveQueue(0)
    first, second = checkpoint(0, 1000, 500), checkpoint(2, 1000, 900)
    queue.feed(0, ours(first), 1000)
    queue.feed(1, ours(second), 1000)
    queue.feed(2, ours(Acknowledgement(first.key, (0,))), 1100)
    assert (queue.next_due_ms(), queue.due(1499, 8), queue.position) == (1500, [], -1)
    (pending,) = queue.due(1500, 8)
    assert (pending.left, queue.due(1600, 8)) == ({1}, [])
    queue.finished(pending)
    assert queue.position == 0
    queue.feed(3, ours(Acknowledgement(second.key, (2, 3))), 1700)
    assert (queue.position, len(queue), queue.next_due_ms()) == (3, 0, None)


def test_what_could_not_be_revived_is_due_again():
    queue = ReviveQueue(0)
    queue.feed(0, ours(checkpoint(0, 0, 10)), 0)
    (pending,) = queue.due(10, 8)
    queue.again(pending)
    assert queue.due(10, 8) == [pending]


@pytest.mark.parametrize("fed_after", [False, True], ids=["meanwhile", "after a start"])
def test_after_the_clock_was_set_back_the_invisible_time_counts_from_there(fed_after):
    queue, hour_ms = ReviveQueue(0), 3_600_000
    ahead, failed = checkpoint(0, hour_ms, 500), checkpoint(2, hour_ms, 500)
    failed = retry_checkpoint(failed, 3, hour_ms + 500)
    for offset, each in enumerate((ahead, failed)):
        queue.feed(offset, ours(each), 1000 if fed_after else hour_ms)
    assert queue.due(1000, 8) == []
    assert queue.next_due_ms() == 1500
    (pending,) = queue.due(1500, 8)
    assert pending.checkpoint is ahead
    assert queue.due(10_999, 8) == []
    assert [each.checkpoint for each in queue.due(11_000, 8)] == [failed]


def test_acknowledgements_that_come_through_a_timer_are_waited_for():
    queue = ReviveQueue(0)
    said = checkpoint(0, 0, 10_000)
    queue.feed(0, ReviveRecord(said, True, 9_000), 9_100)
    assert queue.due(11_000, 8) == []
    queue.feed(1, ReviveRecord(Acknowledgement(said.key, (0,)), True, 10_000), 11_050)
    assert queue.due(12_100, 8) == []
    (pending,) = queue.due(14_100, 8)  # the timer is inactive
    assert pending.left == {1}


def test_a_timer_that_went_on_says_that_no_acknowledgement_comes():
    queue = ReviveQueue(0)
    queue.feed(0, ReviveRecord(checkpoint(0, 0, 10_000), True, 9_000), 9_100)
    queue.feed(1, ReviveRecord(checkpoint(5, 3500, 10_000), True, 12_500), 12_500)
    assert [each.checkpoint.key.start_offset for each in queue.due(12_500, 8)] == [0]


def test_a_checkpoint_that_lags_is_written_again_and_lets_the_position_go():
    queue = ReviveQueue(0)
    old = checkpoint(0, 0, 10_000_000)
    queue.feed(0, ours(old), 0)
    queue.feed(1, ours(Acknowledgement(old.key, (1,))), 0)
    for offset in range(2, FAR + 5):
        queue.feed(offset, ours(None), 0)
    lagging = queue.lagging()
    assert (lagging.checkpoint, lagging.acknowledged, queue.position) == (old, [1], -1)
    queue.feed(FAR + 5, ours(old), 0)
    assert (queue.lagging(), queue.position, len(queue)) == (None, FAR + 4, 1)
    assert queue.pending(old.key).left == {0}
    (pending,) = queue.due(10_000_000, 8)
    queue.finished(pending)
    assert queue.position == FAR + 5


@pytest.mark.parametrize("seed", range(60))
def test_each_message_is_acknowledged_or_revived_once_in_time(seed):
    """Time passes in steps of up to a second; a restart reads the log again from the committed position."""
    rng = random.Random(seed)
    out = Counter()
    log, queue, committed = [], ReviveQueue(0, out), -1
    now, open_ones, acknowledged, revived, started = 0, [], set(), {}, 0

    def write(said):
        log.append(ours(said))
        queue.feed(len(log) - 1, log[-1], now)

    while started < 300 or open_ones:
        now += rng.randrange(1000)
        for _ in range(rng.randrange(4) if started < 300 else 0):
            said = checkpoint(started, now, rng.choice((1000, 5000, 60_000)), rng.randint(1, 8))
            started += len(said.offsets)
            open_ones.append(said)
            write(said)
        for said in rng.sample(open_ones, min(3, len(open_ones))):
            offsets = tuple(each for each in said.offsets if rng.random() < 0.5 and each not in revived)
            if offsets and now < said.due_ms:
                write(Acknowledgement(said.key, offsets))
                acknowledged |= set(offsets)
        while due := queue.due(now, rng.randint(1, 5)):
            for pending in due:
                assert pending.checkpoint.due_ms <= now
                assert now - pending.checkpoint.due_ms <= 1000
                if rng.random() < 0.1:
                    now += 1  # could not be written; retried at once here
                    queue.again(pending)
                    continue
                for each in pending.left:
                    assert each not in acknowledged | revived.keys()
                    revived[each] = now
                write(Acknowledgement(pending.checkpoint.key, tuple(pending.left)))
                queue.finished(pending)
        open_ones = [each for each in open_ones if set(each.offsets) - acknowledged - revived.keys()]
        assert len(queue) == len(open_ones)
        assert out.total() == started - len(acknowledged | revived.keys())
        if rng.random() < 0.3:
            committed = queue.position
        if rng.random() < 0.1:
            out = Counter()
            queue = ReviveQueue(committed + 1, out)
            for offset in range(committed + 1, len(log)):
                queue.feed(offset, log[offset], now)
            assert len(queue) == len(open_ones)
    assert acknowledged | revived.keys() == set(range(started))
    assert queue.position == len(log) - 1


def test_what_is_being_acknowledged_is_neither_revived_nor_written_again():
    queue = ReviveQueue(0)
    said = checkpoint(0, 0, 10)
    queue.feed(0, ours(said), 0)
    for offset in range(1, FAR + 5):
        queue.feed(offset, ours(None), 0)
    pending = queue.pending(said.key)
    pending.settling.add(0)
    assert (queue.due(20, 8), queue.lagging()) == ([], None)
    pending.settling.clear()
    assert queue.lagging() is pending
    assert queue.due(20, 8) == [pending]
