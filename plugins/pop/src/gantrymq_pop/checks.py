"""Checks before a pop reads messages: broker, topic, group, filter, invisible time.

Source: apache/rocketmq broker/.../processor/PopMessageProcessor.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import (
    InvalidParameter,
    NoPermission,
    RequestRefused,
    ServiceNotAvailable,
    SubscriptionParseFailed,
    TopicNotExist,
)
from gantrymq.plugin.interfaces import BrokerConsumers, MessageFilter, PopRequest
from gantrymq.plugin.model import ALL, PERM_READ, TAG, Subscription, TopicConfig
from gantrymq_pop.long_polling import LongPolling

_MOST_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000  # as far as RocketMQ's timer reaches


class PopChecks:
    """The checks of one broker."""

    def __init__(self, broker: BrokerConsumers, waiting: LongPolling) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._waiting = waiting

    def check_broker(self) -> None:
        """Raise NoPermission if this broker is not readable, ServiceNotAvailable if it is stopping."""
        if not self._settings.number("brokerPermission") & PERM_READ:
            raise NoPermission(
                "this broker's brokerPermission forbids reading; allow it with: gantrymq broker config set "
                "brokerPermission=6"
            )
        if self._waiting.closed:
            raise ServiceNotAvailable("this broker is stopping; pop again in a moment")

    def checked_topic(self, name: str, queue_id: int) -> TopicConfig:
        """Return a readable topic that has the queue. Raises TopicNotExist, NoPermission, InvalidParameter."""
        topic = self._broker.topics.get(name)
        if topic is None:
            raise TopicNotExist(
                f"topic {name} does not exist on this broker; create it with: gantrymq topic create -t {name}"
            )
        if not topic.readable:
            raise NoPermission(
                f"topic {name} may not be read (perm {topic.perm}); allow it with: gantrymq topic create -t {name} "
                "--perm 6"
            )
        if queue_id >= topic.read_queues:
            raise InvalidParameter(
                f"queueId {queue_id} is outside topic {name}, with {topic.read_queues} read queues; -1 pops "
                f"from all, and gantrymq topic create -t {name} -r {queue_id + 1} makes more"
            )
        return topic

    def check_group(self, name: str) -> None:
        """Raise GroupNotExist or NoPermission if the group may not pop."""
        if not self._broker.groups.require(name).consume_enable:
            raise NoPermission(
                f"consumer group {name} is switched off (consumeEnable=false); switch it on with: gantrymq group "
                f"create -g {name} --consume"
            )
        online = self._broker.clients.consumer_group(name)
        if online is not None and online.message_model == "BROADCASTING":
            raise NoPermission(
                f"consumer group {name} consumes by broadcasting, and what is popped goes to one member; pop with "
                "another group, or let this one consume by CLUSTERING"
            )

    def filter(self, request: PopRequest) -> MessageFilter:
        """Return the filter of a pop. Raises SubscriptionParseFailed."""
        expression, kind = (request.expression, request.expression_type or TAG) if request.expression else (ALL, TAG)
        subscription = Subscription(request.topic, expression, kind, 0, request.group)
        try:
            return self._broker.filters.compiled(subscription)
        except SubscriptionParseFailed:
            raise
        except RequestRefused as error:
            raise SubscriptionParseFailed(str(error)) from error


def check_invisible(invisible_ms: int) -> None:
    """Raise InvalidParameter if *invisible_ms* is out of bounds."""
    if not 0 <= invisible_ms <= _MOST_INVISIBLE_MS:
        raise InvalidParameter(
            f"invisibleTime {invisible_ms} ms is not between 0 and {_MOST_INVISIBLE_MS} (three days), as far as a "
            "message may be hidden; ask for less"
        )
