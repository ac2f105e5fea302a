"""Processes of brokers on the operating system.

The program is `gantrymq.cli.several.child`. It gets its work as one JSON document on standard input, so that secrets
are not in the list of processes. The pipe stays open: its end tells the child that this process died. A child has a
session of its own, because Ctrl-C on a terminal must reach this process only. It shares standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE
from typing import Any

from gantrymq import strict_json

__all__ = ["BrokerProcess", "launch"]

_PROGRAM = "gantrymq.cli.several.child"


class BrokerProcess:
    """A process of `launch`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def answer(self) -> dict[str, Any] | None:
        """Return the first line of its standard output; None if there is none."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        return strict_json.loads(line) if line.endswith(b"\n") else None  # a killed process may leave half a line

    async def wait(self) -> int:
        """Wait for the end."""
        return await self._process.wait()

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


async def launch(name: str, work: dict[str, Any]) -> BrokerProcess:
    """Start the process of broker *name*, shown in the list of processes; *work*: see `child`.

    Raises:
        OSError: the system cannot start a process.
    """
    # -P: a module in the current folder must not replace one of ours.
    program = (sys.executable, "-P", "-m", _PROGRAM, name)
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE, start_new_session=True)
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # the end of the process says more
        process.stdin.write(strict_json.dumps(work) + b"\n")
        await process.stdin.drain()
    return BrokerProcess(process)
