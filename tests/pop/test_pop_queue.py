"""Offsets of a group's pops of one queue, over random orders of pops, stored and refused checkpoints."""

import random

import pytest

from gantrymq_pop.pop_queue import PopQueue


def test_the_position_follows_what_is_stored_in_order():
    queue = PopQueue(5)
    first, second = queue.took(5, 8), queue.took(8, 10)
    assert (queue.ahead(), queue.position()) == ((10, None), 5)
    queue.stored(second)
    assert queue.position() == 5
    queue.stored(first)
    assert queue.position() == 10
    queue.committed = 10
    assert queue.idle


def test_messages_that_are_given_back_are_read_again_and_hold_back_the_position():
    queue = PopQueue(10)
    take = queue.took(10, 20)
    queue.stored(queue.took(20, 30))
    queue.give_back([12, 13, 17], take)
    assert (queue.ahead(), queue.behind, queue.position()) == ((12, 14), 3, 12)
    assert queue.times == {12: 1, 13: 1, 17: 1}
    again = queue.took(12, 14)
    assert (queue.ahead(), queue.behind, queue.position()) == ((17, 18), 1, 12)
    queue.stored(again)
    assert queue.position() == 17
    held = queue.hold(17, 18)
    queue.stored(queue.took(17, 18))
    assert (queue.ahead(), queue.position()) == ((30, None), 17)
    queue.stored(held)
    assert queue.position() == 30


def test_messages_before_the_committed_offset_are_read_again_and_hold_back_nothing():
    queue = PopQueue(10)
    queue.give_back([3, 4, 8], None)
    assert (queue.ahead(), queue.behind, queue.position(), queue.idle) == ((3, 5), 3, 10, False)
    early, late = queue.took(3, 5), queue.took(8, 9)
    queue.stored(queue.took(10, 12))
    assert queue.position() == 12
    queue.stored(late)
    queue.give_back([4], early)
    assert (queue.ahead(), queue.position()) == ((4, 5), 12)


def test_what_failed_is_read_again_first():
    queue = PopQueue(0)
    first, second = queue.took(0, 4), queue.took(4, 6)
    queue.failed(first)
    queue.stored(second)
    assert (queue.ahead(), queue.position(), queue.idle) == ((0, 4), 0, False)
    queue.stored(queue.took(0, 3))
    assert (queue.ahead(), queue.position()) == ((3, 4), 3)
    queue.stored(queue.took(3, 4))
    assert (queue.ahead(), queue.position()) == ((6, None), 6)


@pytest.mark.parametrize("seed", range(50))
def test_every_message_is_stored_once_and_none_is_passed_over(seed):
    rng = random.Random(seed)
    queue, end, stored, open_takes = PopQueue(0), 300, [], []
    for _ in range(2000):
        start, limit = queue.ahead()
        step = rng.random()
        if step < 0.4 and start < end:
            to = min(start + rng.randint(1, 32), end if limit is None else limit)
            open_takes.append(queue.took(start, to))
        elif open_takes:
            take = open_takes.pop(rng.randrange(len(open_takes)))
            if step < 0.6:
                queue.failed(take)
            else:
                queue.stored(take)
                stored += range(take.start, take.end)
        assert len(set(stored)) == len(stored)
        assert set(range(queue.position())) <= set(stored)
    for take in open_takes:
        queue.failed(take)
    while queue.position() < end:
        start, limit = queue.ahead()
        take = queue.took(start, end if limit is None else limit)
        queue.stored(take)
        stored += range(take.start, take.end)
    assert sorted(stored) == list(range(end))
