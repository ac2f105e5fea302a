"""A TCP proxy between clients and a broker that behaves like bad networks and bad peers.

Each piece of data gets one action, drawn from a seed:

    pass    the most frequent one
    delay   forward it after up to DELAY_S
    drip    forward it byte by byte, each byte in its own packet
    hold    stop this direction for up to HOLD_S; the other one continues
    cut     forward a part of it that ends inside a frame, then reset both sides
    spoil   (towards the broker) forward it up to its last complete frame, then garbage, and reset the client
    reorder (towards the client, if enabled) forward frames that arrived together in reverse order

The proxy also opens its own connections to the broker and sends garbage, half frames and frames of absurd lengths.
It runs in a thread with its own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

DELAY_S = 0.2
HOLD_S = 1.5
DRIP_BYTES = 600  # of a piece; the rest follows at once
PIECE_BYTES = 64 * 1024
FATES = {"pass": 955.0, "delay": 15.0, "drip": 15.0, "hold": 5.0, "cut": 4.0, "spoil": 2.0}
REORDERING = {**FATES, "reorder": 60.0}  # for clients that accept answers in any order, as the protocol allows
GARBAGE_S = 0.05  # between two peers that throw garbage
FRAME = struct.Struct(">i")
CLOSE_S = 20.0
LINGER_NONE = struct.pack("ii", 1, 0)  # closing resets the connection


class FrameMeter:
    """Follows the lengths of frames in a stream, so that it can be cut inside one."""

    def __init__(self) -> None:
        self._head = b""  # of a length that has not arrived completely
        self._left = 0  # remaining bytes of the current frame

    @property
    def inside(self) -> bool:
        """Whether the stream so far ends inside a frame."""
        return bool(self._head or self._left)

    def feed(self, data: bytes) -> int:
        """Process *data*; return the number of its bytes up to the end of its last complete frame, 0 if no frame ends
        in it."""
        at = whole = 0
        while at < len(data):
            if self._left:
                taken = min(self._left, len(data) - at)
                self._left -= taken
            else:
                taken = min(FRAME.size - len(self._head), len(data) - at)
                self._head += data[at : at + taken]
                if len(self._head) == FRAME.size:
                    (self._left,), self._head = FRAME.unpack(self._head), b""
            at += taken
            if not self.inside:
                whole = at
        return whole


class HostileProxy:
    """Listens at *listen* and connects to *target* for each client until the context ends.

    Attributes:
        done: how often each action was taken, and the kinds of garbage sent to the broker.
    """

    def __init__(
        self, listen: tuple[str, int], target: tuple[str, int], seed: str, fates: Mapping[str, float] = FATES
    ) -> None:
        """*fates* with their weights."""
        self._fates = dict(fates)
        self.done: Counter[str] = Counter()
        self._listen, self._target = listen, target
        self._rng = random.Random(seed)
        self._calm = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._tasks: set[asyncio.Task[None]] = set()

    def calm_down(self) -> None:
        """Pass everything on from now."""
        self._calm = True

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(CLOSE_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_S)
        finally:
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._accept, *self._listen)
        self._start(self._throw_garbage())

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- clients ----------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.done["clients"] += 1
        self._start(self._serve(reader, writer))

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(to_client)
            return
        ways = [
            asyncio.ensure_future(self._pass_on(client, to_broker, up=True)),
            asyncio.ensure_future(self._pass_on(broker, to_client, up=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            _reset(to_client)
            _reset(to_broker)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, up: bool) -> None:
        """Forward until the end of *source*, a cut, or garbage."""
        rng, meter = self._rng, FrameMeter()
        _without_delay(target)
        while data := await source.read(PIECE_BYTES):
            fate = "pass" if self._calm else rng.choices(list(self._fates), list(self._fates.values()))[0]
            if fate == "spoil" and (not up or not (whole := meter.feed(data))):
                fate = "cut"
            elif fate == "spoil":
                self.done["spoil"] += 1
                target.write(data[:whole] + garbage(rng))
                await target.drain()
                return
            if fate == "cut":
                part = data[: rng.randrange(len(data))]
                meter.feed(part)
                if part:
                    target.write(part)
                    await target.drain()
                self.done["cut"] += 1
                self.done["cut inside a frame"] += meter.inside
                return
            at_a_frame = not meter.inside
            whole = meter.feed(data)
            if fate == "reorder":
                frames = split_frames(data[:whole]) if at_a_frame and not up else []
                fate = "reorder" if len(frames) > 1 else "pass"
                data = b"".join(reversed(frames)) + data[whole:] if frames else data
            self.done[fate] += 1
            if fate == "delay":
                await asyncio.sleep(rng.uniform(0, DELAY_S))  # real time: the fault itself
            elif fate == "hold":
                await asyncio.sleep(rng.uniform(0, HOLD_S))  # real time: the fault itself
            elif fate == "drip":
                for at in range(min(len(data), DRIP_BYTES)):
                    target.write(data[at : at + 1])
                    await target.drain()
                    await asyncio.sleep(0)
                data = data[DRIP_BYTES:]
            target.write(data)
            await target.drain()

    # --- the broker's worst peers -----------------------------------------------------------------------------------

    async def _throw_garbage(self) -> None:
        rng = self._rng
        while True:
            await asyncio.sleep(GARBAGE_S)  # real time: rate of the faults
            if self._calm:
                continue
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(*self._target)
                writer.write(garbage(rng))
                await writer.drain()
                self.done["garbage"] += 1
                _reset(writer)


def split_frames(data: bytes) -> list[bytes]:
    """The frames of *data*, which holds whole ones."""
    found, at = [], 0
    while at < len(data):
        end = at + FRAME.size + FRAME.unpack_from(data, at)[0]
        found.append(data[at:end])
        at = end
    return found


def garbage(rng: random.Random) -> bytes:
    """Bytes that are not a frame, or only half of one."""
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randint(1, 300))
    if kind == 1:  # a length beyond every limit, or below zero
        return FRAME.pack(rng.choice((-1, -(2**31), 2**31 - 1, 2**30))) + rng.randbytes(40)
    if kind == 2:  # a header longer than its frame
        return struct.pack(">ii", 20, 1000) + rng.randbytes(16)
    header = b'{"code":310,"flag":0,"language":"JAVA","opaque":1,"version":479,"extFields":{"b":"ChaosGarbage"'
    return struct.pack(">ii", 4 + len(header) + 500, len(header)) + header  # never completed


def _without_delay(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
    writer.transport.abort()
