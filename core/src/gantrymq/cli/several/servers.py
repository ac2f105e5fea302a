"""The name server of this process, and the processes of several brokers behind it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.cli import LOADED_AT
from gantrymq.cli.exposure import NAME_SERVER, exposure_notes
from gantrymq.cli.server_settings import NameServerSettings
from gantrymq.cli.serving import Servers, name_servers
from gantrymq.cli.several.planned import PlannedBroker
from gantrymq.cli.several.processes import launch
from gantrymq.cli.several.supervision import Process, SupervisedBroker
from gantrymq.errors import GantryError
from gantrymq.world import World

__all__ = ["SeveralBrokers"]

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
        del line["start_ms"]  # it comes last
        line["brokers"] = [
            {"name": each.name, "pid": each.pid}
            | {key: each.ready_line[key] for key in ("broker", "store", "flush", "listeners") if key in each.ready_line}
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
