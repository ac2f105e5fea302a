"""The ledger against the plainest model of it, over random orders of its events."""

import random
import sys

import pytest

from gantrymq_transaction.ledger import Ledger


class Model:
    """Sets and lists, and no cleverness."""

    def __init__(self, half_offset, op_offset):
        self.half_offset, self.op_offset = half_offset, op_offset
        self.settled, self.taken, self.ops = set(), set(), {}

    def is_open(self, offset):
        return offset >= self.half_offset and offset not in self.settled and offset not in self.taken

    def advance(self, end):
        while self.half_offset < end and self.half_offset in self.settled:
            self.half_offset += 1
        while self.op_offset in self.ops and max(self.ops[self.op_offset], default=-1) < self.half_offset:
            self.op_offset += 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_it_says_what_the_model_says(seed):
    choice = random.Random(seed)
    start = choice.choice((0, 5, 8, 1000))
    ledger, model = Ledger(start, 3), Model(start, 3)
    end, op_end = start, 3
    for _ in range(400):
        event = choice.randrange(8)
        undecided = [offset for offset in range(model.half_offset, end) if model.is_open(offset)]
        if event <= 2:
            end += choice.choice((1, 1, 9, 40))
        elif event == 3 and undecided:
            offset = choice.choice(undecided)
            ledger.take(offset)
            model.taken.add(offset)
        elif event == 4 and model.taken:
            offset = choice.choice(sorted(model.taken))
            ledger.release(offset)
            model.taken.discard(offset)
        elif event == 5 and (model.taken or undecided):
            named = choice.sample(undecided, min(len(undecided), choice.choice((1, 3, 30)))) + sorted(model.taken)[:1]
            if choice.random() < 0.9:
                ledger.op_stored(op_end, named)
                model.ops[op_end] = named
            op_end += 1
            for offset in named:
                ledger.settle(offset)
                model.settled.add(offset)
                model.taken.discard(offset)
        elif event == 6:
            for offset in ledger.unread_ops(10):
                ledger.op_stored(offset, [])
                model.ops[offset] = []
        else:
            ledger.advance(end)
            model.advance(end)
            assert (ledger.half_offset, ledger.op_offset) == (model.half_offset, model.op_offset)
        found = [offset for offset in range(model.half_offset, end) if model.is_open(offset)]
        assert ledger.open_offsets(0, end, 10**6) == found
        assert ledger.open_offsets(start + 7, end, 3) == [offset for offset in found if offset >= start + 7][:3]
        assert ledger.undecided(end) == len(found) + len(model.taken)


@pytest.mark.parametrize("seed", range(20))
def test_a_restart_finds_what_is_undecided_from_the_two_positions(seed):
    choice = random.Random(seed)
    ledger, ops, end = Ledger(0, 0), [], 0
    kept = (0, 0)
    for _ in range(300):
        end += choice.randrange(4)
        found = ledger.open_offsets(0, end, 1000)
        named = choice.sample(found, min(len(found), choice.randrange(1, 5)))
        ledger.op_stored(len(ops), named)
        ops.append(named)
        for offset in named:
            ledger.settle(offset)
        if choice.random() < 0.1:
            ledger.advance(end)
            kept = ledger.half_offset, ledger.op_offset
    again = Ledger(*kept)
    for op_offset in range(kept[1], len(ops)):
        again.op_stored(op_offset, ops[op_offset])
        for offset in ops[op_offset]:
            again.settle(offset)
    assert again.open_offsets(0, end, 10**6) == ledger.open_offsets(0, end, 10**6)
    ledger.advance(end)
    again.advance(end)
    assert (again.half_offset, again.op_offset) == (ledger.half_offset, ledger.op_offset)


def test_what_left_the_log_is_not_undecided():
    ledger = Ledger(0, 0)
    ledger.settle(3)
    ledger.settle_before(10)
    assert ledger.open_offsets(0, 12, 100) == [10, 11]
    assert ledger.undecided(12) == 2
    ledger.advance(12)
    assert ledger.half_offset == 10


def test_a_million_cost_a_bit_each():
    ledger = Ledger(0, 0)
    for offset in range(1, 1_000_000):
        ledger.settle(offset)
    assert len(ledger._bits) < 130_000
    assert ledger.open_offsets(0, 1_000_001, 10) == [0, 1_000_000]
    ledger.settle(0)
    ledger.advance(1_000_000)
    assert ledger.half_offset == 1_000_000
    assert not ledger._bits


@pytest.mark.parametrize("seed", range(20))
def test_settling_all_that_left_the_log_is_like_settling_each(seed):
    choice = random.Random(seed)
    first = choice.randrange(20)
    whole, single = Ledger(first, 0), Ledger(first, 0)
    for _ in range(30):
        end = whole.half_offset + choice.randrange(60)
        for offset in (choice.randrange(first, end + 1) for _ in range(choice.randrange(20))):
            whole.settle(offset)
            single.settle(offset)
        taken = end + choice.randrange(-5, 5)
        if whole.is_open(taken):
            whole.take(taken)
            single.take(taken)
        before = whole.half_offset + choice.randrange(-3, 40)
        whole.settle_before(before)
        for offset in range(single.half_offset, before):
            single.settle(offset)
        whole.advance(end + 100)
        single.advance(end + 100)
        assert whole.half_offset == single.half_offset
        assert whole.undecided(end + 100) == single.undecided(end + 100)
        assert whole.open_offsets(0, end + 100, 200) == single.open_offsets(0, end + 100, 200)
        assert whole.is_taken(taken) == single.is_taken(taken)


def lines_of(work):
    """Run *work* and return how many lines of Python that took; unlike its time, other processes do not change it."""
    lines, before = 0, sys.gettrace()

    def trace(frame, event, arg):
        nonlocal lines
        lines += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_settling_a_million_that_left_the_log_takes_no_time():
    ledger = Ledger(0, 0)
    ledger.settle(1_000_000)
    assert lines_of(lambda: ledger.settle_before(1_000_000)) < 1000
    assert (ledger.half_offset, ledger.undecided(1_000_001)) == (1_000_000, 0)
