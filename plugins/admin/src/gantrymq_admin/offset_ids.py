"""The message with an offset id, also after the address of its broker has changed.

An offset id contains the address that the broker had when it stored the message, and the log offset. If nothing answers
there, or another broker, all registered brokers are asked for the message at that log offset. A record has its own
offset id, so that another record at the same offset is not taken for it.
"""

from __future__ import annotations

import asyncio

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.errors import ClientError, InvalidParameter, NoMessageFound
from gantrymq.plugin.model import format_address, parse_offset_id

__all__ = ["find_by_offset_id"]


async def find_by_offset_id(admin: Admin, offset_id: str) -> tuple[str, ReceivedMessage]:
    """Return the message with an offset id, and the address of the broker that has it.

    Raises:
        InvalidParameter: *offset_id* is malformed.
        NoMessageFound: all brokers answered, and none has it.
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: of the broker that the id names, if no other has it.
    """
    try:
        host, port, _ = parse_offset_id(offset_id)
    except ValueError as malformed:
        raise InvalidParameter(str(malformed)) from None
    named = format_address(host, port)
    problem: ClientError = NoMessageFound(f"no registered broker has a message with the offset id {offset_id}")
    try:
        found = await _at(admin, offset_id, named)
    except ClientError as refusal:
        problem = refusal
    else:
        if found is not None:
            return named, found
    for address, other in await _elsewhere(admin, offset_id, named):
        if other is not None:
            return address, other
    raise problem


async def _elsewhere(admin: Admin, offset_id: str, named: str) -> list[tuple[str, ReceivedMessage | None]]:
    """Return the messages of the other brokers, masters first; a slave is asked if its master is not registered."""
    try:
        brokers = (await admin.clusters()).brokers
    except ClientError:
        return []
    brokers = tuple(sorted(brokers, key=lambda each: each.master is None))
    places = [(each.name, address) for each in brokers if (address := each.readable()) not in (None, named)]

    async def ask(name: str, address: str) -> tuple[str, ReceivedMessage | None]:
        try:
            found = await _at(admin, offset_id, address)
        except ClientError:
            return address, None
        if found is not None:
            found.broker_name = name
        return address, found

    return list(await asyncio.gather(*(ask(name, str(address)) for name, address in places)))


async def _at(admin: Admin, offset_id: str, address: str) -> ReceivedMessage | None:
    """Return the message if the broker at *address* has it. Raises as `Admin.view_message`."""
    found = await admin.view_message(offset_id, address=address)
    return found if found.offset_id.lower() == offset_id.lower() else None
