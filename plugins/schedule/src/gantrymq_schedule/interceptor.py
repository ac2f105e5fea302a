"""Interceptor that moves a message with a delay, by level or by time, to the queue where it waits.

A level takes precedence over a time, whose properties are then removed. Half messages are not intercepted; a committed
message is. `TimerAcceptance` decides which messages with a time wait, and which are refused.

Source: apache/rocketmq broker/.../util/HookUtils.java (handleScheduleMessage, checkIfTimerMessage,
transformTimerMessage), store/.../timer/TimerMessageStore.java (isReject).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Protocol

from gantrymq.errors import MessageIllegal, RequestRefused, ServiceNotAvailable
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import BrokerCluster, StoreMessage
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq_schedule import settings as keys
from gantrymq_schedule.levels.table import LevelTable
from gantrymq_schedule.timer.messages import DELETE_KEY, TIMER_QUEUE, requested_ms, timer_queue_message
from gantrymq_schedule.timer.recall import answer_fields
from gantrymq_schedule.timer.wheel_clock import accepted_ms

_TIMES = (props.TIMER_DELIVER_MS, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS)
_HIGHEST: Final = 2**31 - 1  # the largest int that Java parses
_LEVEL = re.compile(r"[+-]?[0-9]{1,20}\Z")


class Mover(Protocol):
    """Moves messages to the place where they wait."""

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """Return the message to store for *message* with the properties *own*. Raises RequestError to refuse it."""


class DelayInterceptor:
    """Interceptor of one broker; the service sets `levels` and `timers` when it starts."""

    order = 9000  # after the interceptors that change a message
    entries = False  # like a Java broker, which ignores delays of a batch's entries

    def __init__(self) -> None:
        self.properties = frozenset({props.DELAY, *_TIMES})
        self.levels: LevelTable | None = None
        self.timers: Mover | None = None

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """Return the message to store.

        Raises:
            MessageIllegal: the delay is malformed or not supported.
            ServiceNotAvailable: the service is not running.
        """
        if message.topic == SCHEDULE_TOPIC:
            return message  # moved before; it is put again because another message of its append was refused
        if self.levels is not None and self.levels.move_cached(message):
            return message
        own = props.decode(message.properties)
        level = _level_of(own)
        mover: Mover | None = self.levels if level > 0 else self.timers
        if level > 0:
            for name in _TIMES:
                own.pop(name, None)
        elif not any(name in own for name in _TIMES):
            return message
        if mover is None:
            raise ServiceNotAvailable("delayed messages are not accepted yet: the service schedule has not started")
        return mover.move(message, own)


def _level_of(own: dict[str, str]) -> int:
    text = own.get(props.DELAY)
    if text is None:
        return 0
    if _LEVEL.match(text) is None or not -_HIGHEST <= int(text) <= _HIGHEST:
        raise MessageIllegal(f"DELAY={text:.40} is not a delay level; give a whole number, 0 for none")
    return int(text)


class TimerAcceptance:
    """Acceptance of timed messages by one broker."""

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
