"""Who consumed a message: all facts within one deadline, and the verdict on each group.

Every group is asked about with one small request, for its position; the rest is asked only for the groups on the page,
groups with news first. Failed requests are in `Consumption.missing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from gantrymq.client import Admin, Reader, ReceivedMessage
from gantrymq.client.admin import QueueProgress, QueueStats
from gantrymq.errors import BrokerRefused
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.client import BrokerAddresses, EndTransaction
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.remoting import ResponseCode
from gantrymq.plugin.world import Clock
from gantrymq_admin.consumption.copies import (
    Origin,
    Traced,
    delayed_by_group,
    due_ms,
    levels_in,
    origin_of,
    pick_original,
    records_of,
    tries_by_group,
)
from gantrymq_admin.consumption.fact_queries import FactAsking, Routes, addresses_of, records_at
from gantrymq_admin.consumption.facts import Fact, GroupFacts, Kind, MessageFacts, MissingFact, Try
from gantrymq_admin.consumption.groups import GroupSurvey, LightReader, light_readers
from gantrymq_admin.consumption.pops import REVIVE_GROUP, REVIVE_PREFIX, Pops, read_newest
from gantrymq_admin.consumption.verdicts import Reason, Verdict, verdict
from gantrymq_admin.progress import committed_at

DEADLINE_S: Final = 3.0
_MOST_GROUPS: Final = 50
_MOST_LOOKED_AT: Final = 200  # groups
_WITHOUT_PULLS: Final = ("V3", "V4")  # versions of RocketMQ that do not keep the pulled offset
_ORDER: Final = tuple(Reason)


@attrs.frozen
class Consumption:
    """Who consumed a message."""

    kind: Kind  # of the message asked about
    message: MessageFacts | None  # its original; None: no group can receive it yet, or ever
    verdicts: tuple[Verdict, ...] = ()  # of the groups on the page, in the order of `Reason`
    group_count: int = 0  # all groups
    others: tuple[str, ...] = ()  # groups that are not on the page, in the order of pages
    traced: bool = False  # whether the trace has any record of the message
    trace_topics: tuple[str, ...] = ()  # where traces were looked for
    trace: tuple[Traced, ...] = ()  # records of the message, in no order
    transaction: str | None = None  # decision on a half message, if traced: COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW
    due_ms: int | None = None  # delivery time of a delayed message that was not delivered
    light: tuple[LightReader, ...] = ()  # groups that read it through light queues
    missing: tuple[MissingFact, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether everything could be asked."""
        return not self.missing


async def consumers_of(
    admin: Admin,
    reader: Reader,
    message: ReceivedMessage,
    *,
    clock: Clock,
    deadline_s: float = DEADLINE_S,
    start: int = 0,
    most: int = _MOST_GROUPS,
    trace_topics: Sequence[str] = (names.TRACE_TOPIC,),
    brokers: Sequence[BrokerAddresses] | None = None,
    is_only: bool = False,
    group: str | None = None,
) -> Consumption:
    """Return which groups consumed *message*, a page of *most* groups from number *start* on.

    Never raises because a server does not answer: that is in `Consumption.missing`, and a verdict that depends on it
    is UNKNOWN.

    Args:
        admin: sends the requests.
        reader: of any group; pulls single messages for expressions that the broker evaluates, and commits nothing.
        message: a message from any query or pull. If it is a retry, a dead letter, or a delayed or half message, its
            original is looked for.
        clock: measures the deadline.
        deadline_s: time for everything, in seconds.
        start: first group of the page.
        most: maximum groups of the page.
        trace_topics: topics with message traces; clients may use others than the default.
        brokers: all brokers that name servers know; None to ask for them.
        is_only: whether a query of all brokers for the unique id has just returned only *message*.
        group: the only group to ask about, which is not looked for; None for all.
    """
    inquiry = _Inquiry(admin, reader, FactAsking(clock, deadline_s), tuple(trace_topics), group)
    await inquiry.look_up(brokers)
    return await inquiry.consumption(message, start, most, is_only=is_only)


@attrs.define
class _Traces:
    """The records of the trace topics about one message."""

    found: bool
    records: tuple[Traced, ...]
    tries: Mapping[str, tuple[Try, ...]]


