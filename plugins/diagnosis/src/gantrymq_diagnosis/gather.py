"""Gathers the state of a group from `gantrymq.interfaces.Broker`, in short steps between which the event loop runs.

Costs some 10 us a queue, and the reading of one message for each queue with a lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import count
from operator import attrgetter
from typing import Final, NamedTuple

import attrs

from gantrymq.errors import GantryError
from gantrymq.plugin.interfaces import Broker, BrokerCluster, BrokerEnvironment, LagReading, OnlineClient
from gantrymq.plugin.model import (
    PERM_READ,
    POPS,
    MessageQueue,
    Queue,
    Role,
    Subscription,
    TopicConfig,
    format_address,
    is_lite_queue_of,
    lite_parent_of,
)
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, pop_retry_topics, retry_topic, similar_name
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.group_state import GroupState, MemberState, PluginFinding, QueueState, Read, TopicState
from gantrymq_diagnosis.other_readers import OtherReaders
from gantrymq_diagnosis.pop_modes import PopModes
from gantrymq_diagnosis.waiting_retries import WaitingRetries, waiting_retries
from gantrymq_diagnosis.watch import Watch

_QUEUES_TOGETHER: Final = 16  # queues between pauses
FIGURES_TOGETHER: Final = 4
BROADCASTING = "BROADCASTING"


class GroupSnapshot(NamedTuple):
    """The state of a group, its topics and queues at one broker."""

    group: GroupState
    topics: tuple[TopicState, ...]
    queues: tuple[QueueState, ...]
    taken_ms: int  # wall time


async def gather(broker: Broker, watch: Watch, modes: PopModes, group: str, only: str | None = None) -> GroupSnapshot:
    """Gather the state of a group; *only*: of one topic."""
    online = broker.clients.consumers(group)
    says = {each.connection: watch.says(group, each.connection) for each in online}
    others = None if online else await OtherReaders.of(broker)
    names = {each.connection.peer: each.client_id for each in online} if others is None else others.names
    client_ids = frozenset(names.values())
    committed = await _committed(broker, group)
    wanted = {topic for each in says.values() if each is not None for topic in each.wants}
    names_of_topics = {topic for topic in {*committed, *wanted} if not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))}
    parent = lite_parent_of(broker.groups.get(group))
    if parent and broker.topics.get(parent) is not None:
        names_of_topics.update(broker.lags.topics(group))
        names_of_topics.discard(parent)  # the group reads its lite topics, not its queues
    if only is not None:
        names_of_topics = {each for each in names_of_topics if is_lite_queue_of(only, each)} or {only}
    pops = any(each is not None and each.consume_type == POPS for each in says.values())
    popped = {topic for topic, groups in (await modes.groups()).items() if group in groups}
    slices = TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    topics, queues = list[TopicState](), list[QueueState]()
    reads: dict[str, set[str]] = {each.client_id: set() for each in online}
    for name in sorted(names_of_topics):
        config = broker.topics.get(name)
        other = None if others is None else others.popped(group, name)
        by_pops = pops or name in popped or other is not None
        topic = _topic(broker, group, name, config, committed.get(name, ()), pops=by_pops)
        ids = sorted({*range(topic.read_queues), *committed.get(name, ())})
        readers = dict[int, Read | None]()
        if others is not None:
            for queue_id in ids:
                readers[queue_id] = other or others.pulled(group, Queue(name, queue_id))
                await slices.item_done()
        topic = attrs.evolve(topic, other_reader=_newest(readers.values()))
        topics.append(topic)
        for queue_id in ids:
            state = await _queue(broker, group, topic, Queue(name, queue_id), names, client_ids)
            if others is not None:
                read = readers[queue_id]
                is_online = read is not None or not state.pulled_by
                state = attrs.evolve(state, other_reader=read, puller_online=is_online)
            queues.append(state)
            for reader in (*state.held_by, state.pulled_by):
                if reader in reads:
                    reads[reader].add(name)
            await slices.item_done()
    members = [_member(each, watch, group, frozenset(reads[each.client_id])) for each in online]
    return GroupSnapshot(
        await _group(broker, watch, group, online, members, queues),
        tuple(topics),
        tuple(queues),
        broker.world.clock.now_ms(),
    )


def _newest(reads: Iterable[Read | None]) -> Read | None:
    return min(filter(None, reads), key=attrgetter("ago_ms"), default=None)


async def _committed(broker: Broker, group: str) -> dict[str, dict[int, int]]:
    """Return topic to queue id to committed offset, of existing topics.

    Queues that a topic does not have any more are those of which the group has not read all.
    """
    slices = TimeSlices(broker.world.clock, _QUEUES_TOGETHER)
    found: dict[str, dict[int, int]] = {}
    for name in broker.offsets.topics_of(group):
        config = broker.topics.get(name)
        if config is None:
            continue
        present = max(config.read_queues, config.write_queues)
        for queue_id in count():
            queue = Queue(name, queue_id)
            offset = broker.offsets.committed(group, queue)
            if offset is not None and (queue_id < present or _has_unread(broker, group, queue)):
                found.setdefault(name, {})[queue_id] = offset
            await slices.item_done()
            if offset is None and queue_id >= present:
                break
    return found


def _has_unread(broker: Broker, group: str, queue: Queue) -> bool:
    lag = broker.lags.queue(group, queue)  # its `behind` is 0 for a queue that nobody reads
    return lag.bounds.max_offset > lag.begin


def _topic(
    broker: Broker, group: str, name: str, config: TopicConfig | None, committed: Iterable[int], *, pops: bool
) -> TopicState:
    if config is None:
        return TopicState(name, exists=False, similar=similar_name(name, _own_topics(broker)), read_queues=0)
    if is_lite_queue_of(lite_parent_of(broker.groups.get(group)), name):
        subscribed = broker.lags.lite_subscriptions(group)
        return TopicState(name, popped=True, lite_subscribed=None if subscribed is None else name in subscribed)
    subscription = broker.clients.subscription(group, name)
    return TopicState(
        name,
        readable=config.readable,
        read_queues=config.read_queues,
        queues=max([config.write_queues, *(each + 1 for each in committed)]),
        expression=None if subscription is None else subscription.expression,
        refused="" if subscription is None else _refused(broker, subscription),
        allowed=broker.groups.may_read(group, name),
        popped=pops or _popped_before(broker, group, config),
    )


def _own_topics(broker: BrokerEnvironment) -> Iterator[str]:
    """Yield the topics of applications."""
    return (each for each in broker.topics.view if not each.startswith("%"))


def _refused(broker: Broker, subscription: Subscription) -> str:
    """Return why the broker refuses pulls with the expression of a subscription; empty if it does not."""
    try:
        broker.filters.compiled(subscription)
    except GantryError as problem:
        return f"code {problem.response_code}: {problem}"
    return ""


def _popped_before(broker: Broker, group: str, topic: TopicConfig) -> bool:
    """Return whether pops of the group were revived, and no member has pulled since the start."""
    if not any(broker.topics.get(each) is not None for each in pop_retry_topics(group, topic.name)):
        return False
    queues = (Queue(topic.name, queue_id) for queue_id in range(topic.read_queues))
    return all(broker.offsets.last_pull(group, queue).next_offset < 0 for queue in queues)


async def _queue(
    broker: Broker,
    group: str,
    topic: TopicState,
    queue: Queue,
    names: Mapping[tuple[str, int], str],
    client_ids: Set[str],
) -> QueueState:
    clock, lag, last = broker.world.clock, broker.lags.queue(group, queue), broker.offsets.last_pull(group, queue)
    holder = broker.locks.holder(group, MessageQueue(queue.topic, broker.registration.broker_name, queue.queue_id))
    pulled = last.next_offset >= 0
    state = QueueState(
        topic,
        queue.queue_id,
        min_offset=lag.bounds.min_offset,
        max_offset=lag.bounds.max_offset,
        committed=lag.committed,
        begin=lag.begin,
        behind=lag.behind,
        deleted=lag.deleted,
        next_pull=last.next_offset,
        pulled_ms_ago=round((clock.monotonic() - last.at) * 1000) if pulled else None,
        moved_ms_ago=round((clock.monotonic() - last.moved_at) * 1000) if pulled or last.moved_at else None,
        pulled_by="" if last.by is None else names.get(last.by, format_address(*last.by)),
        puller_online=last.by is None or last.by in names,
        held_by=tuple(
            names.get(each.peer, each.address) for each in broker.held_pulls.of(group, queue) if each is not None
        ),
        checked=last.checked,
        matched=last.matched,
        reset=broker.offsets.pending_reset(group, queue),
        locked_by=holder,
        holder_online=holder in client_ids,
    )
    if not state.behind:
        return state
    stored_ms = await broker.lags.stored_ms(queue, lag.begin)
    return attrs.evolve(state, oldest_ms_ago=None if stored_ms is None else max(0, clock.now_ms() - stored_ms))


def _member(online: OnlineClient, watch: Watch, group: str, topics: frozenset[str]) -> MemberState:
    says = watch.says(group, online.connection)
    if says is None:
        return MemberState(online.client_id, online.connection.address, topics=topics)
    return MemberState(online.client_id, online.connection.address, says.consume_type, says.message_model, topics)


async def _group(
    broker: Broker,
    watch: Watch,
    group: str,
    online: Iterable[OnlineClient],
    members: Iterable[MemberState],
    queues: Sequence[QueueState],
) -> GroupState:
    config = broker.groups.get(group)
    waiting, more = await waiting_retries(broker)
    retries = waiting.get(retry_topic(group), WaitingRetries())
    reading = broker.lags.reading(_QUEUES_TOGETHER)
    return GroupState(
        group,
        tuple(members),
        tuple(watch.conflicts(group, [each.connection for each in online])),
        consume_enable=config is None or config.consume_enable,
        consume_broadcast_enable=config is None or config.consume_broadcast_enable,
        broker=broker.registration.address,
        broker_readable=bool(broker.settings.number("brokerPermission") & PERM_READ),
        retry_behind=await retry_behind(broker, reading, group, broker.lags.topics(group)),
        retry_waiting=retries.count,
        retry_waiting_more=more,
        retry_due_ms=retries.due_ms,
        dead_letters=(await reading.backlog(DLQ_PREFIX + group)).messages,
        deleted=sum(each.deleted for each in queues),
        other_reader=_newest(each.other_reader for each in queues),
        plugin_findings=await _plugin_findings(broker, group),
        slave_of=None if broker.role.current is Role.MASTER else broker.registration.master_address,
        slave_reads=broker.settings.flag("slaveReadEnable"),
    )


async def retry_behind(broker: BrokerEnvironment, reading: LagReading, group: str, topics: Iterable[str]) -> int:
    """Return the number of messages that a group has not consumed on its retry topics and those of *topics*."""
    retries = [retry_topic(group), *(each for topic in topics for each in pop_retry_topics(group, topic))]
    existing = [each for each in retries if broker.topics.get(each) is not None]
    return sum([(await reading.of(group, each)).behind or 0 for each in existing])


async def _plugin_findings(broker: BrokerCluster, group: str) -> tuple[PluginFinding, ...]:
    """Return the findings that metrics of plugins report about a group."""
    slices, found = TimeSlices(broker.world.clock, FIGURES_TOGETHER), list[PluginFinding]()
    for each in broker.metrics.of_plugins():
        for labels, sentence in each.sentences.items():
            named = dict(zip(each.labels, labels, strict=True))
            if named.get("group") == group:
                word = each.name.removeprefix("gantrymq_").replace("_", "-")
                found.append(PluginFinding(word, named.get("topic", ""), sentence))
        await slices.item_done()
    return tuple(sorted(found))
