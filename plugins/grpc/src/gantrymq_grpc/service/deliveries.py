"""Delivered messages, and what clients do with them: those of ordinary groups by the service ``pop``, those of groups
that consume lite topics by the service ``lite``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from gantrymq.plugin.interfaces import (
    ClientChannel,
    InvisibleTime,
    LiteMessage,
    LiteRequest,
    PopAck,
    PopAnswer,
    PopRequest,
    PopService,
)
from gantrymq.plugin.model import Principal, Receipt, read_receipt
from gantrymq_grpc.definitions import ClientType, Settings
from gantrymq_grpc.service.lite import Lite
from gantrymq_grpc.service.renewal import KeptPop

M = TypeVar("M")
N = TypeVar("N", contravariant=True)


class _Service(Protocol[N]):
    """What both services offer for a delivered message."""

    async def ack(self, message: N) -> None: ...

    async def change_invisible_time(self, message: N, invisible_ms: int) -> InvisibleTime: ...

    def is_delivered(self, message: N) -> bool: ...

    def give_back(self, messages: Sequence[Any]) -> None: ...

    async def forward_to_dead_letters(self, message: N, log_offset: int) -> None: ...


class Delivery(NamedTuple, Generic[M]):
    """A message that was delivered under a receipt. Errors are those of the service."""

    service: _Service[M]
    message: M

    def is_delivered(self) -> bool:
        """Return whether it is neither acknowledged nor visible again."""
        return self.service.is_delivered(self.message)

    async def ack(self) -> None:
        """Acknowledge it."""
        await self.service.ack(self.message)

    async def change_invisible_time(self, invisible_ms: int) -> InvisibleTime:
        """Make it visible again *invisible_ms* from now."""
        return await self.service.change_invisible_time(self.message, invisible_ms)

    async def forward_to_dead_letters(self, log_offset: int) -> None:
        """Move it to the dead letters of its group; *log_offset* is that of its record."""
        await self.service.forward_to_dead_letters(self.message, log_offset)


class Deliveries:
    """The deliveries of one broker."""

    def __init__(self, pop: PopService, lite: Lite) -> None:
        self._pop = pop
        self._lite = lite

    def of(
        self, group: str, topic: str, receipt: Receipt, principal: Principal | None, lite_topic: str
    ) -> Delivery[PopAck] | Delivery[LiteMessage]:
        """Return the delivery of a receipt. *lite_topic*: as the client names it; empty if it does not.

        Raises:
            RequestNotSupported: the group consumes lite topics, and the plugin for them is not installed.
        """
        if self._lite.consumes(group):
            return Delivery(self._lite.service, LiteMessage(group, topic, lite_topic, receipt, principal))
        return Delivery(self._pop, PopAck.of(group, topic, receipt, principal))

    def are_lite(self, group: str, settings: Settings | None) -> bool:
        """Return whether *group* consumes lite topics. *settings*: of the client.

        Raises:
            Refused: the client expects them, and the group does not consume them any more; it would get all messages.
        """
        if (
            settings is not None
            and settings.client_type == ClientType.LITE_PUSH_CONSUMER
            and settings.subscription.group.name == group
        ):
            self._lite.check_group(group)
        return self._lite.consumes(group)

    async def receive(self, request: PopRequest, client_id: str, channel: ClientChannel) -> PopAnswer:
        """Return messages for a client, waiting as long as the request allows. Errors are those of the service.

        A group that consumes lite topics gets those that the client is subscribed to, without regard to the filter.
        """
        if not self._lite.consumes(request.group):
            return await self._pop.receive(request, channel)
        wanted = LiteRequest(
            request.group,
            request.topic,
            client_id,
            request.max_count,
            request.invisible_ms,
            request.wait_ms,
            attempt_id=request.attempt_id,
            principal=request.principal,
        )
        return await self._lite.service.receive(wanted, channel)

    def give_back(self, deliveries: Sequence[Delivery[Any]]) -> None:
        """Make messages of one receive that did not reach their consumer visible again soon."""
        if deliveries:
            deliveries[0].service.give_back([each.message for each in deliveries])

    async def renew(self, pop: KeptPop, invisible_ms: int) -> Sequence[int]:
        """Let the unacknowledged messages of a kept pop stay invisible; return their queue offsets."""
        if not pop.lite_topic:
            return await self._pop.renew(pop.ack, invisible_ms)
        receipt = read_receipt(pop.handle)
        message = LiteMessage(pop.group, pop.topic, pop.lite_topic, receipt, pop.principal)
        return self._lite.service.renew(message, invisible_ms)
