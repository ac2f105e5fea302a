"""Moves a message that asks for a delay to the queue where it waits: by level, or by time.

A level wins over a time, whose properties go then. Half messages do not come here; a committed one does.

Source: apache/rocketmq broker/.../util/HookUtils.java (handleScheduleMessage, checkIfTimerMessage).
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from gantrymq.errors import MessageIllegal, ServiceNotAvailable
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_schedule.levels.table import LevelTable

__all__ = ["DelayInterceptor", "Mover"]

TIMES = (props.TIMER_DELIVER_MS, props.TIMER_DELAY_SEC, props.TIMER_DELAY_MS)


HIGHEST: Final = 2**31 - 1  # that Java reads
_LEVEL = re.compile(r"[+-]?[0-9]{1,20}\Z")


class Mover(Protocol):
    """Where messages wait."""

    def move(self, message: StoreMessage, own: dict[str, str]) -> StoreMessage:
        """What to store in place of *message*, whose properties are *own*. Raises RequestError to refuse it."""


class DelayInterceptor:
    """One broker's. The service sets where messages go when it starts."""

    order = 9000  # behind those that change what a message says
    entries = False  # as in a Java broker, which reads no delay of a batch's entries

    def __init__(self) -> None:
        self.properties = frozenset({props.DELAY, *TIMES})
        self.levels: LevelTable | None = None
        self.timers: Mover | None = None

    def __call__(self, message: StoreMessage) -> StoreMessage:
        """The message to store.

        Raises:
            MessageIllegal: what it asks for cannot be read or kept.
            ServiceNotAvailable: the service does not run.
        """
        if message.topic == SCHEDULE_TOPIC:
            return message  # moved already, and put once more because what was stored with it was refused
        if self.levels is not None and self.levels.move_alike(message):
            return message
        own = props.decode(message.properties)
        level = _level_of(own)
        mover: Mover | None = self.levels if level > 0 else self.timers
        if level > 0:
            for name in TIMES:
                own.pop(name, None)
        elif not any(name in own for name in TIMES):
            return message
        if mover is None:
            raise ServiceNotAvailable("delayed messages are not taken yet: the service schedule has not started")
        return mover.move(message, own)


def _level_of(own: dict[str, str]) -> int:
    text = own.get(props.DELAY)
    if text is None:
        return 0
    if _LEVEL.match(text) is None or not -HIGHEST <= int(text) <= HIGHEST:
        raise MessageIllegal(f"DELAY={text:.40} is not a delay level; give a whole number, 0 for none")
    return int(text)
