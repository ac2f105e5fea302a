"""``gantrymq start`` as a process that a test may kill at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

READY_S = 60.0
STOP_S = 60.0
POLL_S = 0.01

SMALL_FILES = {
    "mappedFileSizeCommitLog": 1024 * 1024,  # a second of load fills several
    "mappedFileSizeConsumeQueue": 2000,  # 100 entries
}


class BrokerProcess:
    """Name server and broker in one process, on free loopback ports; killed when the context ends with it alive."""

    def __init__(
        self,
        store: Path,
        scratch: Path,
        settings: Mapping[str, object] | None = None,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process and return at once; standard output and error go to files in *scratch*.

        *environ* is more of its environment.
        """
        program = Path(sys.executable).parent / "gantrymq"
        if not program.exists():
            pytest.skip("needs `gantrymq` installed beside the Python that runs the tests")
        scratch.mkdir(parents=True, exist_ok=True)
        number = len(list(scratch.glob("*.err")))
        self.store = store
        self._out, self._err = scratch / f"{number:03d}.out", scratch / f"{number:03d}.err"
        words = ["start", "--store", str(store), "--namesrv-port", "0", "--broker-port", "0", "--output", "json"]
        for key, value in {**SMALL_FILES, **(settings or {})}.items():
            words += ["--set", f"{key}={value}"]
        # Use neither settings from the user's environment nor files in the user's home.
        env = {"PATH": os.environ["PATH"], "HOME": str(scratch), **(environ or {})}
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._child = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)

    def ready(self) -> dict[str, Any]:
        """The ready line, once it is there; a process that ends before is an error."""
        deadline = time.monotonic() + READY_S
        while b"\n" not in (text := self._out.read_bytes()):
            if self.ended_within(POLL_S):
                raise RuntimeError(f"the broker ended with {self._child.returncode} while starting:\n{self.errors}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no ready line within {READY_S:g} s:\n{self.errors}")
        line = json.loads(text)
        assert isinstance(line, dict)
        return line

    def namesrv(self) -> str:
        """HOST:PORT of the name server, once the broker is ready."""
        return str(self.ready()["namesrv"])

    def ended_within(self, seconds: float) -> bool:
        """Wait at most *seconds* for the process to exit."""
        try:
            self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def pause(self) -> None:
        """SIGSTOP."""
        self._child.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._child.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._child.send_signal(signal.SIGKILL)
        self._child.wait(STOP_S)

    def send_kill(self) -> None:
        """SIGKILL without waiting."""
        self._child.send_signal(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM, wait, and return the exit code."""
        self._child.send_signal(signal.SIGTERM)
        return self._child.wait(STOP_S)

    def send_terminate(self) -> None:
        """SIGTERM without waiting."""
        self._child.send_signal(signal.SIGTERM)

    def exit_code(self) -> int:
        """Wait for the end; negative for a signal."""
        return self._child.wait(STOP_S)

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return self._err.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child.poll() is None:
            self.kill()
