"""The JSON response to request 65021: the state of a group, and the reasons that explain it.

Members that are not known are null, except numbers that older tools cannot do without: these are 0 then, and
``behind_known`` or ``lag_known`` beside them is false.
"""

from __future__ import annotations

from typing import Any

from gantrymq_diagnosis.gather import GroupSnapshot
from gantrymq_diagnosis.group_state import GroupState, QueueState
from gantrymq_diagnosis.reasons import explain_group, explain_queue


def as_json(broker: str, policy: str, snapshot: GroupSnapshot) -> dict[str, Any]:
    """Return everything except the queues; `queue_json` returns each of them."""
    group = snapshot.group
    ages = [each.oldest_ms_ago if each.behind or each.behind is None else 0 for each in snapshot.queues]
    may_broadcast = not (snapshot.queues or group.members) and group.consume_broadcast_enable
    return {
        "broker": broker,
        "group": group.group,
        "policy": policy,
        "behind": sum(each.behind or 0 for each in snapshot.queues),
        "behind_known": not may_broadcast and all(each.behind is not None for each in snapshot.queues),
        "deleted": group.deleted,
        "lag_ms": max((each for each in ages if each is not None), default=0),
        "lag_known": not may_broadcast and None not in ages,
        "members": [
            {
                "client_id": each.client_id,
                "address": each.address,
                "consume_type": each.consume_type,
                "message_model": each.message_model,
                "topics": sorted(each.topics),
            }
            for each in group.members
        ],
        "conflicts": [
            {"kind": each.kind.value, "topic": each.topic, **each.reason.as_json()} for each in group.conflicts
        ],
        "retry": {
            "behind": group.retry_behind,
            "waiting": group.retry_waiting,
            "waiting_more": group.retry_waiting_more,
            "next_due_ms": group.retry_due_ms,
        },
        "dead_letters": group.dead_letters,
        "diagnosis": [each.as_json() for each in explain_group(group, snapshot.topics, snapshot.taken_ms)],
    }


def queue_json(group: GroupState, queue: QueueState) -> dict[str, Any]:
    """Return one queue; unknown values are null."""
    rate = queue.hit_rate
    return {
        "topic": queue.topic.topic,
        "queue": queue.queue_id,
        "owner": queue.owner,
        "last_pull_ms_ago": queue.pulled_ms_ago,
        "moved_ms_ago": queue.moved_ms_ago,
        "last_pull_by": queue.pulled_by or None,
        "next_pull": queue.next_pull if queue.next_pull >= 0 else None,
        "committed": queue.committed,
        "min_offset": queue.min_offset,
        "max_offset": queue.max_offset,
        "held": list(queue.held_by),
        "hit_rate": None if rate is None else round(rate, 4),
        "behind": queue.behind or 0,  # a number, because older tools expect one
        "behind_known": queue.behind is not None,
        "deleted": queue.deleted,
        "lag_ms": queue.oldest_ms_ago if queue.behind or queue.behind is None else 0,
        "locked_by": queue.locked_by,
        "reset_to": queue.reset,
        **explain_queue(group, queue).as_json(),
    }
