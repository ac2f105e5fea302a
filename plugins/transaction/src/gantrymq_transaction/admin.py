"""Asking brokers about their transactions."""

from __future__ import annotations

from typing import Any, cast

from gantrymq import loose_json
from gantrymq.client import Admin
from gantrymq.errors import FormatError
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC
from gantrymq.remoting.codes import RequestCode
from gantrymq_transaction.requests import LIST_TRANSACTIONS, SHOW_TRANSACTION, ResumeCheckHalfMessageRequest

__all__ = ["TransactionAdmin"]


class TransactionAdmin(Admin):
    """An `Admin` that sees transactions."""

    async def transactions(self, address: str, **wanted: Any) -> dict[str, Any]:
        """A page of what is undecided or given up at one broker; `listing` names the members.

        Args:
            address: ip:port.
            wanted: ``start``, ``count``, ``group``, ``topic``, ``given_up``.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not answer.
        """
        return {"next": None, "oldest_born_ms": None, **await self._json(address, LIST_TRANSACTIONS, wanted)}

    async def transaction(self, address: str, unique_id: str) -> dict[str, Any]:
        """All that one broker has of a transaction. Errors as `transactions`."""
        return await self._json(address, SHOW_TRANSACTION, {"unique_id": unique_id})

    async def resume_check(self, offset_id: str) -> str:
        """Let the producer of a given-up transaction be asked again; returns the broker's address.

        Raises:
            BrokerRefused: the message is no given-up one (1).
            as `transactions`: otherwise.
        """
        host, port, _ = parse_offset_id(offset_id)
        address = format_address(host, port)
        header = ResumeCheckHalfMessageRequest(topic=CHECK_MAX_TIME_TOPIC, msg_id=offset_id)
        await self.ask(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
        return address

    async def _json(self, address: str, code: int, wanted: dict[str, Any]) -> dict[str, Any]:
        reply = await self.ask(address, cast(RequestCode, code), None, loose_json.dumps(wanted))
        found = loose_json.loads(reply.payload or b"{}")
        if not isinstance(found, dict):
            raise FormatError(f"what {address} says of its transactions is no JSON object")
        return found
