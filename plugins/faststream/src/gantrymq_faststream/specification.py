"""AsyncAPI specification of subscribers and publishers: one channel for each topic."""

from __future__ import annotations

from faststream._internal.endpoint.publisher import PublisherSpecification
from faststream._internal.endpoint.subscriber import SubscriberSpecification
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec, SubscriberSpec

from gantrymq_faststream.configs import GantryBrokerConfig, PublisherSpecConfig, SubscriberSpecConfig


class GantrySubscriberSpecification(SubscriberSpecification[GantryBrokerConfig, SubscriberSpecConfig]):
    """The specification of one subscriber."""

    @property
    def topics(self) -> list[str]:
        """The topics with the prefixes of routers."""
        return [f"{self._outer_config.prefix}{topic}" for topic in self.config.topics]

    @property
    def channel_labels(self) -> list[str]:
        """The addresses of its channels."""
        return self.topics

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Return its channels by name."""
        payloads = self.get_payloads()
        channels = {}
        for topic in self.topics:
            name = self._channel_key(topic, split=len(self.topics) > 1)
            message = Message(title=f"{name}:Message", payload=resolve_payloads(payloads))
            channels[name] = SubscriberSpec(
                address=topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        return channels


class GantryPublisherSpecification(PublisherSpecification[GantryBrokerConfig, PublisherSpecConfig]):
    """The specification of one publisher."""

    @property
    def topic(self) -> str:
        """The topic with the prefixes of routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The name of its channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Return its channel by name."""
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads(), "Publisher"))
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }
