"""Questions of a slave to its elected master, at the master's broker port.

Whether it is a broker of GantryMQ: that has an entry in its epoch list for each epoch in which it was the master, so a
handshake with an older last epoch comes from a master that was replaced, and is refused. RocketMQ's master has none if
its log did not grow since the epoch before.

Where its log begins, before a slave follows that is more than a log file behind: a master closes the connection of a
slave that asks for what it has deleted, and one of RocketMQ sends nothing.

Which message it has at a log offset, if it does not send its log from there: RocketMQ's master, whose epoch list begins
where elections began.

It also informs the master when this broker stops, so that it does not count as lost.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import ClientError, GantryError
from gantrymq.interfaces import Broker
from gantrymq.loose_json import loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import request
from gantrymq.remoting.tls_settings import client_of
from gantrymq_replication.peers import tell_stop

__all__ = ["Questions"]

CALL_S: Final = 2.0


class Questions:
    """Asks brokers."""

    def __init__(self, broker: Broker) -> None:
        self._client = RemotingClient(broker.world, tls=client_of(broker.settings))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def is_ours(self, address: str) -> bool:
        """Return whether a broker of GantryMQ, in an election, answers at *address*; False if it refuses to answer.

        Raises:
            ConnectionError: there is no answer.
        """
        try:
            answer = await self._client.call(address, request(RequestCode.GET_BROKER_HA_STATUS), CALL_S)
        except ClientError as error:
            raise ConnectionError(f"it does not answer at its broker port: {error}") from error
        if answer.code != ResponseCode.SUCCESS:
            return False
        try:
            found = loads(bytes(answer.payload))
        except GantryError:
            return False
        return isinstance(found, dict) and "election" in found

    async def message_at(self, address: str, log_offset: int) -> bytes | None:
        """Return the message that the broker at *address* has at *log_offset*; None if it does not tell.

        Raises:
            ConnectionError: there is no answer.
        """
        asked = request(RequestCode.VIEW_MESSAGE_BY_ID, {"topic": "", "offset": str(log_offset)})
        try:
            answer = await self._client.call(address, asked, CALL_S)
        except ClientError as error:
            raise ConnectionError(f"it does not answer at its broker port: {error}") from error
        return bytes(answer.payload) if answer.code == ResponseCode.SUCCESS else None

    async def first_offset(self, address: str) -> int | None:
        """Return where the log of the broker at *address* begins; None if the answer does not contain it.

        Raises:
            ConnectionError: there is no answer.
        """
        try:
            answer = await self._client.call(address, request(RequestCode.GET_BROKER_RUNTIME_INFO), CALL_S)
            found = loads(bytes(answer.payload)) if answer.code == ResponseCode.SUCCESS else None
        except ClientError as error:
            raise ConnectionError(f"it does not answer at its broker port: {error}") from error
        except GantryError:
            return None
        table = found.get("table") if isinstance(found, dict) else None
        first = str(table.get("commitLogMinOffset")) if isinstance(table, dict) else ""
        return int(first) if first.isdecimal() else None

    async def stops(self, address: str, broker_id: int) -> None:
        """Inform the master at *address* that this broker stops."""
        await tell_stop(self._client, address, broker_id)
