"""Comparison of a RocketMQ slave's log with this master's, before the slave is served.

A slave of GantryMQ compares the logs itself (`log_comparison`). RocketMQ's only reports where its log ends, so one that
is different but not longer would continue after records that this master does not have. But it answers requests at its
broker port. The master looks for that port at the name servers, by broker name and host of the connection, and asks for
the last message before the reported end. Logs of two masters differ there, because records contain their store time.

The slave is served if nothing is known: it is not registered yet, has another host there than on the HA connection,
does not answer, or is one of several slaves on its host of which one has this log or does not answer.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java (viewMessageById).
"""

from __future__ import annotations

import logging
import struct
from inspect import isawaitable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.formats import MAGIC_V1, MAGIC_V2
from gantrymq.plugin.interfaces import BrokerCluster, RawLog, RawLogReader
from gantrymq.plugin.loose_json import int_keys, loads
from gantrymq.plugin.model import parse_address
from gantrymq.plugin.network import inner_client
from gantrymq.plugin.remoting import Command, RequestCode, ResponseCode, request
from gantrymq.plugin.world import Clock, TimeSlices
from gantrymq_replication.log_comparison import read_whole
from gantrymq_replication.protocol import Refused

log = logging.getLogger("gantrymq.replication")

_CALL_S: Final = 2.0
_PIECE_BYTES: Final = 512 * 1024
_HEAD: Final = struct.Struct(">iI")  # size and magic of a record or blank
_NO_MESSAGE: Final = "can not find message"  # how RocketMQ's remark begins


class SlaveLogs:
    """Asks the slaves of one master."""

    def __init__(self, broker: BrokerCluster, raw_log: RawLog) -> None:
        self._broker, self._log = broker, raw_log
        self._client = inner_client(broker.world, broker.settings)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def compare(self, peer: str, end: int) -> bool:
        """Compare the log of the slave at *peer*, the address of its HA connection, which ends at *end*.

        Return whether it is known to be equal, because the only slave on its host has the last message.

        Raises:
            Refused: it is a slave of RocketMQ, and its log is another one.
        """
        slaves = await self._slaves_at(parse_address(peer)[0]) if end else []
        if not slaves or (found := await last_message(self._log, end, self._broker.world.clock)) is None:
            return False
        verdicts = [await self._has(each, *found) for each in slaves]
        if set(verdicts) == {False}:
            raise Refused(
                f"its log ends at {end}, but has another record at {found[0]} than this master's, as its broker "
                f"{' and '.join(slaves)} says: it was written by another master; empty its store folder to copy this "
                "log, or start it as the master"
            )
        return verdicts == [True]

    async def _slaves_at(self, host: str) -> list[str]:
        """Return the addresses of RocketMQ's slaves on *host*; none if one of GantryMQ is there."""
        found = dict[str, None]()
        for server, problem in self._broker.registration.states().items():
            if problem is None and (reply := await self._ask(server, RequestCode.GET_BROKER_CLUSTER_INFO)) is not None:
                found |= dict.fromkeys(_slaves_of(reply, self._broker.registration.broker_name))
        near = [each for each in found if parse_address(each)[0] == host]
        return near if not any([await self._compares(each) for each in near]) else []

    async def _compares(self, slave: str) -> bool:
        """Return whether *slave* is of GantryMQ, and so compares logs itself."""
        reply = await self._ask(slave, RequestCode.GET_BROKER_HA_STATUS)
        return reply is not None and reply.code == ResponseCode.SUCCESS and b'"problem"' in bytes(reply.payload)

    async def _has(self, slave: str, log_offset: int, record: bytes) -> bool | None:
        """Return whether *slave* has *record* at *log_offset*; None if that is not known."""
        reply = await self._ask(slave, RequestCode.VIEW_MESSAGE_BY_ID, {"topic": "", "offset": str(log_offset)})
        if reply is not None and reply.code == ResponseCode.SUCCESS:
            return bytes(reply.payload) == record
        return False if reply is not None and (reply.remark or "").startswith(_NO_MESSAGE) else None

    async def _ask(self, address: str, code: RequestCode, ext: dict[str, str] | None = None) -> Command | None:
        try:
            return await self._client.call(address, request(code, ext), _CALL_S)
        except GantryError as error:
            log.info("the log of a slave cannot be compared: %s", error)
            return None


def _slaves_of(reply: Command, broker_name: str) -> list[str]:
    """Return the addresses of the slaves in a name server's answer."""
    try:
        addresses = loads(bytes(reply.payload))["brokerAddrTable"][broker_name]["brokerAddrs"]
        return [str(address) for broker_id, address in int_keys(addresses).items() if broker_id]
    except (GantryError, KeyError, TypeError, ValueError):
        return []


async def last_message(raw_log: RawLogReader, end: int, clock: Clock) -> tuple[int, bytes] | None:
    """Return log offset and bytes of the last message that ends at or before *end*; None without one in its log file.

    Records follow each other from the start of a log file on, so the whole file may have to be read.
    """
    bounds = [raw_log.log_range().min_offset]
    for segment in raw_log.sealed_segments():
        bounds += segment
    place, found, slices = max(each for each in bounds if each < end), None, TimeSlices(clock, 1)
    while place < end and (data := await _read(raw_log, place, min(_PIECE_BYTES, end - place))):
        here = 0
        while here + _HEAD.size <= len(data):
            size, magic = _HEAD.unpack_from(data, here)
            if size <= 0 or place + here + size > end:
                break
            if magic in (MAGIC_V1, MAGIC_V2):
                found = place + here, size
            here += size
        if not here:
            break
        place += here
        await slices.item_done()
    if found is None:
        return None
    start, size = found
    return start, await read_whole(raw_log, start, start + size)


async def _read(raw_log: RawLogReader, start: int, size: int) -> bytes:
    data = raw_log.read_log(start, size)
    return await data if isawaitable(data) else data
