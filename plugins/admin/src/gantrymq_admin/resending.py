"""Sends dead letters again, a page at a time.

Target ``group``: the retry topic of the group, so that no other group of the original topic receives a message twice.
The group's consumers receive it as a message of its original topic. This does not work for orderly consumers: brokers
move messages that are sent to the retry topic of such a group to its dead letters at once. The first dead letter is
checked for this. A group that pops has one retry topic per topic, which its broker creates when a message is revived
for the first time; if it exists, dead letters of that topic are sent there.

Target ``topic``: the original topic, so that every group of the topic receives the message, in order or not.

The dead letters of one page are sent concurrently, and the result of each is reported. Letters that were sent again
before are left out (see below), so that a run that failed may be repeated.

A letter was sent again if a copy has the same unique id, and a mark with the letter's place. Copies are searched with
the indexes of brokers (`messageIndexEnable`), in each topic that a letter may be sent to: the retry topics of its group
and its original topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import attrs

from gantrymq.client import Admin, Message, Producer, Reader, ReceivedMessage, SendResult
from gantrymq.errors import ClientError, GantryError, InvalidParameter, NoMessageFound, NoRoute
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq_admin.dead_letters import RESENT_FROM, again, dead_queues, origin_of, pages, place_of, pop_retry_topic


class Letter(Protocol):
    """Facts about a dead letter."""

    @property
    def place(self) -> str:
        """``broker:offset``."""

    @property
    def id(self) -> str:
        """Its unique id."""

    @property
    def origin_topic(self) -> str:
        """Its original topic; empty if unknown."""

    @property
    def since_ms(self) -> int:
        """Its store time."""


class Resent:
    """Finds the copies of dead letters of one group."""

    def __init__(self, admin: Admin, group: str) -> None:
        """Prepare it without a request."""
        self._admin, self._group = admin, group
        self._topics: dict[str, bool] = {}  # whether there is a topic

    async def times(self, letters: Sequence[Letter]) -> dict[str, int]:
        """Return when the last copy of each letter was stored, by place; without letters that were not sent again.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a broker cannot search now: it is not known.
        """
        found = await asyncio.gather(*map(self._time, letters))
        return {letter.place: time for letter, time in zip(letters, found, strict=True) if time is not None}

    async def _time(self, letter: Letter) -> int | None:
        topics = [names.retry_topic(self._group)]
        if letter.origin_topic:
            topics += [pop_retry_topic(self._group, letter.origin_topic), letter.origin_topic]
        times = [await self._in(topic, letter) for topic in topics]
        return max((each for each in times if each is not None), default=None)

    async def _in(self, topic: str, letter: Letter) -> int | None:
        if topic not in self._topics:
            self._topics[topic] = await self._exists(topic)
        if not self._topics[topic]:
            return None
        begin_ms = letter.since_ms - 1000  # indexes have a resolution of a second
        try:
            copies = await self._admin.query_unique(topic, letter.id, begin_ms, max_body_bytes=0)
        except (NoMessageFound, NoRoute):
            return None
        marked = [each for each in copies if letter.place in each.properties.get(RESENT_FROM, "").split()]
        return max((each.store_timestamp for each in marked), default=None)

    async def _exists(self, topic: str) -> bool:
        try:
            await self._admin.route(topic)
        except (InvalidParameter, NoRoute):
            return False
        return True


@attrs.frozen
class Outcome:
    """The result of one dead letter."""

    place: str  # ``broker:offset``
    result: Literal["sent", "would be sent", "sent before", "left out", "failed"]
    topic: str = ""  # that it was or would be sent to
    reason: str = ""  # why it was left out, or failed


@attrs.frozen
class SoughtLetter:
    """A dead letter whose copies are searched."""

    place: str
    id: str
    origin_topic: str
    since_ms: int

    @staticmethod
    def of(letter: ReceivedMessage, group: str) -> SoughtLetter:
        """Return it for a stored dead letter of *group*."""
        origin = origin_of(letter, group) or ""
        return SoughtLetter(place_of(letter), letter.message_id, origin, letter.store_timestamp)


class Resend:
    """One run, and its results so far.

    Attributes:
        sent: number of letters sent again, or to be sent.
        sent_before: number of letters that were sent again before this run, and not now.
        left_out: number of letters that cannot be sent.
        failed: number of letters whose send failed; they may have been stored if the broker did not answer.
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
        resent: Resent | None,
        report: Callable[[Outcome], object],
    ) -> None:
        """Prepare a run.

        Args:
            group: the group of the letters.
            consumer: checks which topics exist.
            producer: None sends nothing.
            target: ``group``, ``topic``, or ``retry`` for %RETRY%group even if the group popped once.
            resent: finds the letters that were sent again before; None sends these once more.
            report: receives the result of each letter.
        """
        self._group = group
        self._consumer = consumer
        self._producer = producer
        self._target = target
        self._resent = resent
        self._pops: dict[str, bool] = {}  # by topic, whether the group has a retry topic of pop for it
        self._report = report
        self._ends: dict[str, int] | None = None  # end of the dead letters before the first send
        self._tried = target == "topic" or producer is None  # whether retries are known to arrive
        self.sent = self.sent_before = self.left_out = self.failed = 0
        self.by_topic: dict[str, int] = {}
        self.next_offset: dict[str, int] = {}

    @property
    def tried(self) -> int:
        """The number of letters that were not sent before."""
        return self.sent + self.left_out + self.failed

    async def page(self, letters: Sequence[ReceivedMessage]) -> None:
        """Send *letters*, and report each.

        Raises:
            ClientError: nothing of this page was sent, because the target topic does not take it, or it is not known
                which letters were sent before.
        """
        for origin in {origin_of(letter, self._group) for letter in letters} - self._pops.keys():
            if origin is not None:
                self._pops[origin] = self._target == "group" and await self._exists(origin)
        new = await self._not_sent_before(letters)
        ready = [(letter, message) for letter in new if (message := self._message(letter)) is not None]
        while ready and not self._tried:
            first, *ready = ready
            before = self.sent
            await self._send([first])
            if self.sent > before:
                await self._look_for_return(first[0])
                self._tried = True
        await self._send(ready)
        for letter in letters:
            self.next_offset[letter.broker_name] = letter.queue_offset + 1

    async def _not_sent_before(self, letters: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        """Return the letters to send; report the others."""
        if self._resent is None:
            return letters
        try:
            known = await self._resent.times([SoughtLetter.of(letter, self._group) for letter in letters])
        except ClientError as problem:
            raise ClientError(f"it is not known which dead letters were sent again before: {problem}") from problem
        for place in known:
            self._report(Outcome(place, "sent before"))
        self.sent_before += len(known)
        return [letter for letter in letters if place_of(letter) not in known]

    def _message(self, letter: ReceivedMessage) -> Message | None:
        try:
            return again(letter, self._topic(letter))
        except ClientError as problem:
            self._report(Outcome(place_of(letter), "left out", reason=str(problem)))
            self.left_out += 1
            return None

    def _topic(self, letter: ReceivedMessage) -> str:
        """Return the target topic of a letter. Raises ClientError: no topic is known from which its group would receive
        it, or it is a system topic."""
        origin, where = origin_of(letter, self._group), place_of(letter)
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
            place, topic = place_of(letter), message.topic
            if isinstance(outcome, GantryError):
                self.failed += 1
                self._report(Outcome(place, "failed", topic, str(outcome)))
                continue
            if isinstance(outcome, BaseException):
                raise outcome
            self.sent += 1
            self.by_topic[topic] = self.by_topic.get(topic, 0) + 1
            self._report(Outcome(place, "sent" if self._producer is not None else "would be sent", topic))

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
