"""Reasons why a group receives nothing: one for each queue, and some for the group, from its state. No I/O.

The first reason that applies is reported: reasons that block everything come first, harmless ones last. Words stay the
same when their sentences change.

Source of periods: apache/rocketmq client/.../impl/consumer/DefaultMQPushConsumerImpl.java (pullMessage: flow control),
RebalanceService.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gantrymq.plugin.model import Value
from gantrymq_diagnosis.conflicts import Kind
from gantrymq_diagnosis.group_state import GroupState, MemberState, QueueState, TopicState
from gantrymq_diagnosis.sentences import SENTENCE, Reason

_PAUSED_MS: Final = 60_000  # a pull is held for up to 30 s, and flow control retries every 50 ms
_STILL_MS: Final = 60_000  # clients commit every 5 s, but a handler may need long for each message
_MOST_NAMED: Final = 5  # members in one sentence
BROADCASTING = "BROADCASTING"
_PULLS_ITSELF = "CONSUME_ACTIVELY"

_Rule = Callable[[GroupState, QueueState], "Reason | None"]


def explain_queue(group: GroupState, queue: QueueState) -> Reason:
    """Return the reason why the group receives nothing from the queue, or that it does."""
    for rule in _RULES:
        found = rule(group, queue)
        if found is not None:
            return found
    return Reason("reading", {"count": queue.behind})


def explain_group(group: GroupState, topics: Sequence[TopicState], now_ms: int) -> Iterator[Reason]:
    """Yield findings about the whole group; none if all is well."""
    name = group.group
    if group.slave_of is not None:
        yield _at_the_master("on-a-slave", group)
    if group.other_reader is not None:
        client, ago_ms = group.other_reader
        yield Reason("read-without-members", {"group": name, "client": client, "ago_ms": ago_ms})
    elif not group.members:
        yield Reason("nobody-online", {"group": name})
    if not group.consume_enable:
        yield Reason("group-disabled", {"group": name})
    for conflict in group.conflicts:
        yield conflict.reason
    for finding in group.plugin_findings:
        yield Reason(finding.word, {SENTENCE: finding.sentence})
    for topic in topics:
        yield from _not_there(group, topic)
        yield from _idle_members(group, topic)
    if group.retry_waiting:
        due_ms = None if group.retry_due_ms is None else max(0, group.retry_due_ms - now_ms)
        variant = "more" if group.retry_waiting_more else ""
        yield Reason("retry-waiting", {"count": group.retry_waiting, "due_ms": due_ms}, variant)
    for word, count in (
        ("retry-behind", group.retry_behind),
        ("deleted-unread", group.deleted),
        ("dead-letters", group.dead_letters),
    ):
        if count:
            yield Reason(word, {"group": name, "count": count})


def _not_there(group: GroupState, topic: TopicState) -> Iterator[Reason]:
    """Yield the reason of members of a topic that does not exist: it has no queue that could show a reason."""
    if topic.exists or not group.members:
        return
    if topic.similar:
        yield Reason("topic-missing", {"topic": topic.topic, "similar": topic.similar}, "similar")
    else:
        yield Reason("topic-missing", {"topic": topic.topic}, "subscribed")


def _idle_members(group: GroupState, topic: TopicState) -> Iterator[Reason]:
    """Return the members in excess of the queues of a topic."""
    members = group.members
    if len(members) <= topic.read_queues or not topic.exists or topic.popped or topic.topic.startswith("%RETRY%"):
        return
    if topic.expression is None or any(each.message_model == BROADCASTING for each in members):
        return
    idle = [each.client_id for each in members if topic.topic not in each.topics]
    if not idle:
        return
    named = ", ".join(idle[:_MOST_NAMED])
    values: dict[str, Value] = {
        "topic": topic.topic,
        "count": topic.read_queues,
        "members": len(members),
        "idle": named,
    }
    if len(idle) > _MOST_NAMED:
        yield Reason("too-few-queues", {**values, "more": len(idle) - _MOST_NAMED}, "more")
    else:
        yield Reason("too-few-queues", values)


def _at_the_master(word: str, group: GroupState) -> Reason:
    """Return a reason to ask the master instead of a slave."""
    return Reason(word, {"group": group.group, "master": group.slave_of or "MASTER"})


def _slave_forbids(group: GroupState, queue: QueueState) -> Reason | None:
    if group.slave_of is None or group.slave_reads:
        return None
    return _at_the_master("slave-not-readable", group)


def _read_at_the_master(group: GroupState, queue: QueueState) -> Reason | None:
    if group.slave_of is None or queue.held_by or (queue.pulled_ms_ago or _PAUSED_MS) < _PAUSED_MS:
        return None
    return _at_the_master("read-at-master", group)


def _broker_forbids(group: GroupState, queue: QueueState) -> Reason | None:
    return None if group.broker_readable else Reason("broker-not-readable", {"broker": group.broker})


def _group_disabled(group: GroupState, queue: QueueState) -> Reason | None:
    return None if group.consume_enable else Reason("group-disabled", {"group": group.group})


def _topic_missing(group: GroupState, queue: QueueState) -> Reason | None:
    topic = queue.topic
    if not topic.exists:
        return Reason("topic-missing", {"topic": topic.topic})
    if not topic.readable:
        return Reason("topic-not-readable", {"topic": topic.topic})
    if queue.queue_id >= topic.read_queues:
        least = max(topic.queues, queue.queue_id + 1)  # so that all its queues are read: one command for all
        values: dict[str, Value] = {"topic": topic.topic, "queues": topic.read_queues, "least": least}
        return Reason("queue-not-read", values)
    return None


def _forbidden(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.topic.allowed:
        return None
    return Reason("group-forbidden", {"group": group.group, "topic": queue.topic.topic})


def _nobody(group: GroupState, queue: QueueState) -> Reason | None:
    if group.members or queue.other_reader is not None:
        return None
    if not queue.behind:
        return Reason("nobody-online", {"end": queue.max_offset}, "at-end")
    return Reason("nobody-online", {"group": group.group, "count": queue.behind}, "waiting")


def _no_broadcasting(group: GroupState, queue: QueueState) -> Reason | None:
    if group.consume_broadcast_enable or not any(each.message_model == BROADCASTING for each in group.members):
        return None
    return Reason("broadcast-disabled", {"group": group.group})


def _not_subscribed(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.topic.expression is not None or all(each.consume_type == _PULLS_ITSELF for each in group.members):
        return None
    return Reason("not-subscribed", {"group": group.group, "topic": queue.topic.topic})


def _filter_refused(group: GroupState, queue: QueueState) -> Reason | None:
    if not queue.topic.refused:
        return None
    return Reason("filter-refused", {"group": group.group, "refusal": queue.topic.refused})


def _plugin_finding(group: GroupState, queue: QueueState) -> Reason | None:
    """Return the first finding of a plugin about the group on this topic."""
    for finding in group.plugin_findings:
        if finding.topic == queue.topic.topic:
            return Reason(finding.word, {SENTENCE: finding.sentence})
    return None


def _different(group: GroupState, queue: QueueState) -> Reason | None:
    for conflict in group.conflicts:
        if conflict.kind is Kind.SUBSCRIPTIONS and conflict.topic == queue.topic.topic:
            return Reason("different-subscriptions", {"expression": queue.topic.expression or "-"})
    return None


def _dead_lock(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.locked_by is None or queue.holder_online:
        return None
    return Reason("lock-of-a-dead-client", {"client": queue.locked_by})


def _reset(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.reset is None:
        return None
    return Reason("reset-pending", {"offset": queue.reset}, "popped" if queue.topic.popped else "")


def _broadcasting(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.behind is not None:
        return None
    if queue.held_by:
        return Reason("broadcasting", {"client": queue.held_by[0], "offset": queue.next_pull}, "waiting")
    if queue.pulled_ms_ago is not None:
        values: dict[str, Value] = {"client": queue.pulled_by, "ago_ms": queue.pulled_ms_ago, "offset": queue.next_pull}
        return Reason("broadcasting", values, "pulled")
    return Reason("broadcasting", variant="never")


def _popped(group: GroupState, queue: QueueState) -> Reason | None:
    if not queue.topic.popped:
        return None
    if queue.behind and queue.topic.lite_subscribed is False:
        return Reason("lite-unsubscribed", {"count": queue.behind})
    return Reason("popped", {"count": queue.behind}) if queue.behind else Reason("up-to-date", variant="popped")


def _no_match(group: GroupState, queue: QueueState) -> Reason | None:
    expression = queue.topic.expression
    if queue.checked == 0 or queue.matched or expression in (None, "*"):
        return None
    return Reason("nothing-matches", {"expression": expression, "count": queue.checked, "topic": queue.topic.topic})


def _not_chosen(group: GroupState, queue: QueueState) -> Reason | None:
    """Return the reason of a queue that no client chose, of a topic from which one that is no member chose others."""
    reader = queue.topic.other_reader
    if group.members or queue.other_reader is not None or reader is None:
        return None
    if not queue.behind:
        return Reason("up-to-date", {"end": queue.max_offset})
    return Reason("not-pulled", {"client": reader.client})


def _never_pulled(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.next_pull >= 0 or queue.held_by:
        return None
    if len(group.members) == 1 and _actively(group.members):
        return Reason("not-pulled", {"client": group.members[0].client_id})
    if (values := _moving(group, queue)) is not None:  # a full member commits long before it pulls from a new broker
        return Reason("slow", values, "unpulled")
    return Reason("not-owned", {"group": group.group, "members": len(group.members)})


def _moving(group: GroupState, queue: QueueState) -> dict[str, Value] | None:
    """Return the values of the reason of a queue with a lag whose committed offset still moves; None for another."""
    if not queue.behind or queue.moved_ms_ago is None or queue.moved_ms_ago >= _STILL_MS:
        return None
    return {"group": group.group, "count": queue.behind, "ago_ms": queue.moved_ms_ago}


def _puller_left(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.held_by or queue.puller_online or not queue.pulled_by:
        return None
    return Reason("owner-left", {"client": queue.pulled_by, "ago_ms": queue.pulled_ms_ago})


def _slow(group: GroupState, queue: QueueState) -> Reason | None:
    """Return the reason of a member that has all messages, or as many as it may, and still commits."""
    values = _moving(group, queue)
    if values is None:
        return None
    if not queue.held_by and (queue.pulled_ms_ago or 0) >= _PAUSED_MS:
        return None if _actively(group.members) else Reason("slow", {**values, "client": queue.pulled_by}, "full")
    if not _is_handed_out(group, queue) or not (client := queue.locked_by or queue.held_by[0]):
        return None
    return Reason("slow", {**values, "client": client})


def _paused(group: GroupState, queue: QueueState) -> Reason | None:
    ago_ms = queue.pulled_ms_ago
    if queue.held_by or ago_ms is None or ago_ms < _PAUSED_MS:
        return None
    values: dict[str, Value] = {"client": queue.pulled_by, "ago_ms": ago_ms, "count": queue.behind or 0}
    if _actively(group.members):
        return Reason("paused", values, "actively")
    return Reason("paused", {**values, "group": group.group}, "slave" if group.slave_reads else "")


def _at_the_end(group: GroupState, queue: QueueState) -> Reason | None:
    if queue.behind == 0:
        return Reason("up-to-date", {"end": queue.max_offset})
    if not _is_handed_out(group, queue):
        return None
    values: dict[str, Value] = {
        "group": group.group,
        "count": queue.behind,
        "client": queue.locked_by or queue.held_by[0],
        "ago_ms": min((each for each in (queue.moved_ms_ago, queue.oldest_ms_ago) if each is not None), default=None),
    }
    if not queue.locked_by:
        return Reason("not-committed", values)
    at: dict[str, Value] = {
        "topic": queue.topic.topic,
        "queue": queue.queue_id,
        "offset": queue.begin,
        "next": queue.begin + 1,
    }
    return Reason("order-stuck", {**values, **at, "age_ms": queue.oldest_ms_ago})


def _is_handed_out(group: GroupState, queue: QueueState) -> bool:
    """Return whether a member has had all messages of the queue, the oldest of them perhaps for a minute."""
    if queue.next_pull < queue.max_offset or not (queue.held_by or queue.locked_by):
        return False
    if group.slave_of:
        return False  # members commit at the master
    return queue.oldest_ms_ago is None or queue.oldest_ms_ago >= _STILL_MS


_RULES: tuple[_Rule, ...] = (
    _slave_forbids,
    _broker_forbids,
    _group_disabled,
    _topic_missing,
    _forbidden,
    _not_chosen,
    _nobody,
    _no_broadcasting,
    _not_subscribed,
    _filter_refused,
    _plugin_finding,
    _dead_lock,
    _reset,
    _different,
    _no_match,
    _broadcasting,
    _popped,
    _read_at_the_master,
    _never_pulled,
    _puller_left,
    _slow,
    _paused,
    _at_the_end,
)


def _actively(members: Sequence[MemberState]) -> bool:
    return all(each.consume_type == _PULLS_ITSELF for each in members)
