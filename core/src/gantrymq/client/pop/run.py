"""A pop consumer between its start and its end: pops under way, messages that nobody has taken yet."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

import attrs

from gantrymq.client.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.pop.calls import PopAsked, PopCalls, Popped
from gantrymq.client.pop.keeping import Acks, Key, Renewals, key_of
from gantrymq.client.pop.receipts import receipt_of
from gantrymq.client.queue_reading import AGAIN_S, is_transient
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller, UnsettledMessages
from gantrymq.client.tracing.hooks import ConsumeOutcome
from gantrymq.errors import ClientError, GantryError
from gantrymq.model.properties import POP_CK
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

__all__ = ["PopRun"]

logger = logging.getLogger("gantrymq.client")

Taken = tuple[ReceivedMessage, float]  # and when it comes back, in seconds of the clock

ROUTE_S: Final = 30.0  # after which the topic's brokers are asked for again
_FEW: Final = 1000
BACK_MS: Final = 1_000  # until what nobody took comes again after a close


class PopRun:
    """Made at start, ended once."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        wanted: Subscription,
        asked: PopAsked,
        renew_for_s: float | None,
        hooks: ConsumeHookCaller | None,
    ) -> None:
        """*asked* is what loops ask for; *hooks* are told of what is handed out."""
        clock = instance.world.clock
        self._instance = instance
        self._clock = clock
        self._topic = wanted.topic
        self._asked = asked
        self.calls = PopCalls(instance, group, wanted)
        invisible_s = asked.invisible_ms / 1000
        self.renewals = Renewals(self.calls, clock, instance.job, instance.outages, invisible_s, renew_for_s)
        self.acks = Acks(self.calls, self.renewals, clock, instance.job, instance.outages, invisible_s)
        self.in_loop: dict[Key, float] = {}  # handed out by a loop and not done with: when they come back
        self.closing = False
        self._unsettled = None if hooks is None else UnsettledMessages(hooks)
        self._handed: dict[Key, float] = {}  # of which hooks were told: when they come back
        self._most_handed = _FEW
        self._ready: deque[Taken] = deque()
        self._under_way: dict[str, asyncio.Task[tuple[Popped, float]]] = {}  # by broker
        self._attempts: dict[str, str] = {}  # ids of ordered pops that brought no answer, by broker
        self._made = 0
        self._brokers: tuple[float, tuple[str, ...]] = (0.0, ())  # asked for when
        self._jobs = [instance.job(self.renewals.run())] if renew_for_s is not None else []

    async def pop(self, asked: PopAsked) -> tuple[list[Taken], bool]:
        """What the first broker that has messages gives, and whether brokers had no room for the pop to wait.

        Of several brokers, what others bring meanwhile is there at the next call. Raises ClientError: no broker that
        was asked could be, or one says that it will not.
        """
        names = await self._brokers_now()
        if self.closing:  # `finish` has to know every pop that is under way
            return [], False
        for name in names:
            if name not in self._under_way:
                self._under_way[name] = asyncio.ensure_future(self._pop_at(name, asked))
        found, full = list[Taken](), False
        problem: ClientError | None = None
        while self._under_way and not found:
            await asyncio.wait(self._under_way.values(), return_when=asyncio.FIRST_COMPLETED)
            for name, task in list(self._under_way.items()):
                if not task.done():
                    continue
                del self._under_way[name]
                if task.cancelled():
                    continue
                error = task.exception()
                if error is None:
                    popped, until_s = task.result()
                    found += [(message, until_s) for message in popped.messages if self._clock.monotonic() < until_s]
                    full |= popped.full
                elif not isinstance(error, ClientError):
                    raise error
                else:
                    problem = error
        if problem is not None and not found:
            raise problem
        if problem is not None:
            self._instance.outages.failed(f"popping {self._topic}", problem)
        return found, full

    async def _pop_at(self, name: str, asked: PopAsked) -> tuple[Popped, float]:
        if asked.orderly:
            self._made += 1
            attempt = self._attempts.setdefault(name, f"{self._instance.client_id}-{self._made}")
            asked = attrs.evolve(asked, attempt_id=attempt)
        popped = await self.calls.pop(name, asked)
        self._attempts.pop(name, None)
        until_s = self._clock.monotonic() + asked.invisible_ms / 1000
        self.renewals.begin(popped.messages, until_s)
        for message in popped.unwanted:
            self.acks.add(message)
        return popped, until_s

    async def _brokers_now(self) -> tuple[str, ...]:
        at_s, names = self._brokers
        now = self._clock.monotonic()
        if not names or now - at_s > ROUTE_S:
            queues = await self._instance.routes.readable_queues(self._topic)
            names = tuple(sorted({queue.broker_name for queue in queues}))
            self._brokers = now, names
        return names

    # --- loops --------------------------------------------------------------------------------------------------------

    async def next(self) -> Taken | None:
        """The next message for a loop; None at the end. Raises ClientError: a broker will not let us pop."""
        while not self.closing:
            taken = self.taken()
            if taken is not None:
                return taken
            try:
                found, full = await self.pop(self._asked)
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

    def taken(self) -> Taken | None:
        """A message that waits here and is still ours."""
        while self._ready:
            message, until_s = self._ready.popleft()
            until_s = self.renewals.until_s(message, until_s)
            if self._clock.monotonic() < until_s:
                return message, until_s
        return None

    def give_back(self, message: ReceivedMessage, until_s: float) -> None:
        """It waits here, for whoever asks next."""
        self._ready.appendleft((message, until_s))

    def handed(self, taken: list[Taken]) -> None:
        """The application has these; hooks are told, and what came back unseen meanwhile is forgotten."""
        if self._unsettled is None:
            return
        for message, until_s in taken:
            key = key_of(message)
            self._handed[key] = until_s
            self._unsettled.handed(MessageQueue(self._topic, key[1], key[2]), [(key, message)])
        if len(self._handed) > self._most_handed:
            now = self._clock.monotonic()
            self._handed = {key: until_s for key, until_s in self._handed.items() if until_s > now}
            self._most_handed = max(_FEW, 2 * len(self._handed))
            self._unsettled.keep_only(self._handed)

    def settled(self, message: ReceivedMessage, outcome: ConsumeOutcome) -> None:
        """The application is done with it."""
        if self._unsettled is not None:
            key = key_of(message)
            self._handed.pop(key, None)
            self._unsettled.settled(key, outcome)

    async def change(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """It comes back in *invisible_ms* from now on. Raises as `PopCalls`."""
        self.in_loop.pop(key_of(message), None)
        await self.renewals.end(message)
        message.properties[POP_CK] = str(await self.calls.change(receipt_of(message), invisible_ms))

    # --- the end ------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Pop no more, tell what is acknowledged, let come again at once what nobody took."""
        self.closing = True  # `pop` begins nothing more
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)
        await self.acks.close()
        left = [message for message, _ in self._ready]
        for task in self._under_way.values():
            if not task.cancelled() and task.exception() is None:  # it had come, and nobody had asked for it
                left += task.result()[0].messages
        self._ready.clear()
        self._under_way.clear()
        await asyncio.gather(*map(self._let_come, left))

    async def end(self) -> None:
        """Stop everything; what is not told by now is not."""
        self.closing = True
        tasks = (*self._jobs, *self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._unsettled is not None:
            self._unsettled.keep_only(())

    async def _let_come(self, message: ReceivedMessage) -> None:
        try:
            await self.change(message, BACK_MS)
        except GantryError as problem:
            logger.info("message %s comes again when its time is over: %s", message.message_id, problem)
