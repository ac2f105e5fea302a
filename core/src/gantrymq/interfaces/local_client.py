"""The base for clients whose protocol has no remoting frames."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from gantrymq.errors import ConnectionLost, RequestNotSupported
from gantrymq.interfaces.client_channel import ResponseLimiter
from gantrymq.model.access import Principal
from gantrymq.model.hosts import format_address, pack_peer
from gantrymq.model.pushes import (
    ClientAnswer,
    DirectConsumption,
    LiteUnsubscription,
    OffsetReset,
    PushedReply,
    TransactionCheck,
)

__all__ = ["LocalClient"]

T = TypeVar("T")


class _Unlimited:
    """A response limiter that never waits: a protocol that writes as its client reads needs no other."""

    busy: Final = False

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for *work*."""
        return await work


class LocalClient:
    """A `ClientChannel` that a subclass completes with what its protocol can tell or ask a client.

    Messages to the client are dropped: they are hints, or the broker sends them again. Questions are answered with
    code 3, as by a remoting client that does not know a request; after `close`, they raise ConnectionLost. The protocol
    registers its clients with `Clients.heartbeat` and reports those that leave with `Clients.gone`.

    Attributes:
        peer: address of the client.
        notes: state that handlers and plugins keep per client.
        principal: who sent the request that is being served; set it before each one.
        certificate: subject of the client's verified TLS certificate; empty if there is none.
        encrypted: whether the client's connection uses TLS.
        listener: name of the listener through which the client came.
        protocol: name of the client's protocol; a subclass sets it.
        closed: whether the channel is closed for sending.
        response_limiter: as in `ConnectedClient`; while it is busy, the broker asks other clients instead, if it can.
    """

    protocol = ""

    def __init__(
        self, peer: tuple[str, int], *, listener: str = "default", certificate: str = "", encrypted: bool = False
    ) -> None:
        self.peer = peer
        self.listener = listener
        self.certificate = certificate
        self.encrypted = encrypted
        self.principal: Principal | None = None
        self.notes: dict[str, Any] = {}
        self.closed = False
        self.response_limiter: ResponseLimiter = _Unlimited()

    @property
    def address(self) -> str:
        """The client's address as ``host:port``."""
        return format_address(*self.peer)

    @property
    def peer_packed_host(self) -> bytes:
        """The client's address in the encoding of records."""
        return pack_peer(*self.peer)

    def close(self) -> None:
        """Mark the channel as closed."""
        self.closed = True

    def members_changed(self, group: str) -> None:
        """Do nothing: the clients of the protocol rebalance by other means."""

    async def reset_offsets(self, reset: OffsetReset) -> None:
        """Do nothing: the clients of the protocol keep no offsets."""

    def check_transaction(self, check: TransactionCheck) -> None:
        """Do nothing: the broker checks the transaction again later."""

    async def deliver_reply(self, reply: PushedReply, timeout_s: float) -> ClientAnswer:
        """Answer that the protocol has no replies."""
        return self._unable("receive replies")

    async def running_info(
        self, group: str, client_id: str, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Answer that clients of the protocol do not report their state."""
        return self._unable("report their state")

    async def consume_directly(
        self, message: DirectConsumption, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Answer that clients of the protocol do not consume on request."""
        return self._unable("consume a given message on request")

    async def consumer_offsets(self, topic: str, group: str, timeout_s: float) -> ClientAnswer:
        """Answer that clients of the protocol have no offsets in memory."""
        return self._unable("report offsets: they keep none")

    def lite_unsubscribed(self, news: LiteUnsubscription) -> None:
        """Do nothing: the protocol has no lite topics."""

    def _unable(self, what: str) -> ClientAnswer:
        if self.closed:
            raise ConnectionLost(f"{self.address}: the client's connection is closed")
        return ClientAnswer(
            RequestNotSupported.response_code, f"clients of this protocol cannot {what} ({self.address})", None, None
        )
