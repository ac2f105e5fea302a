"""Counting of all file calls, and the decision which of them fails, is slow, or ends the process."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import attrs

from gantrymq_storage_faults.plan import Failure, FaultPlan, Slowness
from gantrymq_testing.simulated import ProcessKilled

_TRACE_CALLS = 400  # number of calls in the trace

T = TypeVar("T")


class Crashed(ProcessKilled):
    """Raised when the process ends at a call of `Files`, and by every later call. Not a subclass of Exception."""


@attrs.define
class _Call:
    number: int
    name: str
    path: Path
    position: int
    length: int
    outcome: str = ""

    def __str__(self) -> str:
        span = f" [{self.position}, {self.position + self.length})" if self.length else ""
        return f"{self.number:>7} {self.name} {self.path}{span}" + (f": {self.outcome}" if self.outcome else "")


class Calls:
    """Counter, trace and lock shared by all files of a process."""

    def __init__(self, plan: FaultPlan, lock: threading.RLock) -> None:
        """*lock* is shared by all users of the machine."""
        self.plan = plan
        self.number = 0  # number of calls so far
        self.counts: Counter[str] = Counter()  # number of calls by name
        self.dead = False
        self.lock = lock
        self.on_crash: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None  # runs after every successful call
        self.stall: Callable[[float], object] | None = None
        self._trace: deque[_Call] = deque(maxlen=_TRACE_CALLS)
        self.failed: Counter[str] = Counter()  # planned failures by name
        self._failures: list[Failure] = []
        self._matched: list[int] = []
        self._failed: list[int] = []
        self._failing: set[str] = set()
        self.fail(*plan.failures)
        self._random = {use: random.Random(f"{plan.seed}/{use}") for use in ("crash", "failures", "slowness", "flips")}
        self._late = threading.local()

    def make(
        self,
        name: str,
        path: Path,
        do: Callable[[], T],
        *,
        position: int = 0,
        length: int = 0,
        part: Callable[[random.Random], object] | None = None,
        failed: Callable[[int], object] = lambda number: None,
    ) -> T:
        """Make one call, as modified by the plan.

        Args:
            name: of the method.
            path: file or folder of the call.
            do: makes the call.
            position: bytes from the start of the file.
            length: bytes.
            part: makes a part of the call, if the process ends during it.
            failed: additional effect of a planned failure; receives its errno.
        """
        with self.lock:
            if self.dead:
                raise Crashed(f"{name} {path}: the process ended at call {self.number}")
            self.number += 1
            self.counts[name] += 1
            call = _Call(self.number, name, path, position, length)
            self._trace.append(call)
            seconds = self._slow(name, path)
            if self.number == self.plan.crash_at:
                self._end(call, do, part)
            number = self._failure(call)
            if number:
                failed(number)
                raise OSError(number, os.strerror(number), str(call.path))
            try:
                result = do()
            except OSError as error:
                call.outcome = errno.errorcode.get(error.errno or 0, str(error))
                raise
            self.after()
        if seconds:
            self._wait(seconds)
        return result

    def bit_flip(self) -> random.Random | None:
        """Return the source of randomness for a wrong bit, None if this read is correct."""
        rng = self._random["flips"]
        return rng if self.plan.flip_share and rng.random() < self.plan.flip_share else None

    def set_outcome(self, outcome: str) -> None:
        """Set the outcome of the newest call in the trace."""
        self._trace[-1].outcome = outcome

    def trace(self, last: int) -> str:
        """Return the newest calls, one per line."""
        with self.lock:
            return "\n".join(map(str, list(self._trace)[-last:]))

    # --- time -------------------------------------------------------------------------------------------------------

    def begin_work(self) -> None:
        """Start measuring the delay of work of this thread off the event loop."""
        self._late.seconds = 0.0

    def end_work(self) -> float:
        """Return the seconds by which calls since `begin_work` were slow."""
        seconds: float = self._late.seconds
        del self._late.seconds
        return seconds

    def _wait(self, seconds: float) -> None:
        if hasattr(self._late, "seconds"):
            self._late.seconds += seconds
        elif self.stall is not None:
            self.stall(seconds)

    def _slow(self, name: str, path: Path) -> float:
        return sum(self._seconds(slow, name, path) for slow in self.plan.slowness)

    def _seconds(self, slow: Slowness, name: str, path: Path) -> float:
        rng = self._random["slowness"]
        if name not in slow.calls or slow.where not in str(path) or rng.random() >= slow.share:
            return 0.0
        return rng.uniform(*slow.seconds)

    # --- failures and crashes ---------------------------------------------------------------------------------------

    def fail(self, *failures: Failure) -> None:
        """Add failures from now on."""
        self._failures += failures
        for failure in failures:
            self._matched.append(0)
            self._failed.append(0)
            self._failing |= failure.calls

    def implicit_failure(self, name: str, path: Path) -> int:
        """Return the errno with which an operation of `IMPLICIT_OPERATIONS` fails, 0 if it does not."""
        with self.lock:
            if name not in self._failing or self.dead:
                return 0
            call = _Call(self.number, name, path, 0, 0)
            number = self._failure(call)
            if number:
                self._trace.append(call)
            return number

    def _failure(self, call: _Call) -> int:
        """Return the errno with which *call* fails, 0 if it does not."""
        if call.name in self._failing:
            for index, failure in enumerate(self._failures):
                if self._meets(index, failure, call):
                    self._failed[index] += 1
                    self.failed[call.name] += 1
                    call.outcome = errno.errorcode.get(failure.number, str(failure.number))
                    return failure.number
        return 0

    def _meets(self, index: int, failure: Failure, call: _Call) -> bool:
        if call.name not in failure.calls or failure.where not in str(call.path):
            return False
        self._matched[index] += 1
        if failure.at:
            return self._matched[index] == failure.at
        return self._failed[index] < failure.times and self._random["failures"].random() < failure.share

    def _end(self, call: _Call, do: Callable[[], object], part: Callable[[random.Random], object] | None) -> None:
        """End the process before, during or after the call."""
        rng = self._random["crash"]
        moment = rng.choice(("before", "in", "after"))
        result: object = None
        if moment == "in" and part is not None:
            part(rng)
        elif moment == "after":
            with suppress(Exception):  # a failed call has no effect, and the process has ended
                result = do()
        else:
            moment = "before"
        call.outcome = f"the process ends {moment} this call"
        self.end()
        for give_back in ("close", "release"):  # release a file or lock that was not returned
            getattr(result, give_back, lambda: None)()
        raise Crashed(str(call))

    def end(self) -> None:
        """Mark the process as ended."""
        self.dead = True
        self.on_crash()
