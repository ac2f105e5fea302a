"""State of a started pop consumer: pops in progress, undelivered messages, and the iterator that delivers them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

import attrs

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.ack_buffer import AckBuffer, InvisibleTimeRenewals, Key, key_of
from gantrymq.client.pop.calls import PopCalls, PopParameters, PopResult
from gantrymq.client.pop.receipts import receipt_of
from gantrymq.client.reading.queue_reading import AGAIN_S, is_transient
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller, UnsettledMessages
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.errors import ClientError, GantryError
from gantrymq.model.properties import POP_CK
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

logger = logging.getLogger("gantrymq.client")

PoppedMessage = tuple[ReceivedMessage, float]  # with the end of its invisible time, in seconds of the clock

ROUTE_S: Final = 30.0  # between queries for the brokers of the topic
_MIN_PRUNE: Final = 1000  # entries of `_reported` before expired ones are removed
_RETURN_MS: Final = 1_000  # invisible time of undelivered messages after `close`


class PopRun:
    """Created when the consumer starts, ended once."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        subscription: Subscription,
        parameters: PopParameters,
        renew_for_s: float | None,
        hooks: ConsumeHookCaller | None,
    ) -> None:
        """*parameters* are used by loops; *hooks* are called for delivered messages."""
        clock = instance.world.clock
        self._instance = instance
        self._clock = clock
        self._topic = subscription.topic
        self._parameters = parameters
        self.calls = PopCalls(instance, group, subscription)
        invisible_s = parameters.invisible_ms / 1000
        self.renewals = InvisibleTimeRenewals(
            self.calls, clock, instance.job, instance.outages, invisible_s, renew_for_s
        )
        self.ack_buffer = AckBuffer(self.calls, self.renewals, clock, instance.job, instance.outages, invisible_s)
        self.in_iterators: dict[Key, float] = {}  # unfinished messages of loops, with the end of their invisible time
        self.closing = False
        self._unsettled = None if hooks is None else UnsettledMessages(hooks)
        self._reported: dict[Key, float] = {}  # messages reported to hooks, with the end of their invisible time
        self._prune_above = _MIN_PRUNE
        self._ready: deque[PoppedMessage] = deque()
        self._pops: dict[str, asyncio.Task[tuple[PopResult, float]]] = {}  # by broker
        self._attempts: dict[str, str] = {}  # ids of ordered pops without a response, by broker
        self._attempt_count = 0
        self._brokers: tuple[float, tuple[str, ...]] = (0.0, ())  # with the time of the query
        self._jobs = [instance.job(self.renewals.run())] if renew_for_s is not None else []

    async def pop(self, parameters: PopParameters) -> tuple[list[PoppedMessage], bool]:
        """Return messages of the first broker that has some, and whether a broker has too many waiting pops.

        With several brokers, messages of the others are returned by the next call.

        Raises:
            ClientError: no broker could be reached, or one refuses.
        """
        names = await self._broker_names()
        if self.closing:  # `finish` must know all pops in progress
            return [], False
        for name in names:
            if name not in self._pops:
                self._pops[name] = asyncio.ensure_future(self._pop_at(name, parameters))
        found, full = list[PoppedMessage](), False
        problem: ClientError | None = None
        while self._pops and not found:
            await asyncio.wait(self._pops.values(), return_when=asyncio.FIRST_COMPLETED)
            for name, task in list(self._pops.items()):
                if not task.done():
                    continue
                del self._pops[name]
                if task.cancelled():
                    continue
                error = task.exception()
                if error is None:
                    result, until_s = task.result()
                    found += [(message, until_s) for message in result.messages if self._clock.monotonic() < until_s]
                    full |= result.full
                elif not isinstance(error, ClientError):
                    raise error
                else:
                    problem = error
        if problem is not None and not found:
            raise problem
        if problem is not None:
            self._instance.outages.failed(f"popping {self._topic}", problem)
        return found, full

    async def _pop_at(self, name: str, parameters: PopParameters) -> tuple[PopResult, float]:
        if parameters.orderly:
            self._attempt_count += 1
            attempt = self._attempts.setdefault(name, f"{self._instance.client_id}-{self._attempt_count}")
            parameters = attrs.evolve(parameters, attempt_id=attempt)
        result = await self.calls.pop(name, parameters)
        self._attempts.pop(name, None)
        until_s = self._clock.monotonic() + parameters.invisible_ms / 1000
        self.renewals.add(result.messages, until_s)
        for message in result.unwanted:
            self.ack_buffer.add(message)
        return result, until_s

    async def _broker_names(self) -> tuple[str, ...]:
        at_s, names = self._brokers
        now = self._clock.monotonic()
        if not names or now - at_s > ROUTE_S:
            queues = await self._instance.routes.readable_queues(self._topic)
            names = tuple(sorted({queue.broker_name for queue in queues}))
            self._brokers = now, names
        return names

    # --- loops --------------------------------------------------------------------------------------------------------

    async def next_message(self) -> PoppedMessage | None:
        """Return the next message for a loop, None when closing. Raises ClientError: a broker refuses the pop."""
        while not self.closing:
            popped = self.take_ready()
            if popped is not None:
                return popped
            try:
                found, full = await self.pop(self._parameters)
            except ClientError as problem:
                if not is_transient(problem):
                    raise
                self._instance.outages.failed(f"popping {self._topic}", problem)
                await self._clock.sleep(AGAIN_S)
                continue
            self._ready.extend(found)
            if full and not found:
                await self._clock.sleep(AGAIN_S)
        return None

    def take_ready(self) -> PoppedMessage | None:
        """Return a waiting message whose invisible time has not ended, if any."""
        while self._ready:
            message, until_s = self._ready.popleft()
            until_s = self.renewals.until_s(message, until_s)
            if self._clock.monotonic() < until_s:
                return message, until_s
        return None

    def give_back(self, message: ReceivedMessage, until_s: float) -> None:
        """Keep *message* for the next call."""
        self._ready.appendleft((message, until_s))

    def report_delivered(self, popped: list[PoppedMessage]) -> None:
        """Report messages to hooks; messages whose invisible time ended are dropped from the table."""
        if self._unsettled is None:
            return
        for message, until_s in popped:
            key = key_of(message)
            self._reported[key] = until_s
            self._unsettled.handed(MessageQueue(self._topic, key[1], key[2]), [(key, message)])
        if len(self._reported) > self._prune_above:
            now = self._clock.monotonic()
            self._reported = {key: until_s for key, until_s in self._reported.items() if until_s > now}
            self._prune_above = max(_MIN_PRUNE, 2 * len(self._reported))
            self._unsettled.keep_only(self._reported)

    def report_settled(self, message: ReceivedMessage, outcome: ConsumeOutcome) -> None:
        """Report the outcome of *message* to hooks."""
        if self._unsettled is not None:
            key = key_of(message)
            self._reported.pop(key, None)
            self._unsettled.settled(key, outcome)

    async def change(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """Set the invisible time of *message*, counted from now. Raises as `PopCalls`."""
        self.in_iterators.pop(key_of(message), None)
        await self.renewals.remove(message)
        message.properties[POP_CK] = str(await self.calls.change(receipt_of(message), invisible_ms))

    # --- the end ------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Stop popping, send acknowledgements, and let undelivered messages become visible at once."""
        self.closing = True  # `pop` starts no more requests
        for task in self._pops.values():
            task.cancel()
        await asyncio.gather(*self._pops.values(), return_exceptions=True)
        await self.ack_buffer.close()
        left = [message for message, _ in self._ready]
        for task in self._pops.values():
            if not task.cancelled() and task.exception() is None:  # popped, but never requested
                left += task.result()[0].messages
        self._ready.clear()
        self._pops.clear()
        await asyncio.gather(*map(self._return, left))

    async def end(self) -> None:
        """Stop all tasks; acknowledgements that are not sent yet are lost."""
        self.closing = True
        tasks = (*self._jobs, *self._pops.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._unsettled is not None:
            self._unsettled.keep_only(())

    async def _return(self, message: ReceivedMessage) -> None:
        try:
            await self.change(message, _RETURN_MS)
        except GantryError as problem:
            logger.info("message %s is delivered again after its invisible time: %s", message.message_id, problem)


class PopIterator:
    """Async iterator over popped messages.

    Requesting the next message acknowledges the one before; a loop that is left gives its message back.
    """

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
