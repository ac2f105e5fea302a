"""Identity of a client: its client id and the unique ids of its messages.

    client id = ip@instance[@unit][@STREAM]      instance = <pid>#<number> unless the application names it

Sources: apache/rocketmq client/.../ClientConfig.java (buildMQClientId, changeInstanceNameToPID),
common/.../message/MessageClientIDSetter.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import struct
from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.client.calls.rpc import within
from gantrymq.model.hosts import parse_address
from gantrymq.model.ids import UniqueIds, month_around
from gantrymq.world import World

DEFAULT_INSTANCE = "DEFAULT"
_LOOPBACK = "127.0.0.1"
_PROBE_S = 1.0  # per name server
_PARTS = struct.Struct(">HIIH")  # of a unique id, after the address; see `gantrymq.model.ids`


async def local_address(world: World, servers: Sequence[str]) -> str:
    """Return the local IP address of a connection to the first reachable name server, or 127.0.0.1 if none is
    reachable.

    Java takes the first address of the network interfaces that is not internal. On a host with several interfaces, ours
    is the one that the cluster sees.
    """
    for server in servers:
        opened = None
        opening = world.network.connect(*parse_address(server), asyncio.Protocol)
        with contextlib.suppress(Exception):  # connection refused, or unknown host
            opened = await within(world.clock, _PROBE_S, opening)
        if opened is None:
            continue
        name = opened[0].get_extra_info("sockname")
        opened[0].close()
        if name:
            return str(name[0]).partition("%")[0]
    return _LOOPBACK


def instance_name(world: World, given: str = DEFAULT_INSTANCE) -> str:
    """Return *given*, or if it is DEFAULT, a name that is unique to this process and client."""
    if given != DEFAULT_INSTANCE:
        return given
    return f"{world.process_id}#{world.random.getrandbits(48)}"


def client_id(address: str, instance: str, unit: str = "") -> str:
    """Return the id of a client.

    Args:
        address: its IP address, without a zone.
        instance: from `instance_name`; clients of one process with the same instance name share connections.
        unit: unit name, for clusters divided into units.
    """
    return f"{address}@{instance}@{unit}" if unit else f"{address}@{instance}"


def unique_ids(world: World, address: str) -> UniqueIds:
    """Return a generator of message ids: 32 characters if *address* is IPv4, 56 if it is IPv6."""
    return UniqueIds(
        ipaddress.ip_address(address.partition("%")[0]).packed,
        world.process_id,
        world.random.getrandbits(32),
        world.clock,
    )


class UniqueId(NamedTuple):
    """The parts of a unique id."""

    host: str  # of the client
    process_id: int  # its lower 16 bits
    loader: int
    month_ms: int  # since the start of the month in the client's local time
    counter: int

    def time_ms(self, now_ms: int, utc_offset_ms: int) -> int:
        """Return when the id was created: this month, or the previous month if that would be in the future.

        Args:
            now_ms: wall time.
            utc_offset_ms: offset of the client's local time from UTC; this host's offset is the best guess available.
        """
        start, _ = month_around(now_ms, utc_offset_ms)
        if start + self.month_ms >= now_ms:
            start, _ = month_around(start - 1, utc_offset_ms)
        return start + self.month_ms


def parse_unique_id(text: str) -> UniqueId:
    """Parse a client's unique id.

    Raises:
        ValueError: not 32 (IPv4) or 56 (IPv6) hexadecimal characters; other clients may use other formats.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not text")
    if len(text) not in (32, 56):
        raise ValueError(f"{text!r} has {len(text)} characters; a unique id has 32 (IPv4) or 56 (IPv6)")
    raw = bytes.fromhex(text)
    return UniqueId(str(ipaddress.ip_address(raw[:-12])), *_PARTS.unpack(raw[-12:]))
