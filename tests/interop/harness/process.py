"""A child process whose JSON lines are collected while it runs; all other output is written to files."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from polling import wait_until

Event = dict[str, Any]
T = TypeVar("T")
STOP_S = 30.0
TAIL_CHARS = 3000


class Process:
    """A running command. As a context manager it is stopped at the end, or killed if its files are not needed.

    Lines of standard output that start with `{` are parsed into `events`, in order, and into `timed` with the monotonic
    time when they were read; every line is kept in `<name>.out`, standard error in `<name>.err`, both in *scratch*.
    """

    leaves_something = True

    def __init__(
        self, name: str, command: Sequence[str | os.PathLike[str]], scratch: Path, env: Mapping[str, str] | None = None
    ) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.events: list[Event] = []
        self.timed: list[tuple[float, Event]] = []
        self._out = scratch / f"{name}.out"
        self._err = scratch / f"{name}.err"
        with self._err.open("ab") as err:
            self._child = subprocess.Popen(
                command, cwd=scratch, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def output(self) -> str:
        """The standard output so far."""
        return self._out.read_text(errors="replace") if self._out.exists() else ""

    def of(self, event: str) -> list[Event]:
        """Return the events of one kind so far."""
        return [e for e in list(self.events) if e.get("event") == event]

    def wait_for(self, look: Callable[[Self], T], what: str, deadline_s: float = 60.0) -> T:
        """Poll *look* until it is true and return its value. Fail at once if the process ends before."""

        def look_and_check() -> T:
            ended = self._child.poll() is not None
            if ended:
                self._reader.join(STOP_S)
            found = look(self)
            if not found and ended:
                raise RuntimeError(f"{self.name} ended with {self._child.returncode} before {what}. {self.tail()}")
            return found

        return wait_until(look_and_check, f"{what} from {self.name}", deadline_s, self.tail)

    def wait_for_start(self, look: Callable[[Self], T], what: str, deadline_s: float) -> T:
        """Wait as `wait_for`, for constructors: a process that does not start is stopped."""
        try:
            return self.wait_for(look, what, deadline_s)
        except BaseException:
            self.stop()
            raise

    def finish(self, deadline_s: float = 60.0) -> list[Event]:
        """Wait until the process ends with code 0 and return all its events."""
        try:
            code = self._child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.stop()
            raise TimeoutError(f"{self.name} was still running after {deadline_s:g} s. {self.tail()}") from None
        self._ended()
        if code != 0:
            raise RuntimeError(f"{self.name} ended with {code}. {self.tail()}")
        return self.events

    def write_line(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(line.encode() + b"\n")
        self._child.stdin.flush()

    def close_input(self) -> None:
        """Close its standard input, which tells a driver to end regularly."""
        assert self._child.stdin is not None
        self._child.stdin.close()

    def stop(self, deadline_s: float = STOP_S) -> int:
        """Send SIGTERM, wait, and return the exit code. If the process does not end, send SIGKILL and raise an error.

        May be called again.
        """
        if self._child.poll() is None:
            self._child.terminate()
        try:
            code = self._child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.name} did not end within {deadline_s:g} s of SIGTERM. {self.tail()}") from None
        self._ended()
        return code

    def kill(self) -> None:
        """Send SIGKILL and wait."""
        self._child.send_signal(signal.SIGKILL)
        self._child.wait(STOP_S)
        self._ended()

    def pause(self) -> None:
        """Send SIGSTOP, which suspends the process until `resume`."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def alive(self) -> bool:
        return self._child.poll() is None

    def tail(self) -> str:
        """Return the last output, for messages of failed tests."""
        err = self._err.read_text(errors="replace") if self._err.exists() else ""
        return f"\n-- {self._out}\n{self.output[-TAIL_CHARS:]}\n-- {self._err}\n{err[-TAIL_CHARS:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.alive() and not self.leaves_something:
            self.kill()
        else:
            self.stop()

    def _ended(self) -> None:
        """Collect the last lines and close the pipes."""
        self._reader.join(STOP_S)
        self.close_input()

    def _read(self) -> None:
        assert self._child.stdout is not None
        with self._out.open("ab") as copy, self._child.stdout as lines:
            for line in lines:
                copy.write(line)
                copy.flush()
                if line.startswith(b"{"):
                    event = json.loads(line)
                    self.timed.append((time.monotonic(), event))
                    self.events.append(event)
