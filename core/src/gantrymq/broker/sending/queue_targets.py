"""Queue targets of messages that are not listed in exactly one ordinary queue.

- A topic with ``queue.type=BatchCQ`` has batch queues. A client batch with its own UNIQ_KEY becomes one record, an
  inner batch; otherwise each message becomes a record.
- With ``enableLmq`` and ``enableMultiDispatch``, INNER_MULTI_DISPATCH of a message names light queues. Batches and
  topics with batch queues are refused: a Java broker stores such messages without listing them in a light queue.

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java (sendBatchMessage), util/HookUtils.java
(checkInnerBatch), store/.../queue/MultiDispatchUtils.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.config import Settings
from gantrymq.errors import MessageIllegal
from gantrymq.interfaces import QueueTargets, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.light_queues import fans_out, light_queue_names
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.model.topic import TopicConfig

_ASKS = props.INNER_MULTI_DISPATCH.encode()
_ALONE = QueueTargets(batch=1)


class TargetSelector:
    """Selects the queue targets of messages for one broker."""

    def __init__(self, settings: Settings) -> None:
        self._light = serves_light_queues(settings) and settings.flag("enableMultiDispatch")
        # properties with which a message may have more than one queue
        self.names = frozenset({props.INNER_MULTI_DISPATCH} if self._light else ())

    def assign(self, message: StoreMessage, topic: TopicConfig, own: Mapping[str, str]) -> None:
        """Set the queue targets of a single message with the properties *own*.

        Raises:
            MessageIllegal: the message claims to be an inner batch, or combines light queues with batch queues.
        """
        if props.INNER_NUM in own or message.sys_flag & INNER_BATCH:
            raise MessageIllegal(
                "INNER_NUM and sysFlag 128 mark an inner batch, which the broker makes of a batch (request 320); send "
                "the messages as one"
            )
        light = light_queue_names(own) if self._light and fans_out(topic.name) else ()
        if topic.has_batch_queues:
            if light:
                raise self._refusal(topic.name, "messages of a topic with batch queues (queue.type=BatchCQ)")
            message.queue_targets = _ALONE
        elif light:
            message.queue_targets = QueueTargets(light=light)

    def for_batch_entry(self, topic: TopicConfig, text: bytes) -> QueueTargets | None:
        """Return the queue targets of a client batch entry with the stored properties *text*. Raises MessageIllegal."""
        self.refuse_light_batch(topic, text)
        return _ALONE if topic.has_batch_queues else None

    def refuse_light_batch(self, topic: TopicConfig, text: bytes) -> None:
        """Refuse light queues in *text*, the properties of a batch or an entry of one. Raises MessageIllegal."""
        if self._light and _ASKS in text and light_queue_names(props.decode(text)) and fans_out(topic.name):
            raise self._refusal(topic.name, "the messages of a batch")

    def may_assign(self, topic: TopicConfig | None) -> bool:
        """Return whether `assign_for_plugin` may change a message for *topic*."""
        return topic is not None and (self._light or topic.has_batch_queues)

    def assign_for_plugin(self, message: StoreMessage, topic: TopicConfig | None) -> None:
        """Set the queue targets of a plugin's message, unless the plugin has set them."""
        if message.queue_targets is not None or topic is None:
            return
        if topic.has_batch_queues or (self._light and _ASKS in message.properties):
            self.assign(message, topic, props.decode(message.properties))

    @staticmethod
    def _refusal(topic: str, what: str) -> MessageIllegal:
        return MessageIllegal(
            f"{props.INNER_MULTI_DISPATCH} in a message for topic {topic}: {what} cannot be listed in light queues; "
            "send it by itself, to a topic with ordinary queues"
        )


DELAYS = (props.DELAY, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS, props.TIMER_DELIVER_MS)


def requested_delay(own: Mapping[str, str], names: Iterable[str] = DELAYS) -> str | None:
    """Return the first of the delay properties *names* with which *own* requests a delay, or None."""
    for name in names:
        if name in own and (name != props.DELAY or (own[name] != "0" and not own[name].startswith("-"))):
            return name
    return None


def refuse_delays(own: Mapping[str, str], unserved: Iterable[str]) -> None:
    """Refuse a message that requests a delay with an *unserved* property, one that no interceptor handles."""
    name = requested_delay(own, unserved)
    if name is not None:
        what = f"delay level {own[name]}" if name == props.DELAY else f"{name}={own[name]}"
        raise MessageIllegal(
            f"{what}: delayed messages need a schedule plugin and none is installed; send it without {name}"
        )
