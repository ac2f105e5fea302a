"""Events of a message, in the order of time: from its record and from the message trace. Pure.

Times in a trace are from the clock of the client that wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.client.tracing.records import EndTransaction, Pub, SubAfter, SubBefore
from gantrymq_admin.consumption import Traced
from gantrymq_console.data.messages import MessageFacts

__all__ = ["Moment", "timeline"]

MOST: Final = 200
ORDER: Final = ("born", "sent", "not_sent", "stored", "delivered")  # of events in one millisecond; others are later
STATES: Final = {"COMMIT_MESSAGE": "committed", "ROLLBACK_MESSAGE": "rolled_back"}


@attrs.frozen
class Moment:
    """One event, with the key and the fields of its sentence."""

    time_ms: int | None  # None: not recorded
    key: str
    sign: str  # good, bad or unknown
    fields: Mapping[str, Any] = attrs.field(factory=dict)


def timeline(message: MessageFacts, trace: Sequence[Traced]) -> list[Moment]:
    """Return up to `MOST` events of a message."""
    stored = {"broker": message.broker or message.store_host}
    found = [Moment(message.stored_ms, "message.line.stored", "good", stored)]
    if not any(isinstance(each.record, Pub) for each in trace):
        found.append(Moment(message.born_ms, "message.line.born", "unknown", {"client": message.born_host}))
    groups = {each.record.request_id: each.record.group for each in trace if isinstance(each.record, SubBefore)}
    found += [_moment(each, groups) for each in trace]
    found.sort(key=_order)
    return found[:MOST]


def _order(moment: Moment) -> tuple[int, int]:
    word = moment.key.rpartition(".")[2]
    at = moment.time_ms if moment.time_ms is not None else 2**63
    return at, ORDER.index(word) if word in ORDER else len(ORDER)


def _moment(traced: Traced, groups: Mapping[str, str]) -> Moment:
    record, client = traced.record, traced.born_host
    match record:
        case Pub():
            sent = "sent" if record.success else "not_sent"
            fields = {"client": client, "group": record.group, "took": record.cost_ms}
            return Moment(record.time_ms, f"message.line.{sent}", _sign(record.success), fields)
        case SubBefore():
            fields = {"client": client, "group": record.group, "failures": record.retry_times}
            return Moment(record.time_ms, "message.line.delivered", "unknown", fields)
        case SubAfter():
            ended = "consumed" if record.success else "failed"
            group = record.group or groups.get(record.request_id, "")
            fields = {"client": client, "group": group, "took": record.cost_ms}
            return Moment(record.time_ms or None, f"message.line.{ended}", _sign(record.success), fields)
        case EndTransaction():
            word = STATES.get(record.state, "undecided")
            fields = {"client": client, "group": record.group}
            return Moment(record.time_ms, f"message.line.{word}", "unknown", fields)


def _sign(success: bool) -> str:
    return "good" if success else "bad"
