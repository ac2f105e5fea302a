"""The state machine of renewals: when a pop is renewed, for how long, and when its messages are given back."""

import gc
import random
import time
import tracemalloc

import pytest

pytest.importorskip("gantrymq_grpc")

from gantrymq.interfaces import PopAck
from gantrymq_grpc.service.renewal import GIVE_BACK_MS, LONGEST_MS, PERIOD_MS, STEPS_MS, Renewals

BACK_OFF_MS = 5_000


def pop(number=0):
    return PopAck("G", "T", 0, number, f"{number} 1795623956584 60000 2 0 broker-a 0 {number} 4332918")


class Driven:
    """Renewals with a clock, as the service drives them."""

    def __init__(self):
        self.machine, self.now, self.gone, self.stored = Renewals(), 0, set(), []

    def step(self, fails=lambda renewal: False, left=lambda renewal: True):
        self.now += PERIOD_MS
        found = self.machine.due(
            self.now, 1000, lambda client: client not in self.gone, lambda group, attempt: attempt * BACK_OFF_MS
        )
        for each in found:
            if fails(each):
                self.machine.failed(each, self.now)
                continue
            self.stored.append((self.now, each.invisible_ms, each.last))
            if left(each) and not each.last:
                assert self.machine.renewed(each, self.now) is None
        return found

    def run(self, until_ms, **more):
        while self.now < until_ms:
            self.step(**more)
        return self.stored


def test_a_pop_is_renewed_in_growing_steps_for_three_hours_then_given_back_after_the_back_off():
    driven = Driven()
    driven.machine.keep("c", pop(), 2, 0, 60_000)
    stored = driven.run(LONGEST_MS + 60_000)
    visible = 60_000
    for now, invisible, _ in stored:
        assert now < visible <= now + 15_000
        visible = now + invisible
    assert [invisible for _, invisible, _ in stored[: len(STEPS_MS)]] == list(STEPS_MS)
    assert [last for _, _, last in stored] == [False] * (len(stored) - 1) + [True]
    assert visible == LONGEST_MS + 2 * BACK_OFF_MS
    assert len(driven.machine) == 0


def test_a_pop_without_messages_left_is_not_renewed_again():
    driven = Driven()
    driven.machine.keep("c", pop(), 1, 0, 60_000)
    assert len(driven.run(600_000, left=lambda renewal: False)) == 1
    assert len(driven.machine) == 0


def test_a_renewal_that_fails_three_times_is_given_up():
    driven, tried = Driven(), []
    driven.machine.keep("c", pop(), 1, 0, 60_000)
    driven.run(600_000, fails=lambda renewal: tried.append(driven.now) or True)
    assert (tried, len(driven.machine)) == ([50_000, 55_000, 60_000], 0)


def test_a_renewal_after_a_failure_counts_failures_anew():
    driven, tried = Driven(), []
    driven.machine.keep("c", pop(), 1, 0, 60_000)
    driven.run(600_000, fails=lambda renewal: tried.append(1) or len(tried) % 3 != 0)
    assert len(driven.stored) == 4
    assert len(driven.machine) == 1


def test_messages_of_a_client_that_goes_are_given_back_once():
    driven = Driven()
    for number in range(5):
        driven.machine.keep("c", pop(number), 1, number * 7_000, 60_000)
    driven.machine.keep("other", pop(9), 1, 0, 60_000)
    given = driven.machine.client_gone("c")
    assert sorted(each.pop.offset for each in given) == [0, 1, 2, 3, 4]
    assert {(each.invisible_ms, each.last) for each in given} == {(GIVE_BACK_MS, True)}
    assert driven.machine.client_gone("c") == []
    assert len(driven.machine) == 1


def test_messages_of_a_client_without_heartbeats_are_given_back_when_they_are_due():
    driven = Driven()
    driven.machine.keep("c", pop(), 1, 0, 60_000)
    driven.gone.add("c")
    driven.run(600_000)
    assert driven.stored == [(50_000, GIVE_BACK_MS, True)]


def test_messages_of_a_client_that_goes_while_they_are_renewed_are_given_back():
    machine = Renewals()
    machine.keep("c", pop(), 1, 0, 10_000)
    (renewal,) = machine.due(5_000, 10, lambda client: True, lambda group, attempt: 0)
    assert machine.client_gone("c") == []
    machine.keep("c", pop(1), 1, 0, 60_000)  # the same client id, connected again
    given = machine.renewed(renewal, 5_000)
    assert (given.pop.offset, given.invisible_ms, given.last) == (0, GIVE_BACK_MS, True)
    assert len(machine) == 1


@pytest.mark.parametrize("seed", range(20))
def test_no_kept_pop_becomes_visible_before_it_is_renewed(seed):
    rng, driven, visible = random.Random(seed), Driven(), {}
    number = 0
    for _ in range(2_000):
        for _ in range(rng.randrange(3)):
            invisible = rng.choice((20_000, 60_000, 61_234))
            driven.machine.keep(f"c{rng.randrange(5)}", pop(number), 1, driven.now, invisible)
            visible[number] = driven.now + invisible
            number += 1
        for each in driven.step(left=lambda renewal: renewal.pop.offset in visible):
            if each.pop.offset not in visible:
                continue
            assert driven.now <= visible[each.pop.offset]
            visible[each.pop.offset] = driven.now + each.invisible_ms
            if each.last or rng.random() < 0.5:
                del visible[each.pop.offset]
        for given in driven.machine.client_gone(f"c{rng.randrange(5)}") if rng.random() < 0.02 else ():
            visible.pop(given.pop.offset, None)
        assert all(at > driven.now for at in visible.values())


def kept(count):
    driven = Driven()
    for number in range(count):
        driven.machine.keep(f"c{number % 50}", pop(number), 1, number // 50, 60_000)
    return driven


def test_100_000_kept_pops_take_less_than_40_mb():
    tracemalloc.start()
    driven = kept(20_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(driven.machine) == 20_000
    assert used * 5 < 40_000_000


def test_no_step_with_100_000_kept_pops_takes_20_ms():
    driven, slowest, renewed = kept(100_000), 0.0, 0
    gc.disable()  # collections are not part of a step
    while renewed < 100_000:
        began = time.process_time()
        found = driven.machine.due(50_000, 100, lambda client: True, lambda group, attempt: 0)
        for each in found:
            driven.machine.renewed(each, 50_000)
        slowest = max(slowest, time.process_time() - began)
        renewed += len(found)
        assert found
    gc.enable()
    assert slowest < 0.02
