"""Configuration of brokers, routers, subscribers and publishers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from faststream._internal.configs import (
    BrokerConfig,
    PublisherSpecificationConfig,
    PublisherUsecaseConfig,
    SubscriberSpecificationConfig,
    SubscriberUsecaseConfig,
    UnderlyingDriverAnnotation,
    UnderlyingDriverAnnotations,
)
from faststream._internal.constants import EMPTY
from faststream.exceptions import IncorrectState
from faststream.middlewares import AckPolicy

from gantrymq.client import Client
from gantrymq_faststream.options import MessageOptions
from gantrymq_faststream.producer import GantryProducer


def _annotations() -> UnderlyingDriverAnnotations:
    """Return the classes that a handler cannot use as annotations, with their replacements."""
    from gantrymq_faststream import annotations, broker, message

    module = "gantrymq_faststream.annotations"
    return MappingProxyType(
        {
            message.GantryMessage: UnderlyingDriverAnnotation(
                type_hint=annotations.GantryMessage, module=module, name="GantryMessage"
            ),
            message.GantryBatchMessage: UnderlyingDriverAnnotation(
                type_hint=annotations.GantryBatchMessage, module=module, name="GantryBatchMessage"
            ),
            broker.GantryBroker: UnderlyingDriverAnnotation(
                type_hint=annotations.GantryBroker, module=module, name="GantryBroker"
            ),
            Client: UnderlyingDriverAnnotation(type_hint=annotations.Client, module=module, name="Client"),
        }
    )


@dataclass(kw_only=True)
class GantryBrokerConfig(BrokerConfig):
    """Configuration of a broker, or without connection of a router."""

    connection: Client | None = None
    producer: GantryProducer = field(default_factory=lambda: GantryProducer(None, None))
    default_driver_annotations: UnderlyingDriverAnnotations = field(default_factory=_annotations)

    @property
    def client(self) -> Client:
        """The started client.

        Raises:
            IncorrectState: the broker is not connected.
        """
        if self.connection is None:
            raise IncorrectState("the broker is not connected; use it within 'async with broker' or run its app")
        return self.connection


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """Configuration of a subscriber."""

    _outer_config: GantryBrokerConfig
    topics: Sequence[str]
    group: str
    expression: str
    expression_type: str
    max_workers: int
    settings: Mapping[str, Any]

    @property
    def ack_policy(self) -> AckPolicy:
        """The subscriber's policy, else the broker's, else NACK_ON_ERROR, which redelivers failed messages."""
        if self._ack_policy is not EMPTY:
            return self._ack_policy
        policy = self._outer_config.ack_policy
        return AckPolicy.NACK_ON_ERROR if policy is EMPTY else policy


@dataclass(kw_only=True)
class SubscriberSpecConfig(SubscriberSpecificationConfig):
    """Configuration of a subscriber's documentation."""

    topics: Sequence[str]


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """Configuration of a publisher."""

    _outer_config: GantryBrokerConfig
    topic: str
    batch: bool
    headers: dict[str, Any]
    reply_to: str
    timeout_s: float
    options: MessageOptions


@dataclass(kw_only=True)
class PublisherSpecConfig(PublisherSpecificationConfig):
    """Configuration of a publisher's documentation."""

    topic: str
