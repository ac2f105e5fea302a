"""What happened to a message, in the order of time: from its record, copies, pop in flight and the message trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.plugin.client import EndTransaction, Pub, SubAfter, SubBefore
from gantrymq_admin.consumption import Copy, Stage, Traced, Verdict
from gantrymq_console.data.messages import MessageDetails
from gantrymq_console.data.resends import SentAgain

MOST: Final = 200
_END_MS: Final = 253_402_300_800_000  # of the year 9999
_ORDER: Final = ("born", "sent", "not_sent", "stored", "delivered")  # of events in one millisecond; others are later
_OF_PRODUCERS: Final = (
    "born",
    "sent",
    "not_sent",
    "stored",
    "committed",
    "rolled_back",
    "undecided",
)  # and those without a group
_STATES: Final = {"COMMIT_MESSAGE": "committed", "ROLLBACK_MESSAGE": "rolled_back"}
_STAGES: Final = {Stage.DELAYED: "put_back", Stage.RETRY: "retried", Stage.DEAD_LETTER: "dead_letter"}


@attrs.frozen
class Moment:
    """One event, with the key and the fields of its sentence."""

    time_ms: int | None  # None: not recorded
    key: str
    sign: str  # good, warn, bad or unknown
    fields: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def word(self) -> str:
        """The kind of event."""
        return self.key.rpartition(".")[2]

    @property
    def group(self) -> str:
        """The consumer group; empty for events of producers and brokers."""
        return "" if self.word in _OF_PRODUCERS else str(self.fields.get("group", ""))


def timeline(
    message: MessageDetails, trace: Sequence[Traced], verdicts: Sequence[Verdict] = (), again: SentAgain | None = None
) -> list[Moment]:
    """Return up to `MOST` events of a message in the order of time; last those whose time is not recorded.

    Times in a trace are from the clock of the client that wrote it. A group without any event is not in the list: its
    verdict follows from positions, which have no times.
    """
    stored = {"broker": message.broker or message.store_host}
    found = [Moment(message.stored_ms, "message.line.stored", "good", stored)]
    if not any(isinstance(each.record, Pub) for each in trace):
        found.append(Moment(message.born_ms, "message.line.born", "unknown", {"client": message.born_host}))
    groups = {each.record.request_id: each.record.group for each in trace if isinstance(each.record, SubBefore)}
    found += [_moment(each, groups) for each in trace]
    for each in verdicts:
        found += [_copy(each.group, copy) for copy in each.facts.copies]
        if each.facts.pop is not None:
            popped = {"group": each.group, "visible_at": each.facts.pop.visible_ms}
            found.append(Moment(each.facts.pop.popped_ms, "message.line.popped", "unknown", popped))
    if again is not None and again.state != "no":
        word = "sending_again" if again.state == "unknown" else "sent_again_by" if again.by else "sent_again"
        fields = {"topic": again.topic, "user": again.by}
        found.append(Moment(again.time_ms, f"message.line.{word}", "good" if again.state == "yes" else "warn", fields))
    found = [each if _is_time(each.time_ms) else attrs.evolve(each, time_ms=None) for each in found]
    found.sort(key=_order)
    return found[:MOST]


def _is_time(ms: int | None) -> bool:
    """Return whether a page can show a time. Clients write theirs as they like, with hundreds of digits."""
    return ms is not None and 0 < ms < _END_MS


def _order(moment: Moment) -> tuple[int, int]:
    at = moment.time_ms if moment.time_ms is not None else 2**63
    return at, _ORDER.index(moment.word) if moment.word in _ORDER else len(_ORDER)


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
            word = _STATES.get(record.state, "undecided")
            fields = {"client": client, "group": record.group}
            return Moment(record.time_ms, f"message.line.{word}", "unknown", fields)


def _copy(group: str, copy: Copy) -> Moment:
    """Return the event that stored a copy, because a group failed to consume the message."""
    fields: dict[str, Any] = {"group": group, "failures": copy.failures, "broker": copy.broker}
    if copy.stage is Stage.DELAYED:
        fields["due_at"] = copy.due_ms
    sign = "bad" if copy.stage is Stage.DEAD_LETTER else "warn"
    return Moment(copy.stored_ms, f"message.line.{_STAGES[copy.stage]}", sign, fields)


def _sign(success: bool) -> str:
    return "good" if success else "bad"
