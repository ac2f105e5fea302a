"""Priority messages (RIP-80): the priority of a message is the id of its queue, and pops read the highest id first.

The property counts in topics of every type. A message that is also delayed, ordered or of a transaction has no
priority, and loses the property.

Source: apache/rocketmq 5.5.0 broker/.../processor/SendMessageProcessor.java (sendMessage),
common/.../attribute/TopicMessageType.java (parseFromMessageProperty).
"""

from __future__ import annotations

from gantrymq.broker.sending.queue_targets import DELAYS
from gantrymq.interfaces import SendRequest
from gantrymq.model import properties as props
from gantrymq.model.topic import TopicConfig

_MOST_DIGITS = 10


def place_by_priority(request: SendRequest, topic: TopicConfig, queue_id: int) -> tuple[SendRequest, int]:
    """Return *request*, which has the property, as it is stored, and the id of the queue of its message.

    A value that is not a number from 0 on has no effect.
    """
    own = props.decode_text(request.properties)
    text = own.get(props.PRIORITY, "")
    if not (text.isascii() and text.isdecimal()) or len(text) > _MOST_DIGITS:
        return request, queue_id
    if own.get(props.TRAN_MSG) == "true" or not own.keys().isdisjoint((*DELAYS, props.SHARDING_KEY)):
        del own[props.PRIORITY]
        return request._replace(properties=props.encode_text(own)), queue_id
    return request, max(0, min(int(text), topic.write_queues - 1))
