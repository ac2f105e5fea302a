"""What the parts of one consumer share."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.client.decoding import parse_tags
from gantrymq.client.group.handing import HandOut
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.progress import Progress
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.group_offsets import GroupOffsets
from gantrymq.client.group_pulls import GroupPulls
from gantrymq.client.heartbeat import ConsumerInfo
from gantrymq.client.instance import ClientInstance
from gantrymq.formats.tags_code import tags_code
from gantrymq.model.names import RETRY_PREFIX, check_topic
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription

__all__ = ["Membership", "join_group", "subscription_of", "subscriptions_of"]


@attrs.define
class Membership:
    """One member of a group, from its start to its end."""

    instance: ClientInstance
    group: str
    settings: ConsumerSettings
    subscriptions: dict[str, Subscription]  # by topic, the retry topic among them
    offsets: GroupOffsets
    pulls: GroupPulls
    progress: Progress
    handing: HandOut
    commits: bool = True  # the progress is stored by itself
    held: dict[MessageQueue, HeldQueue] = attrs.field(factory=dict)
    paused: bool = False  # nothing is pulled, no queue is taken
    paused_queues: set[MessageQueue] = attrs.field(factory=set)

    @property
    def retry_topic(self) -> str:
        """Where the messages come from that failed."""
        return RETRY_PREFIX + self.group

    @property
    def locking(self) -> bool:
        """Whether queues are locked at their brokers."""
        return self.settings.orderly and not self.settings.broadcasting

    def reached(self) -> dict[MessageQueue, int]:
        """The progress in every queue held."""
        return {queue: held.progress for queue, held in self.held.items() if not held.dropped}

    def to_store(self) -> dict[MessageQueue, int]:
        """The progress in every queue held that no other member may have by now."""
        return {queue: held.progress for queue, held in self.held.items() if not (held.dropped or held.cut_off)}

    def pausing(self, queue: MessageQueue) -> bool:
        """Whether nothing is to be pulled of *queue*."""
        return self.paused or queue in self.paused_queues


def subscription_of(topic: str, expression: str, expression_type: str) -> Subscription:
    """As heartbeats have it. Raises InvalidParameter: the topic's name is not legal; ClientError: bars without tags."""
    check_topic(topic)
    if expression_type != TAG:
        return Subscription(topic, expression, expression_type)
    tags = sorted(parse_tags(expression))
    return Subscription(
        topic, " || ".join(tags) or ALL, TAG, tags=tuple(tags), codes=tuple(tags_code(tag) for tag in tags)
    )


def subscriptions_of(topics: str | Mapping[str, str], expression: str, expression_type: str) -> dict[str, Subscription]:
    """By topic: of one topic with *expression*, or of several with an expression each. Raises as `subscription_of`."""
    wanted = topics if isinstance(topics, Mapping) else {topics: expression}
    return {topic: subscription_of(topic, text, expression_type) for topic, text in wanted.items()}


def join_group(
    instance: ClientInstance,
    group: str,
    consume_type: str,
    settings: ConsumerSettings,
    subscriptions: dict[str, Subscription],
) -> None:
    """Let heartbeats name *group* with *subscriptions*, which are of now and may change.

    Raises:
        ClientError: the instance has a consumer of that group.
    """
    now = instance.world.clock.now_ms()
    subscriptions.update({topic: attrs.evolve(each, version=now) for topic, each in subscriptions.items()})
    instance.registration.add_consumer(
        ConsumerInfo(
            group,
            consume_type,
            settings.message_model,
            settings.consume_from_where,
            lambda: list(subscriptions.values()),
        )
    )
