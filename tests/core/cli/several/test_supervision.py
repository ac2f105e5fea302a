"""A broker's process under supervision, with processes that exist only in the test."""

import asyncio
import logging
import signal

import pytest
from manual_clock import ManualClock

from gantrymq.cli.several.supervision import (
    BACK_OFF_FIRST_S,
    BACK_OFF_MOST_S,
    STEADY_S,
    BackOff,
    BrokerNotStarted,
    SupervisedBroker,
    ended,
)

READY = {"ready": True, "broker": "127.0.0.1:1", "port": 1}


class FakeProcess:
    """A process that ends when it is told to, or at SIGTERM unless it is *stubborn*."""

    def __init__(self, pid, answer, code=0, stubborn=False):
        self.pid, self._answer, self.stubborn = pid, answer, stubborn
        self.code = asyncio.get_running_loop().create_future()
        if answer is None or "error" in answer:
            self.code.set_result(code)

    async def answer(self):
        return self._answer

    async def wait(self):
        return await asyncio.shield(self.code)

    def end(self, code):
        if not self.code.done():
            self.code.set_result(code)

    def terminate(self):
        if not self.stubborn:
            self.end(0)

    def kill(self):
        self.end(-signal.SIGKILL)


class Rig:
    """A broker whose processes are made of *script*: answers, in order; the last one is repeated."""

    def __init__(self, *script, code=1, **options):
        self.script, self.code, self.options = list(script), code, options
        self.clock = ManualClock()
        self.pauses = []
        self.clock.sleep = self._sleep
        self.ports, self.processes = [], []
        self.broker = SupervisedBroker("broker-1", self.launch, self.clock)

    async def _sleep(self, seconds):
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0)

    async def launch(self, port):
        self.ports.append(port)
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, OSError):
            raise answer
        self.processes.append(FakeProcess(100 + len(self.processes), answer, self.code, **self.options))
        return self.processes[-1]

    async def turns(self, condition):
        """Run the loop until *condition*."""
        for _ in range(1000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("never")


def test_pauses_double_up_to_a_limit_and_are_short_again_after_a_steady_run():
    back_off = BackOff()
    pauses = [back_off.after(1.0) for _ in range(10)]
    assert pauses[:3] == [BACK_OFF_FIRST_S, 2 * BACK_OFF_FIRST_S, 4 * BACK_OFF_FIRST_S]
    assert pauses[-1] == BACK_OFF_MOST_S
    assert back_off.after(STEADY_S) == BACK_OFF_FIRST_S


def test_a_process_that_dies_is_started_again_on_its_port(caplog):
    async def work():
        rig = Rig(READY)
        await rig.broker.start()
        rig.broker.keep()
        rig.clock.advance(5)
        rig.processes[0].end(-signal.SIGKILL)
        await rig.turns(lambda: rig.broker.pid == 101)
        assert await rig.broker.stop(1) == ""
        return rig

    rig = asyncio.run(work())
    assert rig.ports == [None, 1]
    assert rig.pauses == [BACK_OFF_FIRST_S]
    assert "broker-1 (process 100) was killed by SIGKILL after 5.0 s; it is started again" in caplog.text
    assert "broker-1 is ready again as process 101" in caplog.text
    assert len(rig.processes) == 2


def test_a_process_that_an_operator_stops_is_started_again_with_a_warning(caplog):
    async def work():
        rig = Rig(READY)
        await rig.broker.start()
        rig.broker.keep()
        rig.processes[0].terminate()
        await rig.turns(lambda: rig.broker.pid == 101)
        await rig.broker.stop(1)

    asyncio.run(work())
    (record,) = [record for record in caplog.records if "ended with exit code 0" in record.getMessage()]
    assert record.levelname == "WARNING"


def test_it_never_gives_up(caplog):
    refused = {"error": "StoreError", "message": "the disk is gone", "exit_code": 1}

    async def work():
        rig = Rig(READY, refused, OSError("no memory"), None, *[refused] * 20, READY)
        await rig.broker.start()
        rig.broker.keep()
        rig.processes[0].end(1)
        await rig.turns(lambda: rig.broker.pid == 123)
        await rig.broker.stop(1)
        return rig

    rig = asyncio.run(work())
    assert rig.pauses[-1] == BACK_OFF_MOST_S
    assert "broker-1 is not started again: broker-1: the disk is gone; the next try follows" in caplog.text
    assert "broker-1 is not started again: no memory" in caplog.text
    assert "broker-1 ended with exit code 1 before it was ready" in caplog.text


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        ({"error": "ConfigError", "message": "--set x: y", "exit_code": 2}, 2, "broker-1: --set x: y"),
        (None, 1, "broker-1 was killed by SIGSEGV before it was ready; its log says why"),
    ],
)
def test_a_first_start_that_fails_raises_with_the_exit_code(answer, code, message):
    async def work():
        rig = Rig(answer, code=-signal.SIGSEGV)
        with pytest.raises(BrokerNotStarted) as raised:
            await rig.broker.start()
        assert await rig.broker.stop(1) == ""
        return raised.value

    problem = asyncio.run(work())
    assert (str(problem), problem.exit_code) == (message, code)


def test_a_process_that_does_not_stop_is_killed_with_a_sentence():
    async def work():
        rig = Rig(READY, stubborn=True)
        await rig.broker.start()
        rig.broker.keep()
        stopping = asyncio.create_task(rig.broker.stop(10))
        await rig.turns(lambda: rig.clock.timers)
        rig.clock.advance(9)
        await asyncio.sleep(0)
        assert not stopping.done()
        rig.clock.advance(1)
        return await stopping

    assert asyncio.run(work()) == ("broker-1 did not stop within 10 s and was killed; its next start repairs the store")


def test_a_stop_during_a_restart_ends_the_new_process():
    """Also if it comes while the system is still creating that process."""

    async def work():
        rig = Rig(READY)
        await rig.broker.start()
        created = asyncio.Event()
        launch = rig.launch

        async def slow(port):
            await created.wait()
            return await launch(port)

        rig.broker.launch = slow
        rig.broker.keep()
        rig.processes[0].end(1)
        await rig.turns(lambda: rig.pauses)
        await asyncio.sleep(0)
        stopping = asyncio.create_task(rig.broker.stop(10))
        await asyncio.sleep(0)
        created.set()
        await stopping
        return rig

    rig = asyncio.run(work())
    assert [process.code.result() for process in rig.processes] == [1, 0]


def test_a_crash_while_stopping_is_told():
    async def work():
        rig = Rig(READY, stubborn=True)
        await rig.broker.start()
        stopping = asyncio.create_task(rig.broker.stop(10))
        await rig.turns(lambda: rig.clock.timers)
        rig.processes[0].end(-signal.SIGABRT)
        return await stopping

    assert asyncio.run(work()) == "broker-1 was killed by SIGABRT while it was stopping"


def test_unknown_signals_have_their_number():
    assert ended(-64) in ("was killed by SIGRTMAX", "was killed by signal 64")
    assert ended(3) == "ended with exit code 3"


@pytest.fixture(autouse=True)
def _logged(caplog):
    caplog.set_level(logging.INFO)
