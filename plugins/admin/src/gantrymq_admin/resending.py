"""Sends dead letters again, a page at a time.

Target ``group``: the retry topic of the group, so that no other group of the original topic receives a message twice.
The group's consumers receive it as a message of its original topic. This does not work for orderly consumers: brokers
move messages that are sent to the retry topic of such a group to its dead letters at once. The first dead letter is
checked for this. A group that pops has one retry topic per topic, which its broker creates when a message is revived
for the first time; if it exists, dead letters of that topic are sent there.

Target ``topic``: the original topic, so that every group of the topic receives the message, in order or not.

The dead letters of one page are sent concurrently, and the result of each is reported. Letters that were sent again
before (`resent`) are left out, so that a run that failed may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from itertools import count
from types import TracebackType
from typing import Final, Literal, Protocol, Self

import attrs

from gantrymq.client import Admin, Message, MessageQueue, Producer, Reader, ReceivedMessage, Selector, SendResult
from gantrymq.errors import (
    CallTimeout,
    ClientError,
    ConnectionLost,
    GantryError,
    InvalidParameter,
    NoRoute,
)
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.world import Clock
from gantrymq_admin.dead_letters import again, dead_queues, origin_of, pages, place_of, pop_retry_topic
from gantrymq_admin.resend_lock import ResendLock
from gantrymq_admin.resent import Resent, SoughtLetter

_FOUND_S: Final = 3.0  # for brokers to index the last copies
_POLL_S: Final = 0.05
_MOST_NOTED: Final = 200  # letters that were sent since copies were last looked for


@attrs.frozen
class Outcome:
    """The result of one dead letter."""

    place: str  # ``broker:offset``
    result: Literal["sent", "would be sent", "sent before", "left out", "failed", "unknown"]
    topic: str = ""  # that it was or would be sent to
    reason: str = ""  # why it was left out, or failed; for "unknown", why it is not known whether it was sent


class Notes(Protocol):
    """Remembers the sends of a run whose result is not known, so that a later run does not repeat them."""

    def unknown(self, group: str) -> Collection[str]:
        """Return the places of letters of *group* that a send was begun for, without a known result."""

    async def begin(self, group: str, places: Sequence[str], by: str) -> None:
        """Note durably that these letters are being sent. Raises GantryError: they must not be sent."""

    async def end(self, group: str, places: Sequence[str]) -> None:
        """Note that the result of these sends is known."""


_UNKNOWN_BEFORE: Final = "an earlier run sent it and got no answer: it may have been sent again"
_UNKNOWN_NOW: Final = "it may have been sent again, the answer was lost"


def _answer_was_lost(problem: GantryError) -> bool:
    """Return whether a send that failed may have stored the message, because the request was not answered."""
    return isinstance(problem.__cause__ or problem, CallTimeout | ConnectionLost)


class Resend:
    """One run, and its results so far.

    Attributes:
        sent: number of letters sent again, or to be sent.
        sent_before: number of letters that were sent again before this run, and not now.
        left_out: number of letters that cannot be sent.
        failed: number of letters whose send failed: they were not sent.
        unknown: number of letters for which it is not known whether they were sent, now or by an earlier run.
        by_topic: number of letters sent to each topic.
        next_offset: broker to the queue offset after the last letter seen.
    """

    def __init__(
        self,
        group: str,
        consumer: Reader,
        producer: Producer | None,
        admin: Admin,
        clock: Clock,
        *,
        target: str,
        by: str,
        report: Callable[[Outcome], object],
        once_more: bool = False,
        unknown_too: bool = False,
        notes: Notes | None = None,
    ) -> None:
        """Prepare a run, which is a context manager.

        Args:
            group: the group of the letters.
            consumer: checks which topics exist.
            producer: one with ``retries=0``; None sends nothing.
            admin: finds copies, and locks.
            clock: waits for the index.
            target: ``group``, ``topic``, or ``retry`` for %RETRY%group even if the group popped once.
            by: who sends, for the copies.
            report: receives the result of each letter.
            once_more: whether letters that were sent again before are sent once more.
            unknown_too: whether letters are sent for which it is not known whether an earlier run has sent them.
            notes: remembers these letters.
        """
        self._group = group
        self._consumer = consumer
        self._producer = producer
        self._clock = clock
        self._target = target
        self._by = by
        self._resent = Resent(admin, group)
        self._once_more = once_more
        self._unknown_too = unknown_too
        self._notes = notes
        self._lock = ResendLock(admin, clock, group)
        self._pops: dict[str, bool] = {}  # by topic, whether the group has a retry topic of pop for it
        self._report = report
        self._ends: dict[str, int] | None = None  # end of the dead letters before the first send
        self._tried = target == "topic" or producer is None  # whether retries are known to arrive
        self._last: dict[tuple[str, str], list[SoughtLetter]] = {}  # sent last, by topic and broker
        self._noted: dict[tuple[str, str], list[str]] = {}  # places sent, whose copies were not found yet
        self._turns = count()  # of queues
        self._unclear: dict[str, SoughtLetter] = {}  # by place, whose answer was lost now
        self.sent = self.sent_before = self.left_out = self.failed = self.unknown = 0
        self.by_topic: dict[str, int] = {}
        self.next_offset: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        """Lock the dead letters of the group, unless nothing will be sent. Raises ResendBusy, ClientError."""
        if self._producer is not None:
            known = await dead_queues(self._consumer, self._group)
            self._ends = {each.queue.broker_name: each.max_offset for each in known}
            await self._lock.take([each.queue for each in known])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until brokers can find the last copies, at most three seconds, and release the lock."""
        try:
            if kind is None or issubclass(kind, GantryError):
                await self._settle()
        finally:
            await self._lock.release()

    @property
    def tried(self) -> int:
        """The number of letters that were not sent before."""
        return self.sent + self.left_out + self.failed + self.unknown

    async def page(self, letters: Sequence[ReceivedMessage]) -> None:
        """Send *letters*, and report each.

        Raises:
            ClientError: nothing of this page was sent, because the target topic does not take it, or it is not known
                which letters were sent before, or another run has the lock.
            GantryError: nor because the sends cannot be noted.
        """
        await self._lock.renew()
        if sum(map(len, self._noted.values())) >= _MOST_NOTED:
            await self._settle()
            self._noted.clear()  # notes of copies that were not found stay
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
        unknown = set(self._notes.unknown(self._group)) if self._notes is not None else set()
        unknown &= {place_of(letter) for letter in letters}
        if self._once_more and (self._unknown_too or not unknown):
            return letters
        try:
            known = await self._resent.times([SoughtLetter.of(letter, self._group) for letter in letters])
        except ClientError as problem:
            raise ClientError(f"it is not known which dead letters were sent again before: {problem}") from problem
        if self._notes is not None and unknown & known.keys():
            await self._notes.end(self._group, sorted(unknown & known.keys()))
        unknown -= known.keys()
        if self._once_more:
            known = {}
        if self._unknown_too:
            unknown = set()
        for place in known:
            self._report(Outcome(place, "sent before"))
        for place in sorted(unknown):
            self._report(Outcome(place, "unknown", reason=_UNKNOWN_BEFORE))
        self.sent_before += len(known)
        self.unknown += len(unknown)
        return [letter for letter in letters if place_of(letter) not in known and place_of(letter) not in unknown]

    def _message(self, letter: ReceivedMessage) -> Message | None:
        try:
            return again(letter, self._topic(letter), self._by)
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
        if not ready:
            return
        if self._producer is None:
            for letter, message in ready:
                self._count_sent(Outcome(place_of(letter), "would be sent", message.topic))
            return
        if not self.sent + self.failed + self.unknown:
            await self._look_for_topic(ready[0][1].topic)
        places = [place_of(letter) for letter, _ in ready]
        if self._notes is not None:
            await self._notes.begin(self._group, places, self._by)
        sends = [self._producer.send(message, self._beside(letter)) for letter, message in ready]
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        known, last = list[str](), dict[tuple[str, str], list[SoughtLetter]]()
        for (letter, message), outcome in zip(ready, outcomes, strict=True):
            place, topic = place_of(letter), message.topic
            if isinstance(outcome, SendResult):
                last.setdefault((topic, outcome.queue.broker_name), []).append(SoughtLetter.of(letter, self._group))
                self._count_sent(Outcome(place, "sent", topic))
            elif not isinstance(outcome, GantryError):
                raise outcome
            elif _answer_was_lost(outcome):
                self.unknown += 1
                self._unclear[place] = SoughtLetter.of(letter, self._group)
                self._report(Outcome(place, "unknown", topic, f"{_UNKNOWN_NOW}: {outcome}"))
            else:
                known.append(place)
                self.failed += 1
                self._report(Outcome(place, "failed", topic, str(outcome)))
        self._last |= last
        if self._notes is None:
            return
        for key, letters in last.items():
            self._noted.setdefault(key, []).extend(each.place for each in letters)
        if known:
            await self._notes.end(self._group, known)

    def _beside(self, letter: ReceivedMessage) -> Selector:
        """Return a selector of queues at the broker of *letter*, or at others if the topic has none there.

        So a copy can be found wherever its letter can be read, although other brokers are gone from the name servers.
        """

        def select(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
            near = [each for each in queues if each.broker_name == letter.broker_name] or queues
            return near[next(self._turns) % len(near)]

        return select

    def _count_sent(self, outcome: Outcome) -> None:
        self.sent += 1
        self.by_topic[outcome.topic] = self.by_topic.get(outcome.topic, 0) + 1
        self._report(outcome)

    async def _settle(self) -> None:
        """Wait until the copies that were sent last are found, and look whether lost answers belong to stored ones.

        A broker indexes messages in the order of its log, so those that were sent there before are found too, and their
        notes end. The notes of others stay: a broker without an index would find none in the next run either.
        """
        last = dict(self._last)
        sought = [*(each for letters in last.values() for each in letters), *self._unclear.values()]
        until_s = self._clock.monotonic() + _FOUND_S
        try:
            while sought:
                found = await self._resent.copies(sought)
                stored = [place for place in self._unclear if place in found]
                if self._notes is not None and stored:
                    await self._notes.end(self._group, stored)
                for place in stored:
                    del self._unclear[place]
                    self.unknown -= 1
                    self._count_sent(Outcome(place, "sent", found[place][-1].topic))
                sought = [each for each in sought if each.place not in found]
                places = {each.place for each in sought}
                for key in [key for key, letters in last.items() if places.isdisjoint(each.place for each in letters)]:
                    del last[key]
                    if self._notes is not None and (settled := self._noted.pop(key, None)):
                        await self._notes.end(self._group, settled)
                if self._clock.monotonic() >= until_s:
                    return
                if sought:
                    await self._clock.sleep(_POLL_S)
        except ClientError:  # what cannot be found now counts as not found
            return

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
