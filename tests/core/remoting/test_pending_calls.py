"""Pending calls: numbers, deadlines, and removal."""

import asyncio
import functools

import pytest

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.command import Command
from gantrymq.remoting.pending_calls import PendingCalls


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


class Written:
    """The number of bytes released from our memory."""

    position = 0

    def __call__(self):
        return self.position


@pytest.fixture
def written():
    return Written()


@pytest.fixture
def calls(clock, written):
    return PendingCalls(clock, lambda: "10.0.0.9:4711", written)


@in_loop
async def test_an_answer_reaches_the_call_with_its_number_once(calls):
    first, second = (calls.wait(calls.number(), 11, 5.0) for _ in range(2))
    answer = Command(0, opaque=1)
    assert calls.answer(answer)
    assert await second is answer
    assert not first.done()
    assert not calls.answer(answer)
    assert len(calls) == 1
    calls.forget(0, second)  # not the one that has this number
    assert len(calls) == 1
    first.cancel()
    calls.forget(0, first)
    assert len(calls) == 0


@in_loop
async def test_numbers_in_use_are_passed_over_when_they_come_round(calls):
    waiting = calls.wait(0x7FFFFFFF, 11, 5.0)
    calls._next = 0x7FFFFFFF
    assert [calls.number(), calls.number()] == [0, 1]
    waiting.cancel()
    calls.forget(0x7FFFFFFF, waiting)
    calls._next = 0x7FFFFFFF
    assert [calls.number(), calls.number()] == [0x7FFFFFFF, 0]


@in_loop
async def test_a_call_that_takes_too_long_says_who_did_not_answer(calls, clock):
    waiting = calls.wait(0, 11, 5.0)
    calls.begin(0)
    clock.advance(5.1)
    with pytest.raises(CallTimeout, match=r"10\.0\.0\.9:4711: no answer to .*PULL_MESSAGE.* within 5 s"):
        await waiting
    assert not calls.answer(Command(0, opaque=0))


@pytest.mark.parametrize(
    ("timeout_s", "said"), [(4.99976, "5 s"), (4.97, "5 s"), (2.3741, "2.4 s"), (0.0312, "0.031 s")]
)
@in_loop
async def test_the_time_in_the_sentence_is_rounded(calls, clock, timeout_s, said):
    waiting = calls.wait(0, 11, timeout_s)  # the rest of the caller's 5 s after connecting
    calls.begin(0)
    clock.advance(5.1)
    with pytest.raises(CallTimeout, match=f" within {said}$"):
        await waiting


@in_loop
async def test_all_calls_fail_with_the_connection_and_their_timers_go(calls, clock):
    waiting = [calls.wait(calls.number(), 11, 5.0) for _ in range(3)]
    calls.begin(0)
    calls.lost()
    for each in waiting:
        with pytest.raises(ConnectionLost, match="closed before the answer"):
            await each
    await asyncio.sleep(0)
    assert all(timer.cancelled for timer in clock.timers)
    assert len(calls) == 0


@in_loop
async def test_requests_that_are_handed_over_together_share_a_timer_which_goes_with_the_last(calls, clock):
    waiting = [calls.wait(number, 11, 5.0 + number // 3) for number in range(6)]
    calls.begin(0)
    assert len(clock.timers) == 2
    for number in range(4):
        assert calls.answer(Command(0, opaque=number))
    calls.forget(4, waiting[4])
    assert [timer.cancelled for timer in clock.timers] == [True, False]
    clock.advance(6.1)
    assert [each.done() for each in waiting] == [True, True, True, True, False, True]
    assert isinstance(waiting[5].exception(), CallTimeout)


@in_loop
async def test_the_deadline_begins_when_the_request_is_handed_over(calls, clock):
    waiting = calls.wait(0, 11, 5.0)
    clock.advance(60.0)
    calls.begin(0)
    clock.advance(4.9)
    assert not waiting.done()
    clock.advance(0.2)
    assert isinstance(waiting.exception(), CallTimeout)


@in_loop
async def test_a_call_behind_bytes_that_the_peer_reads_has_more_time_and_one_behind_a_standstill_has_not(
    calls, clock, written
):
    waiting = calls.wait(0, 11, 5.0)
    calls.begin(1000)
    for position in (400, 900):
        written.position = position
        clock.advance(5.0)
        assert not waiting.done()
    clock.advance(5.0)
    assert isinstance(waiting.exception(), CallTimeout)


@in_loop
async def test_a_call_that_has_left_gets_no_more_time(calls, clock, written):
    waiting = calls.wait(0, 11, 5.0)
    calls.begin(1000)
    written.position = 1000
    clock.advance(5.0)
    assert isinstance(waiting.exception(), CallTimeout)


@in_loop
async def test_answers_are_read_before_a_late_loop_gives_up(calls, clock):
    answered, lost = (calls.wait(calls.number(), 11, 5.0) for _ in range(2))
    calls.begin(0)
    (timers, clock.timers) = (clock.timers, [])
    clock.now += 7.0  # the loop was busy
    for timer in timers:
        timer.callback(*timer.args)
    assert calls.answer(Command(0, opaque=0))
    clock.advance(0.1)
    assert (answered.result().code, type(lost.exception())) == (0, CallTimeout)