class _Inquiry:
    """One call of `consumers_of`."""

    def __init__(
        self, admin: Admin, reader: Reader, asking: FactAsking, trace_topics: tuple[str, ...], group: str | None
    ) -> None:
        self._admin, self._reader, self._asking, self._trace_topics = admin, reader, asking, trace_topics
        self._group = group
        self._unknown: set[Fact] = set()  # for every group
        self._replicated: set[str] = set()  # names of brokers with replicas, whose pulls the master does not know
        self._routes = Routes(admin, None, None)

    async def look_up(self, brokers: Sequence[BrokerAddresses] | None) -> None:
        """Ask which topics there are, and which brokers unless these are known."""

        async def listed() -> Sequence[BrokerAddresses]:
            return (await self._admin.clusters()).brokers if brokers is None else brokers

        every, topics = await asyncio.gather(
            self._asking.ask(Fact.ROUTE, "", listed()), self._asking.ask(Fact.TOPICS, "", self._admin.topics())
        )
        self._routes = Routes(
            self._admin, None if every is None else every[0], None if topics is None else frozenset(topics[0])
        )

    async def consumption(self, message: ReceivedMessage, start: int, most: int, *, is_only: bool) -> Consumption:
        origin = origin_of(message)
        if origin.kind is Kind.NORMAL:
            return await self._of_original(message, Kind.NORMAL, start, most, is_only=is_only)
        original = await self._original(message, origin)
        if original is not None:
            return await self._of_original(original, origin.kind, start, most)
        if origin.kind in (Kind.RETRY, Kind.DEAD_LETTER):  # the original is gone
            return await self._of_original(message, origin.kind, start, most, only=_group_of(message, origin))
        traces = await self._traces(message)
        due = None
        if origin.kind is Kind.DELAYED:
            due = due_ms(message, await self._levels(message.broker_name, message))
        return Consumption(
            origin.kind,
            None,
            traced=traces.found,
            trace_topics=self._trace_topics,
            trace=traces.records,
            transaction=_decision(traces.records),
            due_ms=due,
            missing=tuple(self._asking.missing),
        )

    async def _original(self, message: ReceivedMessage, origin: Origin) -> ReceivedMessage | None:
        """Return the message that *message* is a copy of, or became."""
        unique_id = message.properties.get(props.UNIQ_KEY)
        if unique_id is None:
            return None
        for topic in origin.topics:
            brokers = await self._brokers(topic)
            found = await self._records(Fact.MESSAGE, brokers, topic, unique_id, 0)
            original = pick_original(message, found)
            if original is not None:
                return original
        return None

    async def _of_original(
        self,
        message: ReceivedMessage,
        kind: Kind,
        start: int,
        most: int,
        only: str | None = None,
        *,
        is_only: bool = False,
    ) -> Consumption:
        brokers, known_topics = await self._brokers(message.topic), self._routes.topics or ()
        facts, groups, (delayed, timers), traces = await asyncio.gather(
            self._message_facts(message, brokers, gone=only is not None, is_only=is_only),
            self._groups(message.topic, brokers),
            self._delayed(message, brokers),
            self._traces(message),
        )
        broker = facts.queue.broker_name
        (facts, keeps_pulls), pops = await asyncio.gather(
            self._with_broker(facts, brokers), self._pops(broker, brokers.get(broker), timers.get(broker, {}))
        )
        survey = GroupSurvey(
            self._admin,
            self._reader,
            self._asking,
            facts,
            brokers,
            self._routes,
            delayed_by_group(facts, delayed, await self._levels_if(delayed, broker, brokers)),
            traces.tries,
            frozenset(self._unknown),
            keeps_pulls,
            pops,
        )
        if only is not None or self._group is not None:
            groups = {self._group or only or ""}
        else:
            groups |= {*survey.delayed, *traces.tries, *pops.groups(message.topic)}
            groups |= _popping(known_topics, message.topic)
        verdicts, others = await self._page(survey, sorted(groups), start, most)
        light = await light_readers(self._admin, self._asking, message, broker, brokers)
        return Consumption(
            kind,
            facts,
            verdicts,
            len(groups),
            others,
            traces.found,
            self._trace_topics,
            traces.records,
            _decision(traces.records),
            light=light,
            missing=tuple(self._asking.missing),
        )

    async def _page(
        self, survey: GroupSurvey, groups: Sequence[str], start: int, most: int
    ) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
        """Return the verdicts of one page, and the groups of all others."""
        committed = dict(zip(groups, await asyncio.gather(*map(survey.committed, groups)), strict=True))

        def place(group: str) -> tuple[int, str]:
            at = committed[group]
            if group in survey.delayed:
                return 0, group
            if at is None or at[0] is None or at[0] <= survey.message.queue_offset:
                return 2, group
            is_dead = self._routes.may_exist(names.dead_letter_topic(group))
            return (1 if is_dead and group not in survey.tries else 3), group

        in_order = sorted(groups, key=place)
        page = in_order[start : start + most]
        facts = await asyncio.gather(*(survey.facts(group, committed[group]) for group in page))
        verdicts = [verdict(survey.message, each) for each in facts if not _is_topic(each, survey.message)]
        verdicts.sort(key=lambda each: (_ORDER.index(each.reason), each.group))
        return tuple(verdicts), (*in_order[:start], *in_order[start + most :])

    async def _brokers(self, topic: str) -> dict[str, str]:
        answer = await self._asking.ask(Fact.ROUTE, "", self._routes.brokers_of(topic))
        if answer is None:
            self._unknown |= {Fact.ROUTE, Fact.MESSAGE, Fact.COMMITTED, Fact.DELAYED, Fact.MEMBERS, Fact.PULLED}
            return {}
        self._replicated |= {name for name, each in answer[0].items() if len(each.addresses) > 1}
        return addresses_of(answer[0])

    async def _records(
        self, fact: Fact, brokers: Mapping[str, str], topic: str, key: str, since_ms: int, *, unique: bool = True
    ) -> list[ReceivedMessage]:
        """Return the records of all brokers; the failure of one is in `missing`, and the fact is unknown."""
        answers = await asyncio.gather(
            *(
                self._asking.ask(
                    fact, name, records_at(self._admin, name, address, topic, key, since_ms, unique=unique)
                )
                for name, address in brokers.items()
            )
        )
        found: list[ReceivedMessage] = []
        for name, answer in zip(brokers, answers, strict=True):
            if answer is None:
                self._unknown.add(fact)
                continue
            if answer[0].problem:
                self._unknown.add(fact)
                self._asking.incomplete(fact, name, answer[0].problem)
            found += answer[0].messages
        return found

    async def _message_facts(
        self, message: ReceivedMessage, brokers: Mapping[str, str], *, gone: bool, is_only: bool
    ) -> MessageFacts:
        """Find the message by its unique id: if that does not find it, it does not find its copies either."""
        unique_id = message.properties.get(props.UNIQ_KEY, "")
        same: list[ReceivedMessage] = [message] if is_only else []
        if unique_id and not is_only:
            same = await self._records(Fact.MESSAGE, brokers, message.topic, unique_id, message.store_timestamp)
        itself = next((each for each in same if _is_same(each, message)), None)
        broker = message.broker_name or (itself.broker_name if itself is not None else _broker_of(message, brokers))
        if itself is None and Fact.MESSAGE not in self._unknown:
            self._unknown.add(Fact.MESSAGE)
            why = "not-indexed" if unique_id else "no-unique-id"
            self._asking.missing.append(MissingFact(Fact.MESSAGE, broker, why))
        return MessageFacts(
            MessageQueue(message.topic, broker, message.queue_id),
            message.queue_offset,
            unique_id,
            "" if gone else message.offset_id,
            message.store_timestamp,
            message.tags,
            same_id=sum(not _is_same(each, message) for each in same),
        )

    async def _with_broker(self, facts: MessageFacts, brokers: Mapping[str, str]) -> tuple[MessageFacts, bool]:
        """Add when the message's broker was started; return also whether it keeps the pulled offsets of groups."""
        broker = facts.queue.broker_name
        address = brokers.get(broker)
        if address is None:
            if Fact.ROUTE not in self._unknown:
                self._asking.missing.append(MissingFact(Fact.ROUTE, broker, "unreachable", "no address is registered"))
            self._unknown |= {Fact.COMMITTED, Fact.MEMBERS, Fact.PULLED}
            return facts, False
        answer = await self._asking.ask(Fact.BROKER, broker, self._admin.runtime_info(address))
        if answer is None:
            return facts, False
        started = answer[0].get("bootTimestamp", "")
        keeps_pulls = not answer[0].get("brokerVersionDesc", "").startswith(_WITHOUT_PULLS)
        recorded = (
            keeps_pulls and broker not in self._replicated and started.isdecimal() and int(started) <= facts.stored_ms
        )
        return attrs.evolve(facts, pulls_recorded=recorded), keeps_pulls

    async def _pops(self, broker: str, address: str | None, timers: Mapping[MessageQueue, QueueStats]) -> Pops:
        """Read the newest pops at the message's broker. Queues without messages, which most are, are not read.

        Args:
            broker: its name.
            address: None if it has none.
            timers: queues of its timer wheel.
        """
        topics = sorted(each for each in self._routes.topics or () if each.startswith(REVIVE_PREFIX))
        if address is None or not topics:
            return Pops([], {})
        progress: dict[MessageQueue, QueueProgress] = {}
        for answer in await asyncio.gather(
            *(
                self._asking.ask(Fact.POPS, broker, self._admin.group_progress(address, REVIVE_GROUP, topic))
                for topic in topics
            )
        ):
            progress |= {} if answer is None else answer[0]
        progress = {queue: each for queue, each in progress.items() if each.max_offset}
        answers = await asyncio.gather(
            *(self._asking.ask(Fact.POPS, broker, self._processed(address, *each)) for each in progress.items())
        )
        ends = {queue: each.max_offset for queue, each in progress.items()}
        ends |= {queue: each.max_offset for queue, each in timers.items()}
        found = await asyncio.gather(
            *(self._asking.ask(Fact.POPS, broker, read_newest(self._reader, *each)) for each in ends.items() if each[1])
        )
        processed = {
            queue.queue_id: one[0]
            for queue, one in zip(progress, answers, strict=True)
            if one is not None and one[0] is not None
        }
        return Pops([record for records in found if records is not None for record in records[0]], processed)

    async def _processed(self, address: str, queue: MessageQueue, progress: QueueProgress) -> int | None:
        """Return the last offset of a revive queue that the broker has processed; None without one.

        The progress of a group is 0 without a commit too.
        """
        return progress.committed or await committed_at(self._admin, address, REVIVE_GROUP, queue)

    async def _groups(self, topic: str, brokers: Mapping[str, str]) -> set[str]:
        if self._group is not None:
            return {self._group}
        found = await asyncio.gather(*(self._groups_at(topic, name, address) for name, address in brokers.items()))
        return {group for groups in found for group in groups}

    async def _groups_at(self, topic: str, broker: str, address: str) -> set[str]:
        answer = await self._asking.ask(Fact.GROUPS, broker, self._admin.groups_of_topic(address, topic))
        groups = set() if answer is None else set(answer[0])
        if topic in groups:
            groups |= await self._online_groups(topic, broker, address, groups)
        return groups

    async def _online_groups(self, topic: str, broker: str, address: str, known: Collection[str]) -> set[str]:
        """Return the groups with members that subscribe to the topic, of a broker that may not list them.

        Instead of online groups without offsets, RocketMQ 5 lists the name of the topic (registerConsumer of its
        ConsumerManager puts it into topicGroupTable).
        """
        answer = await self._asking.ask(Fact.GROUPS, broker, self._admin.groups(address))
        others = [] if answer is None else [each for each in answer[0] if each not in known]
        others = [each for each in others if each not in names.SYSTEM_GROUPS]
        if len(others) > _MOST_LOOKED_AT:
            detail = f"online groups without offsets were looked for among {_MOST_LOOKED_AT} of {len(others)} groups"
            self._asking.incomplete(Fact.GROUPS, broker, detail)
        looked_at = others[:_MOST_LOOKED_AT]
        answers = await asyncio.gather(
            *(
                self._asking.ask(Fact.GROUPS, broker, self._admin.consumer_connections(address, group), group)
                for group in looked_at
            )
        )
        return {
            group
            for group, one in zip(looked_at, answers, strict=True)
            if one is not None and one[0] is not None and any(each.topic == topic for each in one[0].subscriptions)
        }

    async def _delayed(
        self, message: ReceivedMessage, brokers: Mapping[str, str]
    ) -> tuple[list[ReceivedMessage], dict[str, Mapping[MessageQueue, QueueStats]]]:
        """Return the copies that wait for a delay, and the queues of the timer wheel by broker."""
        unique_id, since_ms = message.properties.get(props.UNIQ_KEY), message.store_timestamp
        timers = await self._timers(brokers)
        if unique_id is None:
            return [], timers
        waiting = {
            name: brokers[name] for name, queues in timers.items() if any(each.count for each in queues.values())
        }
        found = await asyncio.gather(
            self._records(Fact.DELAYED, brokers, names.SCHEDULE_TOPIC, unique_id, since_ms),
            self._records(Fact.DELAYED, waiting, names.TIMER_TOPIC, unique_id, since_ms),
        )
        return [record for records in found for record in records], timers

    async def _timers(self, brokers: Mapping[str, str]) -> dict[str, Mapping[MessageQueue, QueueStats]]:
        """Return the queues of the timer wheel by broker; none of a broker without one."""
        if not self._routes.may_exist(names.TIMER_TOPIC):
            return {name: {} for name in brokers}

        async def at(address: str) -> Mapping[MessageQueue, QueueStats]:
            try:
                return await self._admin.topic_stats(address, names.TIMER_TOPIC)
            except BrokerRefused as refused:
                if refused.response_code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return {}

        answers = await asyncio.gather(
            *(self._asking.ask(Fact.DELAYED, name, at(address)) for name, address in brokers.items())
        )
        if None in answers:
            self._unknown.add(Fact.DELAYED)
        return {name: {} if each is None else each[0] for name, each in zip(brokers, answers, strict=True)}

    async def _traces(self, message: ReceivedMessage) -> _Traces:
        found: list[ReceivedMessage] = []
        for topic in filter(self._routes.may_exist, self._trace_topics):
            answer = await self._asking.ask(Fact.TRACE, "", self._routes.brokers_of(topic))
            if answer is None:
                self._unknown.add(Fact.TRACE)
                continue
            key, since_ms = message.message_id, message.store_timestamp
            found += await self._records(Fact.TRACE, addresses_of(answer[0]), topic, key, since_ms, unique=False)
        records, unreadable = records_of(found, message.message_id)
        if unreadable:
            self._unknown.add(Fact.TRACE)
            self._asking.incomplete(Fact.TRACE, "", f"{unreadable} messages with traces cannot be decoded")
        return _Traces(bool(found), tuple(records), tries_by_group(records))

    async def _levels_if(
        self, delayed: Iterable[ReceivedMessage], broker: str, brokers: Mapping[str, str]
    ) -> tuple[int, ...]:
        """Return the broker's delay levels; it is asked only if something is delayed."""
        address = brokers.get(broker)
        if address is None or not any(each.topic == names.SCHEDULE_TOPIC for each in delayed):
            return levels_in({})
        answer = await self._asking.ask(Fact.BROKER, broker, self._admin.broker_settings(address))
        return levels_in({} if answer is None else answer[0])

    async def _levels(self, broker: str, message: ReceivedMessage) -> tuple[int, ...]:
        return await self._levels_if([message], broker, await self._brokers(message.topic))


