"""Telemetry streams: the commands for one stream are written in order, by one task."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.errors import ConnectionLost
from gantrymq_grpc.definitions import TelemetryCommand
from gantrymq_grpc.transport.call import Call
from gantrymq_grpc.transport.status import GrpcError, StatusCode

log = logging.getLogger("gantrymq.grpc")

MOST_UNSENT: Final = 1000  # commands for a client that does not read its stream
MOST_UNSENT_BYTES: Final = 4 * 1024 * 1024  # a command for the largest message fits even so, if it is the first


class Stream:
    """The commands for one telemetry stream."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._commands: asyncio.Queue[tuple[TelemetryCommand, int]] = asyncio.Queue(MOST_UNSENT)
        self._unsent_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether commands are dropped, because the client does not read those before."""
        return self._commands.full() or self._unsent_bytes >= MOST_UNSENT_BYTES

    def post(self, command: TelemetryCommand) -> bool:
        """Send *command* soon. Return whether there was room for it."""
        if self.is_full:
            return False
        size = command.ByteSize()
        self._unsent_bytes += size
        self._commands.put_nowait((command, size))
        return True

    def end(self, text: str) -> None:
        """End the stream with UNAVAILABLE and *text*: the client opens another one."""
        self._call.end(GrpcError(StatusCode.UNAVAILABLE, text))

    async def write(self) -> None:
        """Write the commands until cancelled."""
        try:
            while True:
                command, size = await self._commands.get()
                await self._call.send(command)
                self._unsent_bytes -= size
                self._commands.task_done()
        except ConnectionLost:
            return  # the task that reads the stream is cancelled
        except Exception:
            log.exception("%r: writing commands failed", self._call)
            self.end("an error of the server, which its log describes")

    async def drained(self) -> None:
        """Wait until all commands are written."""
        await self._commands.join()
