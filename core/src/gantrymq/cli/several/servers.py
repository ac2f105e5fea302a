"""The name server of this process, and the processes of several brokers behind it.

The program of a process is `gantrymq.cli.several.child`. It gets its work as one JSON document on standard input, so
that secrets are not in the list of processes. The pipe stays open: its end tells the child that this process died. A
child has a session of its own, because Ctrl-C on a terminal must reach this process only. It shares standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq import strict_json
from gantrymq.broker.exposure import NAME_SERVER
from gantrymq.cli import LOADED_AT
from gantrymq.cli.server_settings import NameServerSettings, exposure_notes
from gantrymq.cli.serving import Servers, name_servers
from gantrymq.cli.several.planned import PlannedBroker
from gantrymq.cli.several.supervision import Process, SupervisedBroker
from gantrymq.errors import GantryError
from gantrymq.world import World

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


log = logging.getLogger(__name__)

STOP_LIMIT_S: Final = 45.0  # below TimeoutStopSec of the systemd unit


class BrokersKilled(GantryError):
    """Brokers did not stop cleanly."""


@attrs.define
class SeveralBrokers:
    """A name server and several brokers, started and stopped together."""

    world: World
    name_server: NameServerSettings
    planned: Sequence[PlannedBroker]
    log_level: str = "info"
    log_file: str | None = None
    stop_limit_s: float = STOP_LIMIT_S
    supervised: list[SupervisedBroker] = attrs.field(factory=list)
    _names: Servers | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the settings, each once."""
        notes = [*self.name_server.notes, *(note for each in self.planned for note in each.notes)]
        return tuple(dict.fromkeys(notes))

    @property
    def exposure(self) -> tuple[str, ...]:
        """Sentences about the addresses on which the servers listen."""
        brokers = [("broker", each.settings) for each in self.planned]
        return exposure_notes([(NAME_SERVER, self.name_server.settings), *brokers])

    async def start(self) -> None:
        """Start the name server, then all brokers at once, and wait until all are ready.

        Raises:
            ConfigError: the name server cannot start.
            BrokerNotStarted: a broker ended before it was ready; the others are stopped.
        """
        self._names = Servers(self.world, self.name_server)
        try:
            await self._names.start()
            self.supervised = [
                SupervisedBroker(each.name, partial(self._launch, each), self.world.clock) for each in self.planned
            ]
            async with asyncio.TaskGroup() as starts:
                for each in self.supervised:
                    starts.create_task(each.start())
        except BaseExceptionGroup as problems:
            await self._give_up()
            raise problems.exceptions[0] from None
        except BaseException:
            await self._give_up()
            raise
        for each in self.supervised:
            each.keep()

    async def _give_up(self) -> None:
        try:
            await self.stop()
        except BrokersKilled as problem:  # the reason of the failed start matters more
            log.error("%s", problem)

    async def stop(self) -> None:
        """Stop all brokers at once, then the name server. Idempotent.

        Raises:
            BrokersKilled: some did not stop cleanly; all processes have ended.
        """
        brokers, self.supervised = self.supervised, []
        problems = await asyncio.gather(*(each.stop(self.stop_limit_s) for each in brokers))
        if self._names is not None:
            await self._names.stop()
        if any(problems):
            raise BrokersKilled("; ".join(filter(None, problems)))

    def ready_line(self) -> dict[str, Any]:
        """Return the document that ``--output json`` prints when all brokers are ready."""
        assert self._names is not None
        line = self._names.ready_line()
        del line["start_ms"]  # it is the last one
        line["brokers"] = [
            {"name": each.name, "pid": each.pid}
            | {
                key: each.ready_line[key]
                for key in ("broker", "store", "flush", "access", "listeners")
                if key in each.ready_line
            }
            for each in self.supervised
        ]
        pages = {name: url for each in self.supervised for name, url in each.ready_line.get("pages", {}).items()}
        if pages:
            line["pages"] = pages
        line["start_ms"] = round((time.perf_counter() - LOADED_AT) * 1000)
        return line

    async def _launch(self, planned: PlannedBroker, port: int | None) -> Process:
        assert self._names is not None
        addresses = dict.fromkeys([self._names.name_server_address, *name_servers(planned.settings)])
        arguments = planned.arguments
        forced = {**planned.forced, "namesrvAddr": (";".join(addresses), "the name server of gantrymq start")}
        if port is not None:
            forced["listenPort"] = (str(port), "the port of its last process")
        return await launch(
            planned.name,
            {
                "name": planned.name,
                "file": _text(arguments.file),
                "own_file": _text(arguments.own_file),
                "pairs": arguments.pairs,
                "options": arguments.options,
                "closed": arguments.closed,
                "forced": forced,
                "log_level": self.log_level,
                "log_file": self.log_file,
            },
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
