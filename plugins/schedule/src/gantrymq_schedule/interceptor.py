"""Interceptor that moves a message with a delay, by level or by time, to the queue where it waits.

A level takes precedence over a time, whose properties are then removed. Half messages are not intercepted; a committed
message is.

Source: apache/rocketmq broker/.../util/HookUtils.java (handleScheduleMessage, checkIfTimerMessage).
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from gantrymq.errors import MessageIllegal, ServiceNotAvailable
from gantrymq.plugin import properties as props
from gantrymq.plugin.interfaces import StoreMessage
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq_schedule.levels.table import LevelTable

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
