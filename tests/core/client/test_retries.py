"""Decisions after a failed attempt."""

import random

import pytest

from gantrymq.client.sending.retries import LONGEST_PAUSE_S, RetryPolicy, SendRetries
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, NoRoute

IN_TURN = RetryPolicy(3)
ASYNC = RetryPolicy(3, frozenset())
ONE_QUEUE = RetryPolicy(1, frozenset(), one_queue=True)


def refused(code):
    return BrokerRefused(code, "no", "b:1")


def attempts(policy, error, most=20):
    """Return the number of attempts if all end with *error*."""
    retries = SendRetries(policy)
    for count in range(1, most + 1):
        retries.brokers += ("b",)
        if not retries.failed("b", error):
            return count
    return None  # without end


@pytest.mark.parametrize(
    ("error", "in_turn", "send_async", "one_queue"),
    [
        (ConnectFailed(""), None, None, None),
        (NoRoute(""), None, None, 1),
        (refused(14), None, None, None),
        (refused(1500), None, None, None),
        (ConnectionLost(""), 3, 3, 1),
        (CallTimeout(""), 3, 3, 1),
        (refused(2), 3, 1, 1),
        (refused(13), 1, 1, 1),
    ],
)
def test_the_table(error, in_turn, send_async, one_queue):
    assert attempts(IN_TURN, error) == in_turn
    assert attempts(ASYNC, error) == send_async
    assert attempts(ONE_QUEUE, error) == one_queue


def test_what_reached_nobody_does_not_use_up_attempts():
    retries = SendRetries(RetryPolicy(2))
    assert all(retries.failed("b", ConnectFailed("")) for _ in range(10))
    assert retries.failed("b", ConnectionLost(""))
    assert retries.last_attempt
    assert retries.failed("b", ConnectFailed(""))
    assert not retries.failed("b", ConnectionLost(""))


def test_a_chosen_queue_whose_broker_was_there_is_waited_for_when_its_route_goes():
    retries = SendRetries(ONE_QUEUE)
    retries.brokers += ("b",)
    assert retries.failed("b", ConnectFailed(""))
    retries.brokers += ("b",)
    assert retries.failed("b", NoRoute(""))


def test_another_broker_is_tried_at_once_and_all_of_them_again_after_a_pause():
    retries, chance = SendRetries(IN_TURN), random.Random(1)
    for name in "ab":
        retries.brokers += (name,)
        assert retries.failed(name, refused(2))
        pause_s = retries.pause_s("ab", 3.0, chance)
        assert (pause_s == 0) == (name == "a")
    assert retries.avoid == {"b"}


def test_a_broker_that_was_not_reached_is_asked_first_after_the_pause():
    retries = SendRetries(IN_TURN)
    for name in "ab":
        retries.brokers += (name,)
        retries.failed(name, ConnectFailed(""))
    assert retries.pause_s("ab", 3.0, random.Random(1)) > 0
    assert retries.avoid == {"a"}


def test_pauses_grow_to_a_bound_and_leave_time_for_another_attempt():
    retries, chance = SendRetries(IN_TURN), random.Random(1)
    retries.brokers = ("b",)
    pauses = []
    for _ in range(8):
        retries.failed("b", ConnectFailed(""))
        pauses.append(retries.pause_s("b", 60.0, chance))
    assert pauses[:4] == sorted(pauses[:4])
    assert 0.03 < pauses[0] <= 0.05
    assert max(pauses) <= LONGEST_PAUSE_S
    assert len(set(pauses)) == 8  # a part of each is random
    retries.failed("b", ConnectFailed(""))
    assert retries.pause_s("b", 0.1, chance) == 0.05


def test_only_the_brokers_decision_counts_as_an_answer():
    retries = SendRetries(IN_TURN)
    for error, answered in [(refused(13), True), (refused(2), True), (refused(14), False), (CallTimeout(""), False)]:
        retries.failed("b", error)
        assert retries.answered is answered
