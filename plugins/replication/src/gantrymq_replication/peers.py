"""Requests to other brokers and to name servers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from gantrymq.errors import GantryError
from gantrymq.plugin.network import RemotingClient, refused
from gantrymq.plugin.remoting import Command, RequestCode, request

BROKER_STOPS: Final = cast(RequestCode, 65037)  # GantryMQ's own
_STOPS_S: Final = 1.0  # for the answer to it, while this broker stops

_Found = TypeVar("_Found")


async def first_of(work: Coroutine[Any, Any, _Found], interruption: Coroutine[Any, Any, object]) -> _Found | None:
    """Return the result of *work*, or None if *interruption* ends first. Raises as *work*."""
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(interruption)
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.wait([working, waiting])


async def ask(
    client: RemotingClient, address: str, code: RequestCode, timeout_s: float, ext: dict[str, str] | None = None
) -> Command:
    """Return the answer of *address*, which has the code 0.

    Raises:
        BrokerRefused: it has another code.
        ConnectFailed, ConnectionLost, CallTimeout: there is no answer.
    """
    reply = await client.call(address, request(code, ext), timeout_s)
    if reply.code != 0:
        raise refused(client, reply, address)
    return reply


async def report_stop(client: RemotingClient, address: str, broker_id: int) -> None:
    """Inform the master at *address* that this broker stops (65037). RocketMQ's master does not know the request."""
    with suppress(GantryError):
        await ask(client, address, BROKER_STOPS, _STOPS_S, {"brokerId": str(broker_id)})


async def settings_lines(client: RemotingClient, address: str, code: RequestCode, timeout_s: float) -> list[str]:
    """Return the settings of the broker or name server at *address* (26, 319), a line each. Raises as `ask`."""
    reply = await ask(client, address, code, timeout_s)
    return bytes(reply.payload).decode(errors="replace").splitlines()


def settings_in(lines: Iterable[str]) -> dict[str, str]:
    """Return the settings in ``key=value`` lines."""
    return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}
