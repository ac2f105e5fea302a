"""Acceptance of timed messages: which messages wait, and which are refused.

Source: apache/rocketmq broker/.../util/HookUtils.java (transformTimerMessage),
store/.../timer/TimerMessageStore.java (isReject).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import MessageIllegal, RequestRefused
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import BrokerCluster, StoreMessage
from gantrymq_schedule.timer import settings as keys
from gantrymq_schedule.timer.messages import DELETE_KEY, TIMER_QUEUE, requested_ms, timer_queue_message
from gantrymq_schedule.timer.recall import answer_fields
from gantrymq_schedule.timer.wheel_clock import accepted_ms


class Acceptance:
    """Acceptance rules of one broker."""

    def __init__(self, broker: BrokerCluster, slot_count: Callable[[int], int]) -> None:
        """*slot_count* returns how many messages wait in the slot of a tick."""
        self._broker = broker
        self._name = broker.registration.broker_name
        self._precision_ms = keys.precision(broker.settings)
        self._slot_count = slot_count

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """See `Timers.move`."""
        if props.TIMER_OUT_MS in own or message.topic == TIMER_QUEUE.topic:
            return message
        settings = self._broker.settings
        if not settings.flag(keys.ENABLED):
            raise RequestRefused(
                1, f"timed messages are turned off here ({keys.ENABLED}=false); send it without a delay"
            )
        now_ms = self._broker.world.clock.now_ms()
        deliver_ms = requested_ms(own, now_ms)
        longest_ms = settings.number(keys.LONGEST_S) * 1000
        if deliver_ms <= now_ms:
            if DELETE_KEY in own:
                raise MessageIllegal(f"the message to recall was due {now_ms - deliver_ms} ms ago")
            return message
        if deliver_ms - now_ms > longest_ms:
            raise MessageIllegal(
                f"a delay of {deliver_ms - now_ms} ms is longer than the longest one here, {longest_ms} ms "
                f"({keys.LONGEST_S})"
            )
        slot_ms = accepted_ms(deliver_ms, self._precision_ms)
        self._refuse_crowded(slot_ms, settings.number(keys.MOST_IN_SLOT))
        made = timer_queue_message(message, own, slot_ms)
        made.answer_fields = answer_fields(message.topic, self._name, slot_ms, own)
        return made

    def _refuse_crowded(self, slot_ms: int, most: int) -> None:
        """Refuse a growing share of messages above *most* in a slot, and all of them above twice *most*."""
        if most == keys.NO_LIMIT:
            return
        count = self._slot_count(slot_ms // self._precision_ms)
        share = (count - most) / most
        if count > most and (share >= 1 or self._broker.world.random.random() > 1 - share):
            raise RequestRefused(
                1,
                f"{count} messages wait for the time {slot_ms} already, and {most} are taken "
                f"({keys.MOST_IN_SLOT}); choose another time, or send it again",
            )
