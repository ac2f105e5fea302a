"""Interceptor that lists a message for a lite topic in its light queue.

A producer names the lite topic in the property __LITE_TOPIC; the message gets INNER_MULTI_DISPATCH, which names the
light queue. Copies in retry and dead letter topics keep the first property and are not listed.

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.errors import LiteTopicIllegal, MessageIllegal
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import BrokerEnvironment, StoreMessage
from gantrymq.plugin.model import check_lite_topic, lite_queue
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq_lite.attributes import is_lite, light_queues_problem

_COPIES: Final = (RETRY_PREFIX, DLQ_PREFIX)


class LiteTopicInterceptor:
    """Interceptor of one broker; the service sets `broker` and `sent` when it starts."""

    order = 8900  # before delays: a message is refused when it is sent, not when it is due
    properties = frozenset({props.LITE_TOPIC})

    def __init__(self) -> None:
        self.broker: BrokerEnvironment | None = None
        self.sent: Callable[[str, str], object] = lambda parent, light_queue: None  # called for each message

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """Name the light queue in the message's properties.

        Raises:
            LiteTopicIllegal: the name of the lite topic, or the topic has no lite topics.
            MessageIllegal: the broker has no light queues.
        """
        topic, broker = message.topic, self.broker
        if broker is None or topic.startswith(_COPIES) or is_system_topic(topic):
            return message
        own = props.decode(message.properties)
        lite_topic = own[props.LITE_TOPIC]
        check_lite_topic(lite_topic)
        if not is_lite(broker.topics.get(topic)):
            raise LiteTopicIllegal(
                f"the message names the lite topic {lite_topic}, and topic {topic} has no lite topics; create a topic "
                "that has with: gantrymq topic create -t NAME -a +message.type=LITE"
            )
        if problem := light_queues_problem(broker.settings):
            raise MessageIllegal(problem)
        light_queue = lite_queue(topic, lite_topic)
        self.sent(topic, light_queue)
        if own.get(props.INNER_MULTI_DISPATCH) != light_queue:
            own[props.INNER_MULTI_DISPATCH] = light_queue
            message.properties = props.ordered_text(own)
        return message
