"""A connected client, as seen by the broker's operations and by plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

from gantrymq.model.access import Principal
from gantrymq.model.pushes import (
    ClientAnswer,
    DirectConsumption,
    LiteUnsubscription,
    OffsetReset,
    PushedReply,
    TransactionCheck,
)

__all__ = ["ClientCalls", "ClientChannel", "ConnectedClient", "ResponseLimiter"]

T = TypeVar("T")


class ResponseLimiter(Protocol):
    """Limiter for work on long responses: it waits while the peer has too many unread responses."""

    @property
    def busy(self) -> bool:
        """Whether new work would have to wait."""

    async def run(self, work: Awaitable[T]) -> T:
        """Wait for a turn, then for *work*, which produces one response. Write the response before the next await.

        Raises:
            ConnectionLost: the connection was closed before the turn came; a coroutine *work* was not started.
        """


class ConnectedClient(Protocol):
    """Who a connected client is, and its connection."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address of the client."""

    @property
    def address(self) -> str:
        """The client's address as ``host:port``."""

    @property
    def peer_packed_host(self) -> bytes:
        """The client's address in the encoding of records."""

    @property
    def notes(self) -> dict[str, Any]:
        """State that handlers and plugins keep per client; a plugin uses its own name as key."""

    @property
    def principal(self) -> Principal | None:
        """Who sent the request that is being served; None without access control. Read it before the first await."""

    @property
    def certificate(self) -> str:
        """Subject of the client's verified TLS certificate, such as ``CN=orders,O=Shop``; empty if there is none."""

    @property
    def encrypted(self) -> bool:
        """Whether the client's connection uses TLS."""

    @property
    def listener(self) -> str:
        """Name of the listener through which the client came; ``default`` for the main one of the broker."""

    @property
    def protocol(self) -> str:
        """The client's protocol, as in the setting ``listeners``: ``remoting``, ``grpc``."""

    @property
    def closed(self) -> bool:
        """Whether the channel is closed for sending."""

    @property
    def response_limiter(self) -> ResponseLimiter:
        """The limiter for work on long responses."""

    def close(self) -> None:
        """Write buffered data, then close."""


class ClientCalls(Protocol):
    """What a broker tells a connected client, or asks it."""

    def members_changed(self, group: str) -> None:
        """Tell a consumer that the members of its group changed, so that it rebalances."""

    async def reset_offsets(self, reset: OffsetReset) -> None:
        """Tell a consumer to continue at new offsets, and to commit them."""

    def check_transaction(self, check: TransactionCheck) -> None:
        """Ask a producer for the state of a transaction; it answers with `Messages.end_transaction`."""

    async def deliver_reply(self, reply: PushedReply, timeout_s: float) -> ClientAnswer:
        """Deliver a reply to the producer that waits for it."""

    async def running_info(
        self, group: str, client_id: str, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Ask a consumer for its state (ConsumerRunningInfo).

        *fields*: header fields of the question, such as ``jstackEnable`` for the stacks of its threads.
        """

    async def consume_directly(
        self, message: DirectConsumption, fields: Mapping[str, str], timeout_s: float
    ) -> ClientAnswer:
        """Let a consumer consume a message now; the body of the answer is a ConsumeMessageDirectlyResult.

        *fields*: further header fields of the question.
        """

    async def consumer_offsets(self, topic: str, group: str, timeout_s: float) -> ClientAnswer:
        """Ask a consumer for the offsets that it has in memory (GetConsumerStatusBody)."""

    def lite_unsubscribed(self, news: LiteUnsubscription) -> None:
        """Tell a consumer of lite topics that another one took one over, so that it forgets its subscription."""


class ClientChannel(ConnectedClient, ClientCalls, Protocol):
    """A connected client, whatever its protocol; a remoting connection is one, see `gantrymq.remoting.pushes`.

    The methods that send something do nothing if the channel is closed; those that wait for an answer raise CallTimeout
    or ConnectionLost.
    """
