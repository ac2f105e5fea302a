"""Delivered messages that the application acknowledges itself (``auto_ack=False``)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from gantrymq.client.group.delivery_queue import Delivery
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller, UnsettledMessages
from gantrymq.client.tracing.hooks import ConsumeOutcome

_Key = tuple[str, int, int]  # broker, offset in its log, offset in the queue


class UnackedMessages:
    """Unacknowledged messages of one consumer. A caller of `pop` must settle the message or `restore` it."""

    def __init__(self, member: GroupMember, hooks: ConsumeHookCaller | None) -> None:
        """Create the table for process queues of *member*; *hooks* are called with the outcome of each message."""
        self._member = member
        self._queues: dict[_Key, ProcessQueue] = {}
        self._messages: dict[ProcessQueue, dict[int, ReceivedMessage]] = {}  # by offset
        self._unsettled = None if hooks is None else UnsettledMessages(hooks)

    def add(self, delivery: Delivery) -> None:
        """Add delivered messages, and drop those of queues that were given up."""
        if delivery.process_queue not in self._messages:
            self._drop_stale()
        for message in delivery.messages:
            self._put(delivery.process_queue, message)
        if self._unsettled is not None:
            self._unsettled.handed(
                delivery.process_queue.queue, [(_key(message), message) for message in delivery.messages]
            )

    def pop(self, message: ReceivedMessage) -> ProcessQueue | None:
        """Remove *message* and return its process queue; None if it is not here, or its queue was given up."""
        pq = self._queues.pop(_key(message), None)
        if pq is None:
            return None
        self._messages[pq].pop(message.queue_offset, None)
        return None if self._is_stale(pq) else pq

    def restore(self, pq: ProcessQueue, message: ReceivedMessage) -> None:
        """Put a removed message back."""
        self._put(pq, message)

    def settle(self, message: ReceivedMessage, outcome: ConsumeOutcome) -> None:
        """Report the outcome of *message* to hooks; later calls for the same message do nothing."""
        if self._unsettled is not None:
            self._unsettled.settled(_key(message), outcome)

    def processing(self, messages: Iterable[ReceivedMessage]) -> AbstractContextManager[None]:
        """Return a context manager for the processing of *messages*, for hooks."""
        return nullcontext() if self._unsettled is None else self._unsettled.processing(map(_key, messages))

    def get(self, pq: ProcessQueue, offset: int) -> ReceivedMessage | None:
        """Return the message of *pq* at *offset*, None if it is not here."""
        return self._messages.get(pq, {}).get(offset)

    def close(self) -> None:
        """Report the remaining messages to hooks as given back."""
        if self._unsettled is not None:
            self._unsettled.keep_only(())

    def _put(self, pq: ProcessQueue, message: ReceivedMessage) -> None:
        self._queues[_key(message)] = pq
        self._messages.setdefault(pq, {})[message.queue_offset] = message

    def _is_stale(self, pq: ProcessQueue) -> bool:
        return self._member.process_queues.get(pq.queue) is not pq

    def _drop_stale(self) -> None:
        for pq in [pq for pq in self._messages if self._is_stale(pq)]:
            for message in self._messages.pop(pq).values():
                if self._queues.get(_key(message)) is pq:
                    del self._queues[_key(message)]
                    self.settle(message, ConsumeOutcome.GIVEN_BACK)


def _key(message: ReceivedMessage) -> _Key:
    return message.broker_name, message.log_offset, message.queue_offset
