"""Which groups pop which topics, as set by mqadmin setConsumeMode: RocketMQ's messageRequestMode.json.

{"messageRequestModeMap":{TOPIC:{GROUP:{"consumerGroup":..,"mode":"POP","popShareQueueNum":8,"topic":..}}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.world import FileStat, World

FILE: Final = "messageRequestMode.json"
POP: Final = "POP"


class PopModes:
    """The groups that pop, by topic; the file is read in a thread when it has changed."""

    def __init__(self, world: World, root: Path) -> None:
        """*root*: the store's folder."""
        self._world = world
        self._path = root / "config" / FILE
        self._read_at: FileStat | None = None
        self._groups: Mapping[str, frozenset[str]] = {}

    async def groups(self) -> Mapping[str, frozenset[str]]:
        """Return topic to groups; empty if the file is missing or cannot be read."""
        try:
            found = self._world.files.stat(self._path)
        except OSError:
            return {}
        if found != self._read_at:
            self._groups = {} if found is None else await self._world.workers.run(self._read)
            self._read_at = found
        return self._groups

    def _read(self) -> Mapping[str, frozenset[str]]:
        try:
            modes = loads(self._world.files.read(self._path))["messageRequestModeMap"]
            return {
                str(topic): frozenset(str(group) for group, mode in groups.items() if mode.get("mode") == POP)
                for topic, groups in modes.items()
            }
        except (OSError, FormatError, AttributeError, KeyError, TypeError):
            return {}
