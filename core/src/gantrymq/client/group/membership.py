"""State shared by the parts of one consumer."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.client.argument_types import check_text, shown
from gantrymq.client.calls.decoding import parse_tags
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.connection.registration import ConsumerInfo
from gantrymq.client.group.delivery_queue import DeliveryQueue
from gantrymq.client.group.offset_store import OffsetStore, create_offset_store
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.reading.group_offsets import GroupOffsets
from gantrymq.client.reading.group_pulls import GroupPulls
from gantrymq.errors import InvalidParameter
from gantrymq.formats.tags_code import tags_code
from gantrymq.model.names import RETRY_PREFIX, check_topic
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG, Subscription


class GroupMember:
    """One member of a group, from start to close: the state that the parts of a consumer share."""

    def __init__(
        self, instance: ClientInstance, group: str, settings: ConsumerSettings, subscriptions: dict[str, Subscription]
    ) -> None:
        """*subscriptions*, by topic and including the retry topic, may change later."""
        self.instance = instance
        self.group = group
        self.settings = settings
        self.subscriptions = subscriptions
        self.offsets = GroupOffsets(instance, group)
        self.pulls = GroupPulls(instance, group)
        self.offset_store: OffsetStore = create_offset_store(
            instance, group, self.offsets, broadcasting=settings.broadcasting, folder=settings.offsets_folder
        )
        self.deliveries = DeliveryQueue(instance.world.clock, orderly=settings.orderly, locking=self.locking)
        self.auto_commit = True  # store offsets periodically and at close
        self.process_queues: dict[MessageQueue, ProcessQueue] = {}
        self.paused = False  # no pulls, and no queues taken
        self.paused_queues: set[MessageQueue] = set()

    @property
    def retry_topic(self) -> str:
        """Topic to which failed messages of the group are sent."""
        return RETRY_PREFIX + self.group

    @property
    def locking(self) -> bool:
        """Whether queues are locked at their brokers."""
        return self.settings.orderly and not self.settings.broadcasting

    def commit_offsets(self) -> dict[MessageQueue, int]:
        """Return the offset to commit of each assigned queue."""
        return {queue: pq.commit_offset for queue, pq in self.process_queues.items() if not pq.dropped}

    def offsets_to_store(self) -> dict[MessageQueue, int]:
        """Return the offset to commit of each assigned queue that no other member can have taken meanwhile."""
        return {
            queue: pq.commit_offset for queue, pq in self.process_queues.items() if not (pq.dropped or pq.unconfirmed)
        }

    def is_paused(self, queue: MessageQueue) -> bool:
        """Return True if pulls of *queue* are paused."""
        return self.paused or queue in self.paused_queues


def subscription_of(topic: str, expression: str, expression_type: str) -> Subscription:
    """Return a subscription as heartbeats carry it.

    Raises:
        InvalidParameter: the name of the topic is not valid.
        ClientError: the tag expression has bars without tags.
    """
    check_topic(topic)
    check_text("the expression", expression)
    check_text("expression_type", expression_type)
    if expression_type != TAG:
        return Subscription(topic, expression, expression_type)
    tags = sorted(parse_tags(expression))
    return Subscription(
        topic, " || ".join(tags) or ALL, TAG, tags=tuple(tags), codes=tuple(tags_code(tag) for tag in tags)
    )


def subscriptions_of(topics: str | Mapping[str, str], expression: str, expression_type: str) -> dict[str, Subscription]:
    """Return subscriptions by topic.

    Args:
        topics: one topic, subscribed with *expression*, or a mapping of topics to expressions.
        expression: of the single topic.
        expression_type: TAG or SQL92, for all topics.

    Raises:
        as `subscription_of`.
    """
    if not isinstance(topics, str | Mapping):
        raise InvalidParameter(
            f"topics is {shown(topics)}; expected a topic, or a dict of topics with their expressions"
        )
    expressions = topics if isinstance(topics, Mapping) else {topics: expression}
    return {topic: subscription_of(topic, text, expression_type) for topic, text in expressions.items()}


def join_group(
    instance: ClientInstance,
    group: str,
    consume_type: str,
    settings: ConsumerSettings,
    subscriptions: dict[str, Subscription],
) -> None:
    """Add *group* to the client's heartbeats, with *subscriptions*, whose versions are set to the current time.

    Later changes of *subscriptions* are sent as well.

    Raises:
        ClientError: the client has a consumer of that group already.
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
