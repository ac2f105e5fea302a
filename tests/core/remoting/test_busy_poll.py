"""Busy polling after a request: start, duration and end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import attrs
import pytest

from gantrymq.remoting.busy_poll import (
    MAX_GAP_S,
    MIN_GAP_S,
    MISS_COST,
    REQUESTS_TO_RETRY,
    REQUESTS_TO_START,
    START_CREDIT,
    BusyPoll,
)
from gantrymq.remoting.codes import FLAG_ONEWAY, RequestCode
from gantrymq.remoting.command import Command, encode

WINDOW_S = 0.0003
SEND = Command(RequestCode.SEND_MESSAGE_V2)
DECISION = Command(RequestCode.END_TRANSACTION, flag=FLAG_ONEWAY)


class Peer:
    """Replacement of a connection."""


class Asking:
    """Peers that send requests, on a manual clock and a loop that is run step by step."""

    def __init__(self, clock, world, processors=2.0):
        self.clock = clock
        self.loop = asyncio.new_event_loop()
        self.poll = BusyPoll(attrs.evolve(world, processors=lambda: processors), WINDOW_S)
        self.peer = Peer()

    def ask(self, times=1, *, after_s=0.0001, peer=None, requests=(SEND,), answered=True):
        for _ in range(times):
            self.clock.now += after_s
            began = self.clock.now
            self.clock.now += 0.00002
            self.loop.run_until_complete(self._served(peer or self.peer, requests, began, answered))
        return self.poll.awake

    async def _served(self, peer, requests, began, answered):
        self.poll.served(peer, list(requests), began, self.clock.now, answered=answered)

    def turn(self, *, after_s=0.0):
        """Run one turn of the loop, *after_s* later; return whether it is awake after that."""
        self.clock.now += after_s
        self.loop.run_until_complete(asyncio.sleep(0))
        return self.poll.awake

    def wait_in_vain(self):
        """Run a turn after more than the window; it must have been awake."""
        assert self.poll.awake
        return self.turn(after_s=WINDOW_S)


@pytest.fixture
def asking(clock, world):
    found = Asking(clock, world)
    yield found
    found.loop.close()


def test_one_peer_that_asks_again_and_again_keeps_the_loop_awake_for_a_moment(asking):
    assert not asking.ask(REQUESTS_TO_START)  # the first starts the series
    assert asking.ask()
    assert asking.turn(after_s=WINDOW_S / 2)
    assert asking.turn()
    assert not asking.turn(after_s=WINDOW_S * 0.6)
    assert not asking.turn()


def test_a_producer_of_transactions_keeps_the_loop_awake(asking):
    for _ in range(REQUESTS_TO_START):
        asking.ask()
        asking.ask(requests=(DECISION,), answered=False)
    assert asking.poll.awake
    assert asking.turn(after_s=WINDOW_S / 2)
    for requests in ((DECISION, SEND), (SEND, DECISION)):
        assert asking.ask(requests=requests)
        assert asking.turn(after_s=WINDOW_S / 2)


@pytest.mark.parametrize(
    "requests",
    [
        (DECISION, DECISION),
        (DECISION, DECISION, SEND),
        (Command(RequestCode.PULL_MESSAGE), DECISION),
        (DECISION, Command(RequestCode.PULL_MESSAGE)),
        (SEND, SEND),
    ],
)
def test_other_pairs_of_requests_do_not(asking, requests):
    assert not asking.ask(3 * REQUESTS_TO_START, requests=requests)


def test_a_decision_that_is_answered_is_a_request_like_others(asking):
    answered = (Command(RequestCode.END_TRANSACTION),)
    assert not asking.ask(3 * REQUESTS_TO_START, requests=answered, answered=False)
    assert asking.ask(2 * REQUESTS_TO_START, requests=answered)


def test_each_request_begins_the_moment_anew(asking):
    asking.ask(REQUESTS_TO_START + 1)
    for _ in range(5):
        assert asking.turn(after_s=WINDOW_S * 0.8)
        assert asking.ask(after_s=0)
    assert not asking.turn(after_s=WINDOW_S)


@pytest.mark.parametrize(
    "otherwise",
    [
        {"peer": Peer()},
        {"requests": (SEND, SEND)},
        {"requests": (Command(RequestCode.PULL_MESSAGE),)},
        {"requests": (Command(RequestCode.LITE_PULL_MESSAGE),)},
        {"answered": False},
        {"after_s": MAX_GAP_S * 1.01},
    ],
    ids=["another peer", "several at once", "a pull", "a lite pull", "no answer", "far apart"],
)
def test_a_row_is_broken_by(asking, otherwise):
    asking.ask(REQUESTS_TO_START)
    assert not asking.ask(**otherwise)
    assert not asking.ask(REQUESTS_TO_START - 1)
    assert asking.ask(2)
    asking.ask(**otherwise)
    assert not asking.turn()  # and the polling has stopped


def test_a_loop_that_ends_its_wait_for_another_peer_lost_nothing(asking):
    for _ in range(20 * START_CREDIT // MISS_COST):
        assert asking.ask(REQUESTS_TO_START + 1)
        asking.ask(peer=Peer())
        assert not asking.turn()


def test_peers_that_are_too_slow_are_given_up_for_long(asking):
    asking.ask(REQUESTS_TO_START + 1)
    for _ in range(START_CREDIT // MISS_COST - 1):
        assert not asking.wait_in_vain()
        assert asking.ask()
    assert not asking.wait_in_vain()
    assert not asking.ask(REQUESTS_TO_RETRY - 1)
    assert asking.ask()


def test_a_late_request_now_and_then_is_no_reason_to_give_up(asking):
    asking.ask(REQUESTS_TO_START + 1)
    for _ in range(50):
        assert asking.ask(MISS_COST)
        assert not asking.wait_in_vain()
        assert asking.ask()


def test_requests_that_were_there_anyway_are_no_gain(asking):
    asking.ask(REQUESTS_TO_START + 1)
    for _ in range(START_CREDIT // MISS_COST - 1):
        assert asking.ask(MISS_COST, after_s=MIN_GAP_S / 2)
        assert not asking.wait_in_vain()
        assert asking.ask()
    assert not asking.wait_in_vain()
    assert not asking.ask(REQUESTS_TO_START + 1)


def test_a_window_ends_where_a_row_does(clock, world):
    poll = BusyPoll(attrs.evolve(world, processors=lambda: 2.0), 1.0)
    asking = Asking(clock, world)
    asking.poll = poll
    assert asking.ask(REQUESTS_TO_START + 1)
    assert not asking.turn(after_s=MAX_GAP_S)
    asking.loop.close()


def test_each_turn_makes_way_for_who_waits_for_the_processor(clock, world):
    turns = []
    asking = Asking(clock, attrs.evolve(world, yield_processor=lambda: turns.append(clock.now)))
    asking.ask(REQUESTS_TO_START + 1)
    before = len(turns)
    asking.turn()
    assert len(turns) > before
    asking.wait_in_vain()
    asking.turn()
    before = len(turns)
    asking.turn()
    assert len(turns) == before
    asking.loop.close()


@pytest.mark.parametrize("processors", [1.0, 0.5, 1.9])
def test_where_the_peer_may_need_the_only_processor_nothing_stays_awake(clock, world, processors):
    asking = Asking(clock, world, processors)
    assert not asking.ask(1000)
    asking.loop.close()


def test_a_peer_that_has_gone_is_not_kept(asking):
    asking.ask(REQUESTS_TO_START + 1)
    gone = weakref.ref(asking.peer)
    asking.peer = Peer()
    gc.collect()
    assert gone() is None
    assert not asking.ask()


@pytest.mark.parametrize("answered", [True, False])
def test_a_connection_tells_of_every_read_when_it_was_served_and_whether_answered(rig, clock, answered):
    told = []

    class Poll:
        def served(self, *given, answered):
            told.append((*given, answered))

    class Slow:
        def requests(self, connection, commands):
            clock.now += 0.5
            if answered:
                connection.reply(commands[0], Command(0))

    connection, _ = rig.connect(Slow(), sniffing=False, busy_poll=Poll())
    clock.now += 1
    began = clock.now
    connection.data_received(encode(Command(34, opaque=1)) + encode(Command(35, opaque=2)))
    [(peer, requests, *rest)] = told
    assert peer is connection
    assert [each.code for each in requests] == [34, 35]
    assert rest == [began, began + 0.5, answered]
