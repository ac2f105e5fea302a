"""Replays the recorded requests to Java brokers with access control (pack_access.py) against a broker of ours."""

from __future__ import annotations

import asyncio
import base64
import json
import lzma
from pathlib import Path
from typing import NamedTuple

from replay_run import AtOnce

from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq_testing.cluster import Cluster

WAIT_S = 60.0  # virtual; longer than a held pull
SETTLE_S = 0.01  # virtual; lets the broker see that a connection is closed
STARTED_MS = 1_795_623_546_000  # when the requests were recorded
PLUGINS = "diagnosis,filter_tag,nameserver,pop,request_reply,schedule,storage_memory,transaction"

__all__ = ["PLUGINS", "STARTED_MS", "AtOnce", "Row", "replayed", "rows"]


class Row(NamedTuple):
    """A request with the answer of Java's broker."""

    request: str  # what it is
    caller: str
    conn: int
    frame: bytes
    code: int
    remark: str

    @property
    def key(self) -> tuple[str, str]:
        """Its name in lists of differences."""
        return self.request, self.caller


def rows(kind: str) -> list[Row]:
    """The requests of ``acl49`` or ``acl2`` in their order."""
    packed = (Path(__file__).parent / f"access_{kind}.jsonl.xz").read_bytes()
    found = map(json.loads, lzma.decompress(packed).decode().splitlines())
    return [
        Row(
            each["request"],
            each["as"],
            each["conn"],
            base64.b64decode(each["frame"]),
            each["code"],
            (each["remark"] or "").removesuffix(", <frame>"),  # a line of Java's stack
        )
        for each in found
    ]


class Peer(asyncio.Protocol):
    """One connection; its answers by opaque."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder()
        self._answers: dict[int, asyncio.Future[Command]] = {}
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            command = decode(frame)
            if command.is_response:
                self._answers[command.opaque].set_result(command)

    async def ask(self, frame: bytes) -> Command:
        """Send the recorded bytes and return the answer."""
        opaque = decode(next(iter(FrameDecoder().feed(frame)))).opaque
        answer = self._answers[opaque] = asyncio.get_running_loop().create_future()
        assert self.transport is not None
        self.transport.write(frame)
        return await asyncio.wait_for(answer, WAIT_S)


async def replayed(cluster: Cluster, recorded: list[Row]) -> list[tuple[Row, Command]]:
    """Send each request on its connection, one after the other, and return the answers.

    A connection is closed after its last request, as the recorded clients did.
    """
    host, _, port = cluster.broker_address.rpartition(":")
    last = {row.conn: row for row in recorded}
    peers: dict[int, Peer] = {}
    found = []
    for row in recorded:
        if row.conn not in peers:
            _, peer = await cluster.world.network.connect(host, int(port), Peer)
            assert isinstance(peer, Peer)
            peers[row.conn] = peer
        found.append((row, await peers[row.conn].ask(row.frame)))
        if last[row.conn] is row:
            transport = peers.pop(row.conn).transport
            assert transport is not None
            transport.close()
            await cluster.world.clock.sleep(SETTLE_S)
    return found
