"""Messages in the hand of an application that acknowledges them itself (``auto_ack=False``)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from gantrymq.client.group.handing import Handed
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller, UnsettledMessages
from gantrymq.client.tracing.hooks import ConsumeOutcome

__all__ = ["Kept"]

_Key = tuple[str, int, int]  # broker, offset in its log, offset in the queue


class Kept:
    """Belongs to one consumer. What is taken out is put back, or settled, by whoever took it."""

    def __init__(self, member: Membership, hooks: ConsumeHookCaller | None) -> None:
        """Of queues that *member* holds; *hooks* are told what becomes of each message."""
        self._member = member
        self._queues: dict[_Key, HeldQueue] = {}
        self._messages: dict[HeldQueue, dict[int, ReceivedMessage]] = {}  # by offset
        self._unsettled = None if hooks is None else UnsettledMessages(hooks)

    def keep(self, handed: Handed) -> None:
        """The application has them; those of queues that are another member's since are forgotten."""
        if handed.held not in self._messages:
            self._forget_gone()
        for message in handed.messages:
            self._put(handed.held, message)
        if self._unsettled is not None:
            self._unsettled.handed(handed.held.queue, [(_key(message), message) for message in handed.messages])

    def take(self, message: ReceivedMessage) -> HeldQueue | None:
        """The queue that *message* is of, for one caller; None where it is not kept, or another member's by now."""
        held = self._queues.pop(_key(message), None)
        if held is None:
            return None
        self._messages[held].pop(message.queue_offset, None)
        return None if self._gone(held) else held

    def put_back(self, held: HeldQueue, message: ReceivedMessage) -> None:
        """What was taken is kept again."""
        self._put(held, message)

    def settled(self, message: ReceivedMessage, outcome: ConsumeOutcome) -> None:
        """What became of *message*, for hooks; harmless when repeated."""
        if self._unsettled is not None:
            self._unsettled.settled(_key(message), outcome)

    def processing(self, messages: Iterable[ReceivedMessage]) -> AbstractContextManager[None]:
        """Around the processing of *messages*, for hooks."""
        return nullcontext() if self._unsettled is None else self._unsettled.processing(map(_key, messages))

    def at(self, held: HeldQueue, offset: int) -> ReceivedMessage | None:
        """The message of *held* at *offset*, if it is kept."""
        return self._messages.get(held, {}).get(offset)

    def end(self) -> None:
        """The application acknowledges nothing any more."""
        if self._unsettled is not None:
            self._unsettled.keep_only(())

    def _put(self, held: HeldQueue, message: ReceivedMessage) -> None:
        self._queues[_key(message)] = held
        self._messages.setdefault(held, {})[message.queue_offset] = message

    def _gone(self, held: HeldQueue) -> bool:
        return self._member.held.get(held.queue) is not held

    def _forget_gone(self) -> None:
        for held in [held for held in self._messages if self._gone(held)]:
            for message in self._messages.pop(held).values():
                if self._queues.get(_key(message)) is held:
                    del self._queues[_key(message)]
                    self.settled(message, ConsumeOutcome.GIVEN_BACK)


def _key(message: ReceivedMessage) -> _Key:
    return message.broker_name, message.log_offset, message.queue_offset
