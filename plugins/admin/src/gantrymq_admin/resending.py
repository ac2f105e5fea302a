"""Sends dead letters again, a page at a time.

Target ``group``: the retry topic of the group, so that no other group of the original topic receives a message twice.
The group's consumers receive it as a message of its original topic. This does not work for orderly consumers: brokers
move messages that are sent to the retry topic of such a group to its dead letters at once. The first dead letter is
checked for this. A group that pops has one retry topic per topic, which its broker creates when a message is revived
for the first time; if it exists, dead letters of that topic are sent there.

Target ``topic``: the original topic, so that every group of the topic receives the message, in order or not.

The dead letters of one page are sent concurrently. After an error, continue with the first that was not sent; later
ones of its page may have been sent already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from gantrymq.client import Producer, Reader, SendResult
from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.errors import ClientError, GantryError, InvalidParameter, NoRoute
from gantrymq.model import names
from gantrymq.model import properties as props
from gantrymq_admin.dead_letters import again, dead_queues, origin_of, pages, pop_retry_topic


class Resend:
    """One run, and its results so far.

    Attributes:
        seen: number of letters, sent or left out.
        sent: number of letters sent again, or to be sent.
        left_out: number of letters that cannot be sent.
        by_topic: number of letters sent to each topic.
        next_offset: broker to the queue offset after the last letter seen.
    """

    def __init__(
        self,
        group: str,
        consumer: Reader,
        producer: Producer | None,
        *,
        target: str,
        warn: Callable[[str], object],
    ) -> None:
        """Prepare a run.

        Args:
            group: the group of the letters.
            consumer: checks which topics exist.
            producer: None sends nothing.
            target: ``group``, ``topic``, or ``retry`` for %RETRY%group even if the group popped once.
            warn: receives a message about each letter that is left out.
        """
        self._group = group
        self._consumer = consumer
        self._producer = producer
        self._target = target
        self._pops: dict[str, bool] = {}  # by topic, whether the group has a retry topic of pop for it
        self._warn = warn
        self._ends: dict[str, int] | None = None  # end of the dead letters before the first send
        self._tried = target == "topic" or producer is None  # whether retries are known to arrive
        self.seen = self.sent = self.left_out = 0
        self.by_topic: dict[str, int] = {}
        self.next_offset: dict[str, int] = {}

    async def page(self, letters: Sequence[ReceivedMessage]) -> None:
        """Send *letters*, which are all of one broker.

        Raises:
            ClientError: a send failed; the message has the number sent, and where to continue.
        """
        for origin in {origin_of(letter, self._group) for letter in letters} - self._pops.keys():
            if origin is not None:
                self._pops[origin] = self._target == "group" and await self._exists(origin)
        ready = [(letter, message) for letter in letters if (message := self._message(letter)) is not None]
        if ready and not self._tried:
            await self._send(ready[:1])
            await self._look_for_return(ready[0][0])
            self._tried = True
            ready = ready[1:]
        await self._send(ready)
        self.seen += len(letters)
        if letters:
            self.next_offset[letters[-1].broker_name] = letters[-1].queue_offset + 1

    def _message(self, letter: ReceivedMessage) -> Message | None:
        try:
            return again(letter, self._topic(letter))
        except ClientError as problem:
            self._warn(str(problem))
            self.left_out += 1
            return None

    def _topic(self, letter: ReceivedMessage) -> str:
        """Return the target topic of a letter. Raises ClientError: no topic is known from which its group would receive
        it, or it is a system topic."""
        origin, where = origin_of(letter, self._group), f"{letter.broker_name}:{letter.queue_offset}"
        if self._target == "topic":
            if origin is None:
                raise ClientError(
                    f"the dead letter at {where} does not contain its topic (RETRY_TOPIC); send it with --to group"
                )
            if names.is_system_topic(origin):
                raise ClientError(
                    f"the dead letter at {where} is of {origin}, which servers and clients write to alone"
                )
            return origin
        if origin is None or self._target == "retry":
            return names.retry_topic(self._group)
        if self._pops[origin]:
            return pop_retry_topic(self._group, origin)
        if letter.properties[props.RETRY_TOPIC] != origin:
            raise ClientError(
                f"the dead letter at {where} was popped, and no name server knows "
                f"{pop_retry_topic(self._group, origin)}, which clients could send to (enableRetryTopicV2=true makes "
                "another); send it with --to topic"
            )
        return names.retry_topic(self._group)

    async def _send(self, ready: Sequence[tuple[ReceivedMessage, Message]]) -> None:
        if self._producer is None:
            outcomes: Sequence[SendResult | BaseException | None] = [None] * len(ready)
        else:
            if ready and self._ends is None:
                known = await dead_queues(self._consumer, self._group)
                self._ends = {each.queue.broker_name: each.max_offset for each in known}
                await self._look_for_topic(ready[0][1].topic)
            sends = [self._producer.send(message) for _, message in ready]
            outcomes = await asyncio.gather(*sends, return_exceptions=True)
        for (letter, message), outcome in zip(ready, outcomes, strict=True):
            if isinstance(outcome, GantryError):
                place = f"{letter.broker_name}:{letter.queue_offset}"
                raise ClientError(
                    f"the dead letter at {place} could not be sent again: {outcome}; {self.sent} were; continue with "
                    f"--broker {letter.broker_name} --from-offset {letter.queue_offset}"
                ) from outcome
            if isinstance(outcome, BaseException):
                raise outcome
            self.sent += 1
            self.by_topic[message.topic] = self.by_topic.get(message.topic, 0) + 1

    async def _exists(self, origin: str) -> bool:
        """Return whether the group has a retry topic of pop for a topic."""
        try:
            await self._consumer.queues(pop_retry_topic(self._group, origin))
        except (InvalidParameter, NoRoute):
            return False
        return True

    async def _look_for_topic(self, topic: str) -> None:
        try:
            await self._consumer.queues(topic)
        except NoRoute as problem:
            hint = "" if self._target == "topic" else "; a consumer of the group makes it when it starts"
            raise NoRoute(f"nothing was sent again: {problem}{hint}") from None

    async def _look_for_return(self, letter: ReceivedMessage) -> None:
        """Check whether a message sent to the retry topic became a dead letter without being consumed."""
        for there in await dead_queues(self._consumer, self._group):
            before = (self._ends or {}).get(there.queue.broker_name, 0)
            async for page in pages(self._consumer, there.queue, before, there.max_offset):
                if any(each.message_id == letter.message_id and not each.reconsume_times for each in page):
                    raise ClientError(
                        f"group {self._group} consumes in order: its broker puts what is sent to its retry topic among "
                        "the dead letters again, so 1 letter is there twice now; send them with --to topic"
                    )
