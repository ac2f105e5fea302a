"""Lite topics (RIP-83): which groups consume them, and the subscriptions of their clients.

The service ``lite`` of the plugin gantrymq-lite has the rules. Without it, requests about lite topics are refused.

Source: apache/rocketmq 5.5.0 proxy/.../grpc/v2/consumer/LiteSubscriptionActivity.java, ClientActivity.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.errors import RequestError, RequestNotSupported
from gantrymq.plugin.interfaces import (
    Broker,
    ClientChannel,
    LiteAction,
    LiteGroup,
    LiteService,
    LiteSubscription,
    OffsetKind,
    OffsetOption,
)
from gantrymq_grpc.conversion.codes import Refused, ok
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.definitions import (
    ClientType,
    Code,
    LiteSubscriptionAction,
    Settings,
    SyncLiteSubscriptionRequest,
    SyncLiteSubscriptionResponse,
)
from gantrymq_grpc.definitions import OffsetOption as OffsetOptionMessage
from gantrymq_grpc.service.access import channel_of
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.client import CONSUME_TYPES

_BOUND: Final = "lite.bind.topic"  # attribute of the groups that consume lite topics
_ACTIONS: Final[Mapping[int, LiteAction]] = {
    LiteSubscriptionAction.PARTIAL_ADD: LiteAction.PARTIAL_ADD,
    LiteSubscriptionAction.PARTIAL_REMOVE: LiteAction.PARTIAL_REMOVE,
    LiteSubscriptionAction.COMPLETE_ADD: LiteAction.COMPLETE_ADD,
    LiteSubscriptionAction.COMPLETE_REMOVE: LiteAction.COMPLETE_REMOVE,
}
_OFFSETS: Final[Mapping[str, OffsetKind]] = {
    "policy": OffsetKind.POLICY,
    "offset": OffsetKind.OFFSET,
    "tail_n": OffsetKind.TAIL_N,
    "timestamp": OffsetKind.TIMESTAMP,
}


class Lite:
    """The lite topics of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def service(self) -> LiteService:
        """The service ``lite``. Raises RequestNotSupported if the plugin is not installed."""
        found: LiteService = self._broker.service("lite")
        return found

    def check_installed(self) -> None:
        """Raise RequestNotSupported if the plugin for lite topics is not installed: their messages would be lost."""
        self._broker.service("lite")

    def consumes(self, group: str) -> bool:
        """Return whether *group* consumes lite topics, and nothing else."""
        config = self._broker.groups.get(group)
        return config is not None and _BOUND in config.attributes

    def group(self, settings: Settings) -> LiteGroup | None:
        """Return the attributes of the group of a consumer of lite topics; None for other consumers."""
        if settings.client_type != ClientType.LITE_PUSH_CONSUMER:
            return None
        try:
            return self.service.group(settings.subscription.group.name)
        except RequestError:  # the broker stops, or becomes a replica
            return None

    def check_group(self, group: str) -> None:
        """Check that *group* consumes lite topics. Raises Refused."""
        if not self.consumes(group):
            raise Refused(
                Code.ILLEGAL_CONSUMER_GROUP,
                f"regular group cannot use LITE mode: {group}; bind it to a topic with: gantrymq group create -g "
                f"{group} -a +{_BOUND}=TOPIC",
            )

    def check_settings(self, settings: Settings) -> None:
        """Check that the type of a consumer fits its group.

        Raises:
            Refused: they do not fit, or the service is not installed.
            RequestError: the group may not consume these topics.
        """
        subscription = settings.subscription
        group = subscription.group.name
        if settings.client_type not in CONSUME_TYPES:
            return  # refused when it is registered
        if settings.client_type != ClientType.LITE_PUSH_CONSUMER:
            if self.consumes(group):
                raise Refused(
                    Code.ILLEGAL_CONSUMER_GROUP,
                    f"lite group must use LITE mode: {group}; it has the attribute {_BOUND}, so consume with a lite "
                    "push consumer, or use another group",
                )
            return
        try:
            service = self.service
        except RequestNotSupported as error:
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, str(error)) from None
        for topic in {each.topic.name: each.topic for each in subscription.subscriptions}.values():
            service.check_consumer(group, topic_of(topic))  # a group has one, so the second one is refused
        self.check_group(group)

    async def sync(
        self, request: SyncLiteSubscriptionRequest, caller: Caller, client: ClientChannel | None
    ) -> SyncLiteSubscriptionResponse:
        """Change the subscriptions of *client*, None before its settings."""
        action = _ACTIONS.get(request.action)
        if action is None:
            names = ", ".join(each.name for each in LiteAction)
            raise Refused(Code.BAD_REQUEST, f"the action {request.action} is not one of {names}")
        await self.service.subscribe(
            LiteSubscription(
                action,
                caller.client_id,
                group_of(request.group),
                topic_of(request.topic),
                request.lite_topic_set,
                _offset(request.offset_option) if request.HasField("offset_option") else None,
                request.version,
                caller.principal,
            ),
            channel_of(caller.call) if client is None else client,
        )
        return SyncLiteSubscriptionResponse(status=ok())

    def client_gone(self, group: str, client_id: str) -> None:
        """Remove the subscriptions of a client that is gone, or left the group."""
        if self.consumes(group):
            self.service.client_gone(group, client_id)


def _offset(option: OffsetOptionMessage) -> OffsetOption | None:
    kind = option.WhichOneof("offset_type")
    return None if kind is None else OffsetOption(_OFFSETS[kind], getattr(option, kind))
