"""The facts of one group: its position, members, subscription, and its copies of the message.

The subscription: tags are compared here. Every other expression is evaluated by the broker: a pull of one message from
the message's queue offset, as a group of tools, returns the message only if the expression matches it. Needs no filter
in this process, and works with Java brokers if ``enablePropertyFilter`` is true.

Light queues (LMQ): a light queue lists records of another topic under a name and an offset of its own, so a group that
reads it does not appear among the groups of the message's topic. Failed messages of light queues are retried by their
clients, without copies at the broker.

Source: apache/rocketmq store/.../LmqDispatch.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final

import attrs

from gantrymq.client import Admin, PullStatus, Reader, ReceivedMessage
from gantrymq.client.admin import GroupClients, QueueProgress
from gantrymq.errors import ClientError
from gantrymq.plugin import names
from gantrymq.plugin.client import parse_tags
from gantrymq.plugin.model import LIGHT_QUEUE_ID, TAG, MessageQueue, Subscription, light_queue_offsets
from gantrymq_admin.consumption.copies import copy_of, is_copy_of
from gantrymq_admin.consumption.fact_queries import FactAsking, Found, Routes, addresses_of, records_at
from gantrymq_admin.consumption.facts import Copy, Fact, Fit, GroupFacts, MemberPosition, MessageFacts, Pop, Stage, Try
from gantrymq_admin.consumption.pops import Pops
from gantrymq_admin.progress import committed_at

_SCANNED: Final = 1  # messages asked for
_MOST_MEMBERS: Final = 16  # members asked for their positions
BROADCASTING: Final = "BROADCASTING"


def fit_of_tags(subscription: Subscription, tag: str | None) -> Fit:
    """Return whether a subscription by tags matches; UNKNOWN if it is of another type."""
    if subscription.type != TAG or subscription.class_filter:
        return Fit.UNKNOWN
    try:
        tags = parse_tags(subscription.expression)
    except ClientError:
        return Fit.UNKNOWN
    return Fit.MATCHES if not tags or tag in tags else Fit.DIFFERS


async def fit_of_expression(reader: Reader, subscription: Subscription, queue: MessageQueue, queue_offset: int) -> Fit:
    """Return whether the broker's filter lets the message through; UNKNOWN if the message is no longer in the queue.

    Raises as `Reader.pull`: the broker does not evaluate the expression.
    """
    result = await reader.pull(
        queue,
        queue_offset,
        max_count=_SCANNED,
        expression=subscription.expression,
        expression_type=subscription.type,
    )
    if result.status is PullStatus.FOUND:
        return Fit.MATCHES if result.messages[0].queue_offset == queue_offset else Fit.DIFFERS
    if result.status is PullStatus.NO_MATCHED_MSG and result.min_offset <= queue_offset < result.next_offset:
        return Fit.DIFFERS
    return Fit.UNKNOWN


@attrs.frozen
class LightReader:
    """A group that reads a light queue."""

    queue: str  # name of the light queue
    queue_offset: int  # of the message in it
    group: str
    committed: int | None  # None: never committed, or not known

    @property
    def passed(self) -> bool:
        """Whether the position is after the message: consumed, or skipped."""
        return self.committed is not None and self.committed > self.queue_offset


async def light_readers(
    admin: Admin, asking: FactAsking, message: ReceivedMessage, broker: str, brokers: Mapping[str, str]
) -> tuple[LightReader, ...]:
    """Return the groups that read the message's light queues at its broker."""
    address = brokers.get(broker)
    places = light_queue_offsets(message.topic, message.properties)
    if address is None or not places:
        return ()

    async def of_queue(name: str, queue_offset: int) -> list[LightReader]:
        answer = await asking.ask(Fact.GROUPS, broker, admin.groups_of_topic(address, name))
        groups = () if answer is None else answer[0]
        queue = MessageQueue(name, broker, LIGHT_QUEUE_ID)
        committed = await asyncio.gather(
            *(asking.ask(Fact.COMMITTED, broker, committed_at(admin, address, group, queue), group) for group in groups)
        )
        return [
            LightReader(name, queue_offset, group, None if at is None else at[0])
            for group, at in zip(groups, committed, strict=True)
            if group != name  # RocketMQ 5 lists the topic itself, see `gather`
        ]

    found = await asyncio.gather(*(of_queue(name, queue_offset) for name, queue_offset in places))
    return tuple(reader for readers in found for reader in readers)


