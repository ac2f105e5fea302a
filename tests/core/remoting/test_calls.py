"""Requests that wait for answers: numbers, ends, and what is left of them."""

import asyncio
import functools

import pytest

from gantrymq.errors import CallTimeout, ConnectionLost
from gantrymq.remoting.calls import Calls
from gantrymq.remoting.command import Command


def in_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def calls(clock):
    return Calls(clock, lambda: "10.0.0.9:4711")


@in_loop
async def test_an_answer_reaches_the_call_with_its_number_once(calls):
    first, second = (calls.wait(calls.number(), 11, 5.0) for _ in range(2))
    answer = Command(0, opaque=1)
    assert calls.answer(answer)
    assert await second is answer
    assert not first.done()
    assert not calls.answer(answer)
    assert len(calls) == 1
    first.cancel()
    await asyncio.sleep(0)
    assert len(calls) == 0


@in_loop
async def test_numbers_in_use_are_passed_over_when_they_come_round(calls):
    waiting = calls.wait(0x7FFFFFFF, 11, 5.0)
    calls._next = 0x7FFFFFFF
    assert [calls.number(), calls.number()] == [0, 1]
    waiting.cancel()
    await asyncio.sleep(0)
    calls._next = 0x7FFFFFFF
    assert [calls.number(), calls.number()] == [0x7FFFFFFF, 0]


@in_loop
async def test_a_call_that_takes_too_long_says_who_did_not_answer(calls, clock):
    waiting = calls.wait(0, 11, 5.0)
    clock.advance(5.1)
    with pytest.raises(CallTimeout, match=r"10\.0\.0\.9:4711: no answer to .*PULL_MESSAGE.* within 5 s"):
        await waiting
    assert not calls.answer(Command(0, opaque=0))


@in_loop
async def test_all_calls_fail_with_the_connection_and_their_timers_go(calls, clock):
    waiting = [calls.wait(calls.number(), 11, 5.0) for _ in range(3)]
    calls.lost()
    for each in waiting:
        with pytest.raises(ConnectionLost, match="closed before the answer"):
            await each
    await asyncio.sleep(0)
    assert all(timer.cancelled for timer in clock.timers)
    assert len(calls) == 0
