"""Async iterator over popped messages."""

from __future__ import annotations

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.ack_buffer import key_of
from gantrymq.client.pop.run import PopRun
from gantrymq.client.tracing.hooks import ConsumeOutcome

__all__ = ["PopIterator"]


class PopIterator:
    """Requesting the next message acknowledges the one before; a loop that is left gives its message back."""

    def __init__(self, run: PopRun, auto_ack: bool) -> None:
        """Without *auto_ack* the application acknowledges messages."""
        self._run = run
        self._auto_ack = auto_ack
        self._message: ReceivedMessage | None = None

    def __aiter__(self) -> PopIterator:
        return self

    async def __anext__(self) -> ReceivedMessage:
        before, self._message = self._message, None
        if before is not None and self._release(before) is not None:
            self._run.ack_buffer.add(before)
            self._run.report_settled(before, ConsumeOutcome.SUCCESS)
        popped = await self._run.next_message()
        if popped is None:
            raise StopAsyncIteration
        self._run.report_delivered([popped])
        message, until_s = popped
        if self._auto_ack:
            self._message = message
            self._run.in_iterators[key_of(message)] = until_s
        return message

    def _release(self, message: ReceivedMessage) -> float | None:
        """Return when *message* is delivered again; None if the application acknowledged it or changed its time."""
        return self._run.in_iterators.pop(key_of(message), None)

    def __del__(self) -> None:
        if self._message is not None:
            until_s = self._release(self._message)
            if until_s is not None:
                self._run.report_settled(self._message, ConsumeOutcome.GIVEN_BACK)
                self._run.give_back(self._message, until_s)
