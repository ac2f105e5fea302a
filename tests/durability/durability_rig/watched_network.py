"""A network that notes when a server hands its answers to the transport, into the order that `RecordingFiles` keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.world import Listener, Network, ProtocolFactory
from gantrymq_testing.recording import RecordingFiles

ANSWER = Path("answer")  # names the notes; no file


class Answer(NamedTuple):
    """One frame that the server wrote."""

    number: int  # in `RecordingFiles.calls`: noted before the transport got the first of its bytes
    command: Command


class WatchedNetwork:
    """Hands everything on; every frame that is written over an accepted connection becomes an `Answer`."""

    def __init__(self, inner: Network, record: RecordingFiles) -> None:
        self._inner = inner
        self._record = record
        self.answers: list[Answer] = []  # in the order in which they were written
        self.connections = 0

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """As the inner network; accepted connections are watched."""
        return await self._inner.listen(host, port, lambda: WatchedProtocol(factory(), self._watch))

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As the inner network; not watched."""
        return await self._inner.connect(host, port, factory)

    def unread(self, transport: asyncio.Transport) -> bytes:
        """As the inner network."""
        return self._inner.unread(transport)

    async def resolve(self, host: str) -> str:
        """As the inner network."""
        return await self._inner.resolve(host)

    def own_address(self) -> str:
        """As the inner network."""
        return self._inner.own_address()

    def _watch(self, transport: asyncio.BaseTransport) -> WatchedTransport:
        self.connections += 1
        return WatchedTransport(transport, self._record, self.answers)


class WatchedProtocol(asyncio.Protocol):
    """Hands every event on, with a watched transport."""

    def __init__(self, inner: Any, watch: Callable[[asyncio.BaseTransport], WatchedTransport]) -> None:
        self._inner = inner
        self._watch = watch

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(self._watch(transport))

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        answer: bool | None = self._inner.eof_received()
        return answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class WatchedTransport:
    """Notes the moment, hands the bytes on, then takes them apart into frames."""

    def __init__(self, inner: Any, record: RecordingFiles, answers: list[Answer]) -> None:
        self._inner = inner
        self._record = record
        self._answers = answers
        self._decoder = FrameDecoder()
        self._begun = -1  # when the first bytes of the frame that is not complete were written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        number = self._record.note("answer", ANSWER, 0, len(data))
        self._inner.write(data)
        self._see(number, bytes(data))

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        data = b"".join(parts)
        self.write(data)

    def _see(self, number: int, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            begun, self._begun = (number if self._begun < 0 else self._begun), -1
            self._answers.append(Answer(begun, decode(frame)))
        if self._decoder.pending_bytes and self._begun < 0:
            self._begun = number
