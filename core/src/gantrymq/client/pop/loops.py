"""Loops over popped messages."""

from __future__ import annotations

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.keeping import key_of
from gantrymq.client.pop.run import PopRun
from gantrymq.client.tracing.hooks import ConsumeOutcome

__all__ = ["PopLoop"]


class PopLoop:
    """One loop: asking for the next message acknowledges the one before, leaving gives it back."""

    def __init__(self, run: PopRun, auto_ack: bool) -> None:
        """Without *auto_ack* the application acknowledges, and keeps what it was given."""
        self._run = run
        self._auto_ack = auto_ack
        self._message: ReceivedMessage | None = None

    def __aiter__(self) -> PopLoop:
        return self

    async def __anext__(self) -> ReceivedMessage:
        before, self._message = self._message, None
        if before is not None and self._mine(before) is not None:
            self._run.acks.add(before)
            self._run.settled(before, ConsumeOutcome.SUCCESS)
        taken = await self._run.next()
        if taken is None:
            raise StopAsyncIteration
        self._run.handed([taken])
        message, until_s = taken
        if self._auto_ack:
            self._message = message
            self._run.in_loop[key_of(message)] = until_s
        return message

    def _mine(self, message: ReceivedMessage) -> float | None:
        """When *message* comes back; None where the application acknowledged it, or had it come again, by itself."""
        return self._run.in_loop.pop(key_of(message), None)

    def __del__(self) -> None:
        if self._message is not None:
            until_s = self._mine(self._message)
            if until_s is not None:
                self._run.settled(self._message, ConsumeOutcome.GIVEN_BACK)
                self._run.give_back(self._message, until_s)