def _is_topic(facts: GroupFacts, message: MessageFacts) -> bool:
    """Return whether a broker returned the name of the topic as a group, see `_Inquiry._online_groups`."""
    is_named_so = facts.group == message.queue.topic
    return is_named_so and not (facts.members or facts.copies or facts.tries) and facts.committed is None


def _is_same(one: ReceivedMessage, other: ReceivedMessage) -> bool:
    return (one.queue_id, one.queue_offset, one.offset_id) == (other.queue_id, other.queue_offset, other.offset_id)


def _broker_of(message: ReceivedMessage, brokers: Mapping[str, str]) -> str:
    """Return the name of the broker that stored a message; empty if it is not clear."""
    if len(brokers) == 1:
        return next(iter(brokers))
    return next((name for name, address in brokers.items() if address == message.store_host), "")


def _group_of(message: ReceivedMessage, origin: Origin) -> str:
    """Return the group of a retry or dead letter whose original is gone."""
    if origin.group is not None:
        return origin.group
    return message.topic.removeprefix(names.RETRY_PREFIX)


def _popping(topics: Iterable[str], topic: str) -> set[str]:
    """Return the groups that have a retry topic of pop for *topic*."""
    endings = tuple(each.removeprefix(names.RETRY_PREFIX) for each in names.pop_retry_topics("", topic))
    return {
        each[len(names.RETRY_PREFIX) : -len(endings[0])]
        for each in topics
        if each.startswith(names.RETRY_PREFIX) and each.endswith(endings)
    } - {""}


def _decision(records: Iterable[Traced]) -> str | None:
    """Return the last traced decision on a transaction."""
    decided = [each.record for each in records if isinstance(each.record, EndTransaction)]
    return max(decided, key=lambda each: each.time_ms).state if decided else None