@attrs.define
class GroupSurvey:
    """Values that the surveys of all groups share."""

    admin: Admin
    reader: Reader
    asking: FactAsking
    message: MessageFacts
    brokers: Mapping[str, str]  # of the message's topic: name to address
    routes: Routes
    delayed: Mapping[str, tuple[Copy, ...]]  # by group
    tries: Mapping[str, tuple[Try, ...]]  # by group
    unknown: frozenset[Fact]  # for every group
    keeps_pulls: bool  # whether the message's broker keeps the pulled offset
    pops: Pops  # pops at the message's broker

    async def committed(self, group: str) -> tuple[int | None] | None:
        """Return the committed offset in a tuple; None if it is not known."""
        queue = self.message.queue
        address = self.brokers.get(queue.broker_name)
        if address is None:
            return None
        asked = committed_at(self.admin, address, group, queue)
        return await self.asking.ask(Fact.COMMITTED, queue.broker_name, asked, group)

    async def facts(self, group: str, committed: tuple[int | None] | None) -> GroupFacts:
        """Return all facts of a group; *committed* is the result of `committed`."""
        unknown = set(self.unknown)
        if committed is None:
            unknown.add(Fact.COMMITTED)
        pulled, clients, retries, dead = await asyncio.gather(
            self._pulled(group, committed, unknown),
            self._clients(group, unknown),
            self._copies(group, self._retry_topics(group), Stage.RETRY, Fact.RETRIES, unknown),
            self._copies(group, [names.dead_letter_topic(group)], Stage.DEAD_LETTER, Fact.DEAD_LETTERS, unknown),
        )
        retries = await self._with_positions(group, retries, unknown)
        copies = sorted((*self.delayed.get(group, ()), *retries, *dead), key=lambda copy: copy.order)
        tries = self.tries.get(group, ())
        pop = self._pop(group, copies[-1] if copies else None)
        facts = GroupFacts(
            group,
            committed=committed[0] if committed is not None else None,
            pulled=pulled,
            copies=tuple(copies),
            tries=tries,
            pops=pop is not None or any(copy.popped for copy in copies) or self._has_pop_topic(group),
            pop=pop,
        )
        if clients is not None:
            facts = attrs.evolve(
                facts,
                model=clients.message_model,
                consume_type=clients.consume_type,
                members=tuple(each.client_id for each in clients.clients),
                subscription=next(
                    (each for each in clients.subscriptions if each.topic == self.message.queue.topic), None
                ),
                pops=facts.pops or clients.pops,
            )
        if not copies and pop is None and not any(each.success for each in tries):
            facts = await self._undecided(facts, unknown)
        return attrs.evolve(facts, unknown=frozenset(unknown))

    def _pop(self, group: str, newest: Copy | None) -> Pop | None:
        """Return the last pop of the newest copy, or of the message itself."""
        queue, queue_offset = self.message.queue, self.message.queue_offset
        if newest is None:
            return self.pops.of(group, queue.topic, queue.queue_id, queue_offset)
        if newest.popped and newest.broker == queue.broker_name:
            return self.pops.of(group, newest.topic, newest.queue_id, newest.queue_offset)
        return None

    async def _undecided(self, facts: GroupFacts, unknown: set[Fact]) -> GroupFacts:
        """Add the facts that are needed only for groups whose copies and tries decide nothing."""
        facts = attrs.evolve(facts, fit=await self._fit(facts, unknown))
        passed = (facts.committed or 0) > self.message.queue_offset
        if facts.model == BROADCASTING or (not passed and facts.fit is not Fit.DIFFERS and not facts.pops):
            return attrs.evolve(facts, positions=await self._positions(facts, unknown))
        return facts

    async def _pulled(self, group: str, committed: tuple[int | None] | None, unknown: set[Fact]) -> int | None:
        """Return the pulled offset; it is not asked for if the committed one is after the message already."""
        queue = self.message.queue
        address = self.brokers.get(queue.broker_name)
        passed = committed is not None and (committed[0] or 0) > self.message.queue_offset
        if address is None or passed or not self.keeps_pulls:
            return None
        answer = await self.asking.ask(
            Fact.PULLED, queue.broker_name, self.admin.group_progress(address, group, queue.topic), group
        )
        if answer is None:
            unknown.add(Fact.PULLED)
            return None
        progress = answer[0].get(queue)
        return None if progress is None else progress.pulled

    async def _clients(self, group: str, unknown: set[Fact]) -> GroupClients | None:
        broker = self.message.queue.broker_name
        address = self.brokers.get(broker)
        if address is not None:
            answer = await self.asking.ask(Fact.MEMBERS, broker, self.admin.consumer_connections(address, group), group)
            if answer is not None:
                return answer[0]
        unknown.add(Fact.MEMBERS)
        return None

    async def _fit(self, facts: GroupFacts, unknown: set[Fact]) -> Fit:
        subscription, message = facts.subscription, self.message
        if subscription is None:
            return Fit.UNKNOWN
        fit = fit_of_tags(subscription, message.tags)
        if fit is not Fit.UNKNOWN:
            return fit
        answer = await self.asking.ask(
            Fact.FILTER,
            message.queue.broker_name,
            fit_of_expression(self.reader, subscription, message.queue, message.queue_offset),
            facts.group,
        )
        if answer is None:
            unknown.add(Fact.FILTER)
            return Fit.UNKNOWN
        return answer[0]

    async def _positions(self, facts: GroupFacts, unknown: set[Fact]) -> tuple[MemberPosition, ...]:
        """Ask the members: the one that has the queue, or all if they broadcast."""
        queue = self.message.queue
        address = self.brokers.get(queue.broker_name)
        members = dict.fromkeys(facts.members[:_MOST_MEMBERS])
        if address is None or not members:
            return ()
        answers = await asyncio.gather(
            *(
                self.asking.ask(
                    Fact.POSITIONS,
                    queue.broker_name,
                    self.admin.running_info(address, facts.group, client_id),
                    facts.group,
                )
                for client_id in members
            )
        )
        found = []
        for client_id, answer in zip(members, answers, strict=True):
            if answer is None:
                unknown.add(Fact.POSITIONS)
            elif (held := answer[0].queues.get(queue)) is not None and not held.dropped:
                found.append(
                    MemberPosition(
                        client_id,
                        held.committed_offset,
                        held.cached_min_offset,
                        held.cached_max_offset,
                        held.cached_count,
                        held.locked,
                    )
                )
        return tuple(found)

    def _retry_topics(self, group: str) -> list[str]:
        return [names.retry_topic(group), *names.pop_retry_topics(group, self.message.queue.topic)]

    def _has_pop_topic(self, group: str) -> bool:
        topics = self.routes.topics or ()
        return any(each in topics for each in names.pop_retry_topics(group, self.message.queue.topic))

    async def _copies(
        self, group: str, topics: Iterable[str], stage: Stage, fact: Fact, unknown: set[Fact]
    ) -> list[Copy]:
        if not self.message.unique_id:
            return []
        known = filter(self.routes.may_exist, topics)
        found = await asyncio.gather(*(self._copies_in(group, topic, stage, fact, unknown) for topic in known))
        return [copy for copies in found for copy in copies]

    async def _copies_in(self, group: str, topic: str, stage: Stage, fact: Fact, unknown: set[Fact]) -> list[Copy]:
        brokers = await self.asking.ask(fact, "", self.routes.brokers_of(topic), group)
        if brokers is None:
            unknown.add(fact)
            return []
        addresses, message = addresses_of(brokers[0]), self.message
        popped = stage is Stage.RETRY and topic != names.retry_topic(group)

        def records(name: str, address: str) -> Coroutine[Any, Any, Found]:
            return records_at(self.admin, name, address, topic, message.unique_id, message.stored_ms)

        answers = await asyncio.gather(
            *(self.asking.ask(fact, name, records(name, address), group) for name, address in addresses.items())
        )
        found = []
        for name, answer in zip(addresses, answers, strict=True):
            if answer is None:
                unknown.add(fact)
                continue
            if answer[0].problem:
                unknown.add(fact)
                self.asking.incomplete(fact, name, answer[0].problem, group)
            found += [copy_of(each, stage, popped=popped) for each in answer[0].messages if is_copy_of(message, each)]
        return found

    async def _with_positions(self, group: str, retries: list[Copy], unknown: set[Fact]) -> list[Copy]:
        """Add the group's offsets in the queue of the newest copy; only that one can decide."""
        if not retries:
            return retries
        newest = max(retries, key=lambda copy: copy.order)
        rest = [each for each in retries if each is not newest]
        queue = MessageQueue(newest.topic, newest.broker, newest.queue_id)
        answer = await self.asking.ask(Fact.RETRIES, newest.broker, self._progress(group, queue), group)
        if answer is None:
            unknown.add(Fact.RETRIES)
            return retries
        progress = answer[0]
        if progress is None:
            unknown.add(Fact.RETRIES)
            return retries
        return [*rest, attrs.evolve(newest, committed=progress.committed, pulled=progress.pulled)]

    async def _progress(self, group: str, queue: MessageQueue) -> QueueProgress | None:
        address = addresses_of(await self.routes.brokers_of(queue.topic)).get(queue.broker_name)
        if address is None:
            return None
        return (await self.admin.group_progress(address, group, queue.topic)).get(queue)
