"""One raw connection to a broker: sends requests, gathers the writes of a loop turn, matches answers with requests."""

import asyncio
import itertools
import re
import struct
import time
from collections.abc import Callable
from typing import NamedTuple, cast

from load_rig.requests import FIRST_OPAQUE, Request

_LENGTHS = struct.Struct(">ii")
_CODE = re.compile(rb'"code":(-?\d+)')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
_OFFSETS = re.compile(rb'"(nextBeginOffset|maxOffset)":"?(\d+)')


class Answer(NamedTuple):
    """An answer."""

    code: int
    took_s: float
    body_bytes: int
    header: bytes

    @property
    def next_offset(self) -> int:
        """The offset of the next pull of this queue."""
        return self._offset(b"nextBeginOffset")

    @property
    def max_offset(self) -> int:
        """The number of messages that this queue ever received."""
        return self._offset(b"maxOffset")

    def _offset(self, name: bytes) -> int:
        found = {each[0]: int(each[1]) for each in _OFFSETS.findall(self.header)}
        if name not in found:
            raise ValueError(f"no {name.decode()} in {self.header!r}")
        return found[name]


Done = Callable[["Connection", Answer], None]


class Connection(asyncio.Protocol):
    """Counts requests and answers.

    Attributes:
        asked: requests that expect an answer.
        answered: answers to them.
        strays: answers without a request, or to a request that was already answered.
        lost: whether the broker closed the connection.
    """

    def __init__(self) -> None:
        self.asked = self.answered = self.strays = 0
        self.lost = False
        self._waiting: dict[int, tuple[float, Done]] = {}
        self._opaques = itertools.count(FIRST_OPAQUE)
        self._transport: asyncio.Transport | None = None
        self._kept = b""
        self._out: list[bytes] = []

    @property
    def waiting(self) -> int:
        """Requests without an answer yet."""
        return len(self._waiting)

    def ask(self, request: Request, done: Done) -> None:
        """Send *request* and call *done* with its answer."""
        opaque = next(self._opaques)
        if not request.oneway:
            self.asked += 1
            self._waiting[opaque] = (time.perf_counter(), done)
        self._out.append(request.frame(opaque))
        if len(self._out) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def tell(self, request: Request) -> None:
        """Send a oneway *request*."""
        assert request.oneway
        self.ask(request, _nobody)

    async def call(self, request: Request) -> Answer:
        """Send *request* and wait for its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(_: Connection, answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        self.ask(request, done)
        return await future

    def stop_reading(self) -> None:
        """Be a slow reader from now on."""
        assert self._transport is not None
        self._transport.pause_reading()

    def read_on(self) -> None:
        """Be a slow reader no longer."""
        assert self._transport is not None
        self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def data_received(self, data: bytes) -> None:
        if self._kept:
            data = self._kept + data
        at, size = 0, len(data)
        while size - at >= 8:
            length, split = _LENGTHS.unpack_from(data, at)
            end = at + 4 + length
            if end > size:
                break
            body_at = at + 8 + (split & 0xFFFFFF)
            self._take(data[at + 8 : body_at], end - body_at)
            at = end
        self._kept = data[at:]

    def _take(self, header: bytes, body_bytes: int) -> None:
        code, opaque = _CODE.search(header), _OPAQUE.search(header)
        if code is None or opaque is None:
            raise ValueError(f"no header of an answer: {header!r}")
        found = self._waiting.pop(int(opaque[1]), None)
        if found is None:
            self.strays += 1
            return
        self.answered += 1
        asked_at, done = found
        done(self, Answer(int(code[1]), time.perf_counter() - asked_at, body_bytes, header))

    def _flush(self) -> None:
        if self._transport is not None and not self.lost:
            self._transport.write(b"".join(self._out))
        self._out.clear()


async def connect(address: str, count: int = 1, *, kind: type[Connection] = Connection) -> list[Connection]:
    """Open *count* connections of *kind* to HOST:PORT, a hundred at a time."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    made: list[Connection] = []
    for start in range(0, count, 100):
        some = range(start, min(start + 100, count))
        pairs = await asyncio.gather(*(loop.create_connection(kind, host, int(port)) for _ in some))
        made += [connection for _, connection in pairs]
    return made


def _nobody(connection: Connection, answer: Answer) -> None:
    """Send a oneway request, which gets no answer."""
