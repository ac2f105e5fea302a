"""Reasons why a group receives nothing: from facts to one sentence per queue, and some for the group. No I/O.

The first reason that applies is reported: reasons that block everything come first, harmless ones last. Each has a
code, which stays the same when the sentence changes.

Source of periods: apache/rocketmq client/.../impl/consumer/DefaultMQPushConsumerImpl.java (pullMessage: flow control),
RebalanceService.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from gantrymq_diagnosis.conflicts import Kind
from gantrymq_diagnosis.facts import GroupFacts, MemberFacts, QueueFacts, TopicFacts

__all__ = ["PAUSED_MS", "Diagnosis", "explain_group", "explain_queue"]

PAUSED_MS: Final = 60_000  # a pull is held for up to 30 s, and flow control retries every 50 ms
COMMITS_MS: Final = 15_000  # three commit intervals of RocketMQ's clients (persistConsumerOffsetInterval)
BROADCASTING = "BROADCASTING"
PULLS_ITSELF = "CONSUME_ACTIVELY"


class Diagnosis(NamedTuple):
    """One reason."""

    word: str
    sentence: str


_Rule = Callable[[GroupFacts, QueueFacts], "Diagnosis | None"]


def explain_queue(group: GroupFacts, queue: QueueFacts) -> Diagnosis:
    """Return the reason why the group receives nothing from the queue, or that it does."""
    for rule in _RULES:
        found = rule(group, queue)
        if found is not None:
            return found
    return Diagnosis("reading", f"it is being read; {_messages(queue.behind, 'are')} before the group")


def explain_group(group: GroupFacts, topics: Sequence[TopicFacts], now_ms: int) -> Iterator[Diagnosis]:
    """Yield findings about the whole group; none if all is well."""
    if group.slave_of is not None:
        yield Diagnosis(
            "on-a-slave",
            "this broker is a slave: offsets and retries here are copies of its master's, which are up to some seconds "
            f"old; {_at_the_master(group)}",
        )
    if not group.members:
        yield Diagnosis(
            "nobody-online",
            f"no member of group {group.group} is online at this broker; start one, and list the members with: "
            f"gantrymq group clients {group.group}",
        )
    if not group.consume_enable:
        yield _disabled(group)
    for conflict in group.conflicts:
        yield Diagnosis(f"conflict-{conflict.kind.value}", conflict.sentence)
    for told in group.told:
        yield Diagnosis(told.word, told.sentence)
    for topic in topics:
        yield from _not_there(group, topic)
        yield from _idle_members(group, topic)
    if group.retry_waiting:
        more = "at least " if group.retry_waiting_more else ""
        due = ""
        if group.retry_due_ms is not None:
            due = f", the next is due in {_span(max(0, group.retry_due_ms - now_ms))}"
        yield Diagnosis(
            "retry-waiting", f"{more}{_messages(group.retry_waiting, 'wait')} for another try of the group{due}"
        )
    if group.retry_behind:
        yield Diagnosis(
            "retry-behind",
            f"{_messages(group.retry_behind, 'are')} to be tried again now, on the retry topics of {group.group}; see: "
            f"gantrymq group progress {group.group}",
        )
    if group.deleted:
        them = "it" if group.deleted == 1 else "them"
        yield Diagnosis(
            "deleted-unread",
            f"{_messages(group.deleted, 'were')} deleted before the group read {them}: {group.group} is further behind "
            "than messages are kept; add members, or keep messages longer with: gantrymq broker config set "
            "fileReservedTime=HOURS",
        )
    if group.dead_letters:
        yield Diagnosis(
            "dead-letters",
            f"{_messages(group.dead_letters, 'are')} on %DLQ%{group.group}, given up after failed tries; see: "
            f"gantrymq group dlq list {group.group}",
        )


def _not_there(group: GroupFacts, topic: TopicFacts) -> Iterator[Diagnosis]:
    """Yield the reason of members of a topic that does not exist: it has no queue that could show a reason."""
    if topic.exists or not group.members:
        return
    near = f" (did you mean {topic.similar}?)" if topic.similar else ""
    yield Diagnosis(
        "topic-missing",
        f"members subscribe to topic {topic.topic}, which this broker does not have{near}; correct the name in every "
        f"member, or create it with: gantrymq topic create -t {topic.topic}",
    )


def _idle_members(group: GroupFacts, topic: TopicFacts) -> Iterator[Diagnosis]:
    """Return the members in excess of the queues of a topic."""
    members = group.members
    if len(members) <= topic.read_queues or not topic.exists or topic.popped or topic.topic.startswith("%RETRY%"):
        return
    if topic.expression is None or any(each.message_model == BROADCASTING for each in members):
        return
    idle = [each.client_id for each in members if topic.topic not in each.topics]
    if idle:
        yield Diagnosis(
            "too-few-queues",
            f"{topic.topic} has {_count(topic.read_queues, 'queue')} for {len(members)} members, so these own none "
            f"of it and get nothing: {_some(idle)}; take members away, or add queues with: gantrymq topic create -t "
            f"{topic.topic} -r {len(members)} -w {len(members)}",
        )


def _at_the_master(group: GroupFacts) -> str:
    """Return what to do instead of asking a slave."""
    where = f"at {group.slave_of}" if group.slave_of else "of its group"
    return f"ask the master {where}: gantrymq group explain {group.group} -b {group.slave_of or 'MASTER'}"


def _slave_forbids(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if group.slave_of is None or group.slave_reads:
        return None
    return Diagnosis(
        "slave-not-readable",
        f"this broker is a slave, and slaveReadEnable=false keeps consumers from it; {_at_the_master(group)}",
    )


def _read_at_the_master(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if group.slave_of is None or queue.held_by or (queue.pulled_ms_ago or PAUSED_MS) < PAUSED_MS:
        return None
    return Diagnosis(
        "read-at-master",
        "members read it at the master, and at this slave only old messages, or while the master is down; "
        f"{_at_the_master(group)}",
    )


def _broker_forbids(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if group.broker_readable:
        return None
    return Diagnosis(
        "broker-not-readable",
        "this broker's brokerPermission forbids reading; allow it with: gantrymq broker config set brokerPermission=6",
    )


def _disabled(group: GroupFacts) -> Diagnosis:
    return Diagnosis(
        "group-disabled",
        f"group {group.group} is switched off (consumeEnable=false); switch it on with: gantrymq group create -g "
        f"{group.group} --consume",
    )


def _group_disabled(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    return None if group.consume_enable else _disabled(group)


def _topic_missing(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    topic = queue.topic
    if not topic.exists:
        return Diagnosis(
            "topic-missing",
            f"topic {topic.topic} does not exist on this broker; create it with: gantrymq topic create -t "
            f"{topic.topic}",
        )
    if not topic.readable:
        return Diagnosis(
            "topic-not-readable",
            f"topic {topic.topic} may not be read; allow it with: gantrymq topic create -t {topic.topic} --perm 6",
        )
    if queue.queue_id >= topic.read_queues:
        return Diagnosis(
            "queue-not-read",
            f"topic {topic.topic} has {_count(topic.read_queues, 'read queue')}, this one is not among them; have it "
            f"read with: gantrymq topic create -t {topic.topic} -r {queue.queue_id + 1}",
        )
    return None


def _forbidden(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.topic.allowed:
        return None
    return Diagnosis(
        "group-forbidden",
        f"group {group.group} is forbidden to read topic {queue.topic.topic}; allow it as it was forbidden, with "
        "request 353 (updateAndGetGroupReadForbidden) and readable=true",
    )


def _nobody(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if group.members:
        return None
    if not queue.behind:
        return Diagnosis("nobody-online", f"no member is online, and the group is at the end ({queue.max_offset})")
    return Diagnosis(
        "nobody-online",
        f"no member is online; {_messages(queue.behind, 'wait')}; start one, and list the members with: gantrymq group "
        f"clients {group.group}",
    )


def _no_broadcasting(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if group.consume_broadcast_enable or not any(each.message_model == BROADCASTING for each in group.members):
        return None
    return Diagnosis(
        "broadcast-disabled",
        f"group {group.group} may not broadcast (consumeBroadcastEnable=false); allow it with: gantrymq group create "
        f"-g {group.group} --broadcast",
    )


def _not_subscribed(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.topic.expression is not None or all(each.consume_type == PULLS_ITSELF for each in group.members):
        return None
    return Diagnosis(
        "not-subscribed",
        f"no member subscribes to topic {queue.topic.topic} any more, so its messages are no lag; subscribe to it in "
        f"every member, or delete its offsets with: gantrymq group delete-offsets {group.group} -t {queue.topic.topic}",
    )


def _filter_refused(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if not queue.topic.refused:
        return None
    return Diagnosis(
        "filter-refused",
        f"the broker refuses every pull because of the subscription, with {queue.topic.refused}; correct "
        f"the expression or its type in every member, and list them with: gantrymq group clients {group.group}",
    )


def _told(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    """Return what a plugin reports about the group on this topic."""
    for told in group.told:
        if told.topic == queue.topic.topic:
            return Diagnosis(told.word, told.sentence)
    return None


def _different(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    for conflict in group.conflicts:
        if conflict.kind is Kind.SUBSCRIPTIONS and conflict.topic == queue.topic.topic:
            return Diagnosis(
                "different-subscriptions",
                f"members subscribe differently; the broker applies '{queue.topic.expression or 'nothing'}' and "
                "ignores the other subscriptions; let all members subscribe to the same, or refuse those that do not "
                "with: gantrymq broker config set consumerConflictPolicy=refuse",
            )
    return None


def _dead_lock(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.locked_by is None or queue.holder_online:
        return None
    return Diagnosis(
        "lock-of-a-dead-client",
        f"it is locked for ordered reading by {queue.locked_by}, which is not online; the lock lapses within 60 s",
    )


def _reset(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.reset is None:
        return None
    return Diagnosis("reset-pending", f"its offset was reset to {queue.reset}, which the next pull receives")


def _broadcasting(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.behind is not None:
        return None
    last = "none has pulled it since the broker's start"
    if queue.held_by:
        last = f"{queue.held_by[0]} waits for messages at {queue.next_pull}"
    elif queue.pulled_ms_ago is not None:
        last = f"{queue.pulled_by} pulled it last, {_span(queue.pulled_ms_ago)} ago, up to {queue.next_pull}"
    return Diagnosis(
        "broadcasting",
        "members broadcast: each reads all queues and keeps its offsets itself, so the lag is not known here; " + last,
    )


def _popped(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if not queue.topic.popped:
        return None
    if not queue.behind:
        return Diagnosis("up-to-date", "the group pops and is at the end: nothing new has come")
    return Diagnosis(
        "popped", f"the group pops, from any queue by any member; {_messages(queue.behind, 'are')} before it"
    )


def _no_match(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.checked == 0 or queue.matched or queue.topic.expression in (None, "*"):
        return None
    return Diagnosis(
        "nothing-matches",
        f"'{queue.topic.expression}' matched none of {_messages(queue.checked)} that it was held against; compare the "
        f"tags of what is sent: gantrymq message pull -t {queue.topic.topic}",
    )


def _never_pulled(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.next_pull >= 0 or queue.held_by:
        return None
    if len(group.members) == 1 and _actively(group.members):
        return Diagnosis(
            "not-pulled",
            f"{group.members[0].client_id} pulls itself, and never asked for this queue; let it pull all queues "
            "of the topic",
        )
    return Diagnosis(
        "not-owned",
        f"no member has pulled it since the broker's start ({_count(len(group.members), 'member')} online); queues are "
        f"rebalanced every 20 s; if this lasts, its owner hangs: restart it (gantrymq group clients {group.group} "
        "lists the members)",
    )


def _puller_left(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.held_by or queue.puller_online or not queue.pulled_by:
        return None
    return Diagnosis(
        "owner-left",
        f"{queue.pulled_by} pulled it last, {_span(queue.pulled_ms_ago)} ago, and is gone; another member takes over "
        "within 20 s",
    )


def _paused(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    ago = queue.pulled_ms_ago
    if queue.held_by or ago is None or ago < PAUSED_MS:
        return None
    if _actively(group.members):
        return Diagnosis(
            "paused",
            f"{queue.pulled_by} pulls itself, and last asked {_span(ago)} ago; {_messages(queue.behind, 'wait')} for "
            "it to pull again",
        )
    reads = "it reads old messages at a slave, or " if group.slave_reads else ""
    return Diagnosis(
        "paused",
        f"{queue.pulled_by} last pulled {_span(ago)} ago: {reads}it is suspended, hangs, or holds as many messages as "
        f"it may (1000 a queue, pullThresholdForQueue); {_messages(queue.behind, 'wait')}; see its log, and where "
        f"it runs with: gantrymq group clients {group.group}",
    )


def _at_the_end(group: GroupFacts, queue: QueueFacts) -> Diagnosis | None:
    if queue.behind == 0:
        return Diagnosis("up-to-date", f"the group is at the end ({queue.max_offset}): nothing new has come")
    if queue.next_pull < queue.max_offset or not (queue.held_by or queue.locked_by):
        return None
    if queue.oldest_ms_ago is not None and queue.oldest_ms_ago < COMMITS_MS:
        return None  # members commit every few seconds
    if queue.locked_by:
        return Diagnosis(
            "order-stuck",
            f"{queue.locked_by} reads it in order and keeps failing at offset {queue.begin}, or has not finished that "
            f"message, which was stored {_span(queue.oldest_ms_ago)} ago; {_messages(queue.behind, 'wait')}; see its "
            f"log, or skip the message with: gantrymq group reset {group.group} -t "
            f"{queue.topic.topic} -q {queue.queue_id} --to {queue.begin + 1}",
        )
    return Diagnosis(
        "not-committed",
        f"all was handed out; {_messages(queue.behind, 'are')} with {queue.held_by[0]}, which has not committed; "
        f"see its log, and where it runs with: gantrymq group clients {group.group}",
    )


_RULES: tuple[_Rule, ...] = (
    _slave_forbids,
    _broker_forbids,
    _group_disabled,
    _topic_missing,
    _forbidden,
    _nobody,
    _no_broadcasting,
    _not_subscribed,
    _filter_refused,
    _told,
    _dead_lock,
    _reset,
    _different,
    _no_match,
    _broadcasting,
    _popped,
    _read_at_the_master,
    _never_pulled,
    _puller_left,
    _paused,
    _at_the_end,
)


def _actively(members: Sequence[MemberFacts]) -> bool:
    return all(each.consume_type == PULLS_ITSELF for each in members)


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _messages(count: int | None, verb: str = "") -> str:
    """Format a number of messages with *verb* ("are", "wait") in the singular or plural."""
    if count == 1 and verb:
        verb = {"are": "is", "were": "was"}.get(verb, f"{verb}s")
    number = _count(count, "message") if count else "no messages"
    return f"{number} {verb}".rstrip()


def _some(ids: Sequence[str]) -> str:
    """Join up to five names."""
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def _span(ms: int | None) -> str:
    """Format a duration."""
    if ms is None:
        return "some time"
    if ms < 120_000:
        return f"{ms / 1000:.0f} s"
    return f"{ms // 60_000} min" if ms < 7_200_000 else f"{ms // 3_600_000} h"
