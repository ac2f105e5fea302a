"""In-flight popped messages: batched acknowledgements, and renewals of the invisible time.

Acknowledgements are collected while a request is in progress, and sent together in the next one. If a broker is
disconnected, they are retried every second until the invisible time of the message ends. A renewal starts after half of
the invisible time. An acknowledgement waits for a running renewal of the message, because it changes the receipt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import attrs

from gantrymq.client.calls.outages import Outages
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.calls import PopCalls
from gantrymq.client.pop.receipts import receipt_of
from gantrymq.client.reading.queue_reading import AGAIN_S, is_transient
from gantrymq.errors import ClientError, GantryError
from gantrymq.model.properties import POP_CK
from gantrymq.world import Clock

logger = logging.getLogger("gantrymq.client")

Key = tuple[str, str, int, int]  # kind of topic, broker, queue, offset: equal for all receipts of a message

Job = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]

_MAX_ACKS: Final = 1000  # acknowledgements per request
_CHECKS: Final = 4  # checks for messages to renew, per invisible time


def key_of(message: ReceivedMessage) -> Key:
    """Return the key of a popped message. Raises ClientError: the message was not popped."""
    receipt = receipt_of(message)
    return receipt.kind, receipt.broker_name, receipt.queue_id, receipt.queue_offset


@attrs.define
class _Renewed:
    message: ReceivedMessage
    since_s: float
    until_s: float  # end of the invisible time
    renewing: asyncio.Task[None] | None = None


class InvisibleTimeRenewals:
    """Renewals of one consumer; does nothing if *renew_for_s* is None."""

    def __init__(
        self,
        calls: PopCalls,
        clock: Clock,
        job: Job,
        outages: Outages,
        invisible_s: float,
        renew_for_s: float | None,
    ) -> None:
        """Keep messages invisible for *renew_for_s* seconds, *invisible_s* seconds per renewal."""
        self._outages = outages
        self._calls = calls
        self._clock = clock
        self._job = job
        self._invisible_s = invisible_s
        self._renew_for_s = renew_for_s
        self._renewed: dict[Key, _Renewed] = {}

    def add(self, messages: Iterable[ReceivedMessage], until_s: float) -> None:
        """Renew *messages*, which are invisible until *until_s*."""
        if self._renew_for_s is None:
            return
        now = self._clock.monotonic()
        for message in messages:
            self._renewed[key_of(message)] = _Renewed(message, now, until_s)

    async def remove(self, message: ReceivedMessage) -> None:
        """Stop renewing *message*; on return its receipt is final."""
        entry = self._renewed.pop(key_of(message), None)
        if entry is not None and entry.renewing is not None:
            await asyncio.wait((entry.renewing,))
            if message is not entry.message:
                message.properties[POP_CK] = entry.message.properties[POP_CK]

    def until_s(self, message: ReceivedMessage, else_s: float) -> float:
        """Return the end of the invisible time: *else_s*, or later after a renewal."""
        entry = self._renewed.get(key_of(message))
        return else_s if entry is None else entry.until_s

    async def run(self) -> None:
        """Renew messages until cancelled."""
        while True:
            await self._clock.sleep(self._invisible_s / _CHECKS)
            now = self._clock.monotonic()
            for key, entry in list(self._renewed.items()):
                if entry.renewing is not None or entry.until_s - now > self._invisible_s / 2:
                    continue
                if now >= entry.until_s or now - entry.since_s >= (self._renew_for_s or 0):
                    del self._renewed[key]
                    logger.warning(
                        "message %s is not finished after %g s and is delivered again",
                        entry.message.message_id,
                        now - entry.since_s,
                    )
                    continue
                entry.renewing = self._job(self._renew(entry))

    async def _renew(self, entry: _Renewed) -> None:
        begun = self._clock.monotonic()
        try:
            receipt = await self._calls.change(receipt_of(entry.message), round(self._invisible_s * 1000))
        except GantryError as problem:
            self._outages.failed(f"renewing popped messages of {entry.message.topic}", problem)
        else:
            entry.message.properties[POP_CK] = str(receipt)
            entry.until_s = begun + self._invisible_s
        finally:
            entry.renewing = None


class AckBuffer:
    """Collects the acknowledgements of one consumer's loops."""

    def __init__(
        self,
        calls: PopCalls,
        renewals: InvisibleTimeRenewals,
        clock: Clock,
        job: Job,
        outages: Outages,
        invisible_s: float,
    ) -> None:
        """Create the buffer; a message that cannot be acknowledged within *invisible_s* seconds is dropped."""
        self._outages = outages
        self._calls = calls
        self._renewals = renewals
        self._clock = clock
        self._job = job
        self._invisible_s = invisible_s
        self._waiting: list[tuple[ReceivedMessage, float]] = []  # with the time of `add`
        self._sending: asyncio.Task[None] | None = None

    def add(self, message: ReceivedMessage) -> None:
        """Acknowledge *message* soon."""
        self._waiting.append((message, self._clock.monotonic()))
        if self._sending is None:
            self._sending = self._job(self._send())

    async def close(self) -> None:
        """Send the remaining acknowledgements, without further retries."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        while self._waiting:
            try:
                await self._send_some()
            except ClientError as problem:
                self._give_up(self._waiting, problem)
                self._waiting = []

    async def _send(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._send_some()
                except ClientError as problem:
                    late = self._clock.monotonic() - self._invisible_s
                    lost = [each for each in self._waiting if not is_transient(problem) or each[1] <= late]
                    self._waiting = [each for each in self._waiting if is_transient(problem) and each[1] > late]
                    self._give_up(lost, problem)
                    await self._clock.sleep(AGAIN_S)
        finally:
            self._sending = None

    async def _send_some(self) -> None:
        """Send the waiting acknowledgements; they stay in the buffer if this raises or is cancelled."""
        batch = self._waiting[:_MAX_ACKS]
        for message, _ in batch:
            await self._renewals.remove(message)
        await self._calls.ack([receipt_of(message) for message, _ in batch])
        del self._waiting[: len(batch)]

    def _give_up(self, lost: list[tuple[ReceivedMessage, float]], problem: ClientError) -> None:
        if lost:
            first = lost[0][0]
            logger.info("%d messages, %s first, were not acknowledged: %s", len(lost), first.message_id, problem)
            self._outages.failed(f"acknowledging popped messages of {first.topic}, which are delivered again", problem)
