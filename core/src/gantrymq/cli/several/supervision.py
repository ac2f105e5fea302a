"""One broker's process under supervision: started, started again after it ended, stopped.

    start          the first start; if it fails, the whole command fails
    keep           from then on: wait for the end, pause, start again on the same port; it never gives up
    stop           SIGTERM, SIGKILL after a limited time

A process answers its start with one document, `{"ready": true, ...}` or `{"error": ...}`. Nothing here uses the
operating system: processes come from a function, time from the world's clock.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import attrs

from gantrymq.errors import GantryError
from gantrymq.world import Clock

log = logging.getLogger(__name__)

BACK_OFF_FIRST_S: Final = 0.25
BACK_OFF_MOST_S: Final = 30.0
STEADY_S: Final = 60.0  # a process that was ready for this long starts the back-off anew


class BrokerNotStarted(GantryError):
    """The process of a broker ended before it was ready; *exit_code*: for the command that fails because of this."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Process(Protocol):
    """A process that was started."""

    pid: int

    async def answer(self) -> dict[str, Any] | None:
        """Return the document with which the process answers its start; None if it ends without one."""

    async def wait(self) -> int:
        """Wait for the end; return the exit code, or the negative number of the signal that killed it."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


class BackOff:
    """Pauses between starts: doubled after each end, up to a limit, and short again after a steady run."""

    def __init__(self) -> None:
        self._next_s = BACK_OFF_FIRST_S

    def after(self, ran_s: float) -> float:
        """Return the pause after the end of a process that was ready for *ran_s* seconds (0: never)."""
        if ran_s >= STEADY_S:
            self._next_s = BACK_OFF_FIRST_S
        pause_s = self._next_s
        self._next_s = min(pause_s * 2, BACK_OFF_MOST_S)
        return pause_s


@attrs.define
class SupervisedBroker:
    """The process of one broker."""

    name: str
    launch: Callable[[int | None], Awaitable[Process]]  # its argument is the port to listen on; None: as configured
    clock: Clock
    ready_line: dict[str, Any] = attrs.field(factory=dict)  # of the running process, or of the last one
    pid: int = 0  # of the last process
    _launched: asyncio.Future[Process] | None = None  # None while there is no process
    _ready_at: float | None = None
    _port: int | None = None
    _keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            BrokerNotStarted: it ended before, with the reason.
            OSError: the system cannot start a process.
        """
        self._ready_at = None
        self._launched = asyncio.ensure_future(self.launch(self._port))
        process = await asyncio.shield(self._launched)  # a process that was started must not be lost by a cancellation
        self.pid = process.pid
        answer = await process.answer()
        if answer is None or "error" in answer:
            code = await process.wait()
            self._launched = None
            if answer is None:
                raise BrokerNotStarted(f"{self.name} {ended(code)} before it was ready; its log says why")
            raise BrokerNotStarted(f"{self.name}: {answer['message']}", int(answer["exit_code"]))
        self.ready_line, self._port, self._ready_at = answer, answer.get("port"), self.clock.monotonic()

    def keep(self) -> None:
        """Start the process again whenever it ends, until `stop` is called."""
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        back_off = BackOff()
        while True:
            ran_s = 0.0
            if self._launched is not None:
                code = await (await self._launched).wait()
                self._launched = None
                assert self._ready_at is not None
                ran_s = self.clock.monotonic() - self._ready_at
                how, level = ended(code), logging.ERROR if code else logging.WARNING  # 0: an operator stopped it
                log.log(level, "%s (process %d) %s after %.1f s; it is started again", self.name, self.pid, how, ran_s)
            await self.clock.sleep(back_off.after(ran_s))
            try:
                await self.start()
            except (BrokerNotStarted, OSError) as problem:
                self._launched = None
                log.error("%s is not started again: %s; the next try follows", self.name, problem)
            else:
                log.warning("%s is ready again as process %d", self.name, self.pid)

    async def stop(self, limit_s: float) -> str:
        """Stop the process. Idempotent.

        Returns:
            The failure, as a sentence; empty if it stopped cleanly.
        """
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait([self._keeping])
        if self._launched is None:
            return ""
        try:
            process = await self._launched
        except OSError:
            return ""
        finally:
            self._launched = None
        timer = self.clock.call_later(limit_s, process.kill)
        began = self.clock.monotonic()
        process.terminate()
        code = await process.wait()
        timer.cancel()
        if code == -signal.SIGKILL and self.clock.monotonic() - began >= limit_s:
            return f"{self.name} did not stop within {limit_s:g} s and was killed; its next start repairs the store"
        if code not in (0, -signal.SIGTERM) and self._ready_at is not None:
            return f"{self.name} {ended(code)} while it was stopping"
        return ""


def ended(code: int) -> str:
    """Return how a process ended, as the predicate of a sentence."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
