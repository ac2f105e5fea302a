"""The event loop of commands, and stop signals."""

import asyncio
import os
import signal

import pytest

from gantrymq.commands.run import run, stop_requested


def test_work_runs_to_its_result():
    async def work():
        await asyncio.sleep(0)
        return 7

    assert run(work()) == 7


def test_an_error_of_the_work_comes_out():
    async def work():
        raise KeyError("x")

    with pytest.raises(KeyError):
        run(work())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_to_stop(number):
    async def work():
        asked = stop_requested()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(asked.wait(), 10)
        return asked.is_set()

    assert run(work())
