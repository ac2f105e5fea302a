"""Duration of the steps of a server's event loop: a timer that is due every 2 ms, and how late it is called.

    python benchmarks/loop_watch.py LOG COMMAND...     runs a command of gantrymq with that timer on its loop
    python benchmarks/loop_watch.py LOG                runs the timer alone, which measures the machine

A step is anything that blocks the loop: a callback, a thread that does not release the interpreter's lock,
or a machine without a free core. LOG gets a line for each call that is late by more than a millisecond: its
time and its delay, in seconds of the monotonic clock, which all processes of this machine share, and the CPU
time of the loop's thread since the last call, which other load hardly changes.
`LoopWatch` reads it in another process.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

PERIOD_S = 0.002
LEAST_S = 0.001
LONG_MS = 20.0  # no step of the loop should be longer


class Steps(NamedTuple):
    """Late steps within a period."""

    longest_ms: float
    long: int  # steps of more than LONG_MS
    idle_ms: float  # how late an idle process was
    longest_cpu_ms: float = 0.0  # of the loop's thread, between two calls of the timer

    @property
    def said(self) -> str:
        """The number of steps that were too long, and the delay of an idle process."""
        many = f"{self.long} over {LONG_MS:g} ms, " if self.long else ""
        return f"{many}idle process {self.idle_ms:.1f} ms"


class LoopWatch:
    """Reads the log written by `main` in a process that is started with the interpreter arguments *python*."""

    def __init__(self, log: Path) -> None:
        """*log*: written by one process and by no other."""
        self._log = log
        self.python = (str(Path(__file__).resolve()), str(log))  # for `BrokerProcess`

    def between(self, began: float, ended: float, idle: Path) -> Steps:
        """Return the late steps between two times of `time.monotonic`, 0 if none. *idle*: log of `idle_log`."""
        late, cpu = _late_ms(self._log, began, ended)
        return Steps(max(late), sum(each > LONG_MS for each in late), max(_late_ms(idle, began, ended)[0]), max(cpu))


def _late_ms(log: Path, began: float, ended: float) -> tuple[list[float], list[float]]:
    """Return the delays of the calls between two times, and the CPU times before them."""
    delays, times = [0.0], [0.0]
    for line in log.read_text().splitlines():
        at, late, cpu = map(float, line.split())
        if began <= at and at - late <= ended:
            delays.append(late * 1000)
            times.append(cpu * 1000)
    return delays, times


@contextmanager
def idle_log(log: Path) -> Iterator[None]:
    """Start a process that does nothing but record in *log* how late it is."""
    log.touch()
    with subprocess.Popen([sys.executable, str(Path(__file__).resolve()), str(log)]) as idle:
        try:
            yield
        finally:
            idle.terminate()


def note(log: int, due: float, cpu_s: float = 0.0) -> None:
    """Record the current delay, and the CPU time since the last call."""
    now = time.monotonic()
    if now - due > LEAST_S:
        os.write(log, b"%.6f %.6f %.6f\n" % (now, now - due, cpu_s))


class _Timer:
    """Called again and again on one loop."""

    def __init__(self, log: int) -> None:
        self._log = log
        self._due = self._cpu = 0.0

    def start(self) -> None:
        self._due, self._cpu = time.monotonic() + PERIOD_S, time.thread_time()
        asyncio.get_running_loop().call_later(PERIOD_S, self._call)

    def _call(self) -> None:
        self.note()
        self.start()

    def note(self) -> None:
        """Record the current delay."""
        note(self._log, self._due, time.thread_time() - self._cpu)


def watched(runner: type[asyncio.Runner], timer: _Timer) -> type[asyncio.Runner]:
    """A runner that keeps *timer* on its loop, from the first step to the last."""

    class Watched(runner):  # type: ignore[misc, valid-type]
        def run(self, coro: Coroutine[Any, Any, Any], **more: Any) -> Any:
            async def both() -> Any:
                timer.start()
                try:
                    return await coro
                finally:
                    timer.note()

            return super().run(both(), **more)

    return Watched


def main() -> None:
    """Run the command in this process, or only the timer."""
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if len(sys.argv) == 2:
        due = time.monotonic()
        while True:
            due = max(due, time.monotonic()) + PERIOD_S
            time.sleep(max(0.0, due - time.monotonic()))
            note(log, due)
    asyncio.Runner = watched(asyncio.Runner, _Timer(log))  # type: ignore[misc]
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
