"""Service that makes its broker a replica, and its log equal to the log of a source."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from pathlib import Path

from gantrymq.errors import GantryError
from gantrymq.interfaces import Broker, LogRange, TableSnapshot
from gantrymq.model.role import Role
from log_follower.common_position import CommonPosition, last_start
from log_follower.frames import BLOCK_BYTES, CHECKSUM, RANGE, Kind, Refused, write_request
from log_follower.source import read

LOG = logging.getLogger("gantrymq.log_follower")
AGAIN_S = 0.1  # between two attempts to connect
AGREE_S = 1.0  # between two positions that are known to be on both disks


class Source:
    """The requests to a source, over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def range(self) -> LogRange:
        """Return the range of the log."""
        return LogRange(*RANGE.unpack(await self._ask(Kind.RANGE)))

    async def checksum(self, start: int, length: int) -> int:
        """Return the CRC-32 of a range."""
        return int(CHECKSUM.unpack(await self._ask(Kind.CHECKSUM, start, length))[0])

    async def read(self, start: int) -> bytes:
        """Return what the log has from *start* on; nothing after a second without any."""
        return await self._ask(Kind.READ, start, BLOCK_BYTES)

    async def flushed(self, log_offset: int) -> None:
        """Wait until the log is on disk up to *log_offset*."""
        await self._ask(Kind.FLUSHED, log_offset)

    async def tables(self) -> TableSnapshot:
        """Return topics, groups and offsets."""
        return TableSnapshot(json.loads(await self._ask(Kind.TABLES)))

    async def _ask(self, kind: Kind, log_offset: int = 0, length: int = 0) -> bytes:
        return await write_request(self._reader, self._writer, kind, log_offset, length)


class LogFollower:
    """Copies the log of the source that ``logFollow`` names; without it, does nothing."""

    name = "log_follower"
    roles = frozenset(Role)

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def start(self, broker: Broker) -> None:
        """Become a replica, and begin."""
        where, log = broker.settings.text("logFollow"), broker.store_capabilities.raw_log
        if not where or log is None or self._task is not None:
            return
        self._broker, self._log, self._where, self._floor = broker, log, where, 0
        self._file = broker.state_folder(self.name) / "agreed"
        await broker.role.change(Role.REPLICA, 1)
        broker.role.keep_from(lambda: self._floor)
        self._task = asyncio.ensure_future(self._follow_always())

    async def stop(self) -> None:
        """End the task."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _follow_always(self) -> None:
        told = ""
        while True:
            try:
                await self._connect()
            except (OSError, EOFError, ValueError, Refused, GantryError) as error:
                if (problem := f"{type(error).__name__}: {error}") != told:
                    LOG.warning("%s", told := problem)
            await self._broker.world.clock.sleep(AGAIN_S)

    async def _connect(self) -> None:
        where, files = self._where, self._broker.world.files
        if ":" not in where:
            where = files.read(Path(where)).decode()
        host, _, port = where.rpartition(":")
        reader = asyncio.StreamReader()
        transport, protocol = await self._broker.world.network.connect(
            host, int(port), lambda: asyncio.StreamReaderProtocol(reader)
        )
        assert isinstance(protocol, asyncio.StreamReaderProtocol)
        writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
        try:
            source = Source(reader, writer)
            await self._rejoin(source)
            await self._broker.tables.install(await source.tables())
            await self._follow(source)
        finally:
            transport.abort()

    async def _rejoin(self, source: Source) -> None:
        """Truncate the copy at the last common start of a record."""
        log, other = self._log, await source.range()
        mine, self._floor = log.log_range(), other.min_offset
        if mine.max_offset and not (mine.min_offset <= other.max_offset and other.min_offset <= mine.max_offset):
            raise Refused(f"the source has {other}, this copy {mine}: begin again with an empty store folder")
        steps = CommonPosition(mine, other, self._agreed())
        while steps.question is not None:
            start, length = steps.question
            steps.answer(zlib.crc32(await read(log, start, length)) == await source.checksum(start, length))
        if steps.equal < mine.max_offset:
            heads = await read(log, steps.record, steps.equal - steps.record)
            end = last_start(steps.record, heads, steps.equal)
            LOG.info("truncating the copy from %d to %d", mine.max_offset, end)
            await log.truncate(end)

    async def _follow(self, source: Source) -> None:
        """Append what comes, until the connection is lost."""
        log, clock = self._log, self._broker.world.clock
        data, agree_at = b"", clock.monotonic()
        while True:
            end = max(log.log_range().max_offset, self._floor)  # a new log begins where the source begins
            data += await source.read(end + len(data))
            data = data[log.append_raw(end, data) - end :]
            if clock.monotonic() >= agree_at:
                await self._agree(source)
                agree_at = clock.monotonic() + AGREE_S

    async def _agree(self, source: Source) -> None:
        end = self._log.log_range().max_offset
        await self._broker.store.flushed(end)
        await source.flushed(end)
        self._floor = (await source.range()).min_offset
        await self._broker.world.workers.run(self._broker.world.files.replace, self._file, str(end).encode())

    def _agreed(self) -> int:
        files = self._broker.world.files
        return int(files.read(self._file)) if files.stat(self._file) is not None else 0
