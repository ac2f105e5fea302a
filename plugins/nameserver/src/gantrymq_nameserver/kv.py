"""The operators' key-value table of a name server: namespace -> key -> value, in kvConfig.json.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4;broker-b:8"}}}

A change is written before it is visible: if the file cannot be written, the table is unchanged and the caller gets an
error. (RocketMQ changes the table first and only logs a failed write.)

Source: apache/rocketmq namesrv/.../kvconfig/{KVConfigManager,KVConfigSerializeWrapper}.java.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError, RequestError
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.world import World, make_durable_dirs

log = logging.getLogger(__name__)

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"  # namespace: key topic, value "broker name:queue count;.."

Table = dict[str, dict[str, str]]


class KvConfig:
    """The table and its file."""

    def __init__(self, world: World, path: Path) -> None:
        self._world = world
        self._path = path
        self._table: Table = {}
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Load the file. A missing or malformed file means an empty table; a malformed one is renamed to ``.broken``.

        RocketMQ overwrites a malformed file with the next change.
        """
        try:
            self._table = _read(self._world.files.read(self._path))
        except (FileNotFoundError, NotADirectoryError):  # a part of the path is a file: the store reports that
            self._table = {}
        except (OSError, FormatError) as error:
            kept = self._set_aside() if isinstance(error, FormatError) else ""
            log.warning("%s cannot be read, starting without key-value configuration: %s%s", self._path, error, kept)
            self._table = {}

    def _set_aside(self) -> str:
        """Rename a malformed file. Return a note for the log."""
        broken = self._path.with_name(self._path.name + ".broken")
        try:
            self._world.files.rename(self._path, broken)
        except OSError:
            return ""
        return f"; kept as {broken.name}"

    def get(self, namespace: str, key: str) -> str | None:
        """Return the value, None if there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """Return a copy of *namespace*, None if it was never written to."""
        table = self._table.get(namespace)
        return None if table is None else dict(sorted(table.items()))

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            RequestError: the file cannot be written; nothing has changed.
        """
        async with self._writing:
            table = {name: dict(values) for name, values in self._table.items()}
            table.setdefault(namespace, {})[key] = value
            await self._write(table)

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value if it exists. Raises as `put`."""
        async with self._writing:
            table = {name: dict(values) for name, values in self._table.items()}
            table.get(namespace, {}).pop(key, None)
            await self._write(table)

    async def _write(self, table: Table) -> None:
        try:
            await self._world.workers.run(self._save, dumps({"configTable": table}))
        except OSError as error:
            raise RequestError(f"the change was not made: {self._path} cannot be written: {error}") from error
        self._table = table

    def _save(self, data: bytes) -> None:
        make_durable_dirs(self._world.files, self._path.parent)
        self._world.files.replace(self._path, data)


def _read(data: bytes) -> Table:
    members = loads(data) if data.strip() else {}
    table = members.get("configTable") if isinstance(members, dict) else None
    if not isinstance(table, dict) or not all(isinstance(values, dict) for values in table.values()):
        raise FormatError(f"expected an object with a configTable of objects, got {data[:40]!r}")
    return {str(n): {str(k): str(v) for k, v in values.items() if v is not None} for n, values in table.items()}
