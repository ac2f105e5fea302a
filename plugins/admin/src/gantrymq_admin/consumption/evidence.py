"""The evidence of verdicts as a word and values; ``texts/`` has the sentences of each language. Pure."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import attrs

from gantrymq.plugin.commands import local_time
from gantrymq.plugin.model import TAG, MessageQueue, Text, Value, sentence_of, texts_in
from gantrymq_admin.consumption.facts import Copy, MessageFacts, MissingFact, Stage
from gantrymq_admin.consumption.gather import Consumption
from gantrymq_admin.consumption.verdicts import Reason, Verdict


@attrs.frozen
class Evidence:
    """One sentence: the key of its text, and values.

    Values whose names end in ``_at`` are wall times in ms, None if unknown; ``facts`` are words of `Fact`, separated by
    spaces.
    """

    word: str
    values: Mapping[str, Value] = attrs.field(factory=dict)


def evidence(message: MessageFacts, found: Verdict) -> Evidence:
    """Return the evidence of a verdict."""
    return _EVIDENCE[found.reason](message, found)


def _consumed(message: MessageFacts, found: Verdict) -> Evidence:
    attempt, pop = found.attempt, found.facts.pop
    if attempt is None:
        assert pop is not None
        return Evidence("acknowledged", {"time_at": pop.popped_ms})
    values: dict[str, Value] = {
        "client": attempt.client_host,
        "time_at": attempt.ended_ms,
        "took_ms": attempt.took_ms,
        "failures": attempt.failures,
    }
    if message.same_id:
        return Evidence("consumed_same_id", {**values, "count": message.same_id})
    return Evidence("consumed", values)


def _of_copy(word: str, copy: Copy | None) -> Evidence:
    assert copy is not None
    return Evidence(
        word,
        {
            "topic": copy.topic,
            "queue": f"{copy.broker}:{copy.queue_id}",
            "offset": copy.queue_offset,
            "committed": copy.committed or 0,
            "pulled": copy.pulled or 0,
            "count": copy.failures,
            "time_at": copy.stored_ms,
            "due_at": copy.due_ms,
        },
    )


def _waiting(_message: MessageFacts, found: Verdict) -> Evidence:
    delayed = found.copy is not None and found.copy.stage is Stage.DELAYED
    return _of_copy("waiting_delayed" if delayed else "waiting_retry", found.copy)


def _handed_out(message: MessageFacts, found: Verdict) -> Evidence:
    facts, offset = found.facts, message.queue_offset
    if facts.pop is not None:
        return Evidence("handed_out_popped", {"time_at": facts.pop.popped_ms, "until_at": facts.pop.visible_ms})
    if found.copy is not None:
        return _of_copy("handed_out_copy", found.copy)
    holder = next((each for each in facts.positions if each.may_hold(offset)), None)
    if holder is not None:
        cached = {"count": holder.cached_count, "first": holder.cached_min, "last": holder.cached_max}
        word = "handed_out_held" if holder.holds(offset) else "handed_out_near"
        return Evidence(word, {"client": holder.client_id, **cached})
    if found.attempt is not None:
        values = {"client": found.attempt.client_host, "time_at": found.attempt.began_ms}
        return Evidence("handed_out_tried", values)
    pulled: dict[str, Value] = {"offset": offset, "pulled": facts.pulled or 0}
    if facts.committed is None:
        return Evidence("handed_out_first", pulled)
    return Evidence("handed_out_pulled", {**pulled, "committed": facts.committed})


def _not_yet(message: MessageFacts, found: Verdict) -> Evidence:
    at, pulled = found.facts.committed or 0, found.facts.pulled or 0
    values: dict[str, Value] = {"offset": message.queue_offset, "committed": at, "count": message.queue_offset - at}
    if found.facts.positions:
        return Evidence("not_yet_owned", {**values, "client": found.facts.positions[0].client_id})
    if pulled > message.queue_offset:
        return Evidence("not_yet_pulled", {**values, "pulled": pulled})
    return Evidence("not_yet", values)


def _failed(_message: MessageFacts, found: Verdict) -> Evidence:
    assert found.attempt is not None
    return Evidence("failed", {"client": found.attempt.client_host, "time_at": found.attempt.ended_ms})


def _filtered(message: MessageFacts, found: Verdict) -> Evidence:
    subscription, since_ms = found.facts.subscription, found.facts.subscribed_ms
    assert subscription is not None
    word = "filtered_properties" if subscription.type != TAG else "filtered_tag" if message.tags else "filtered"
    values: dict[str, Value] = {
        "tag": message.tags or "",
        "expression": f"{subscription.type} {subscription.expression}",
    }
    return Evidence(word, values) if since_ms is None else Evidence(f"{word}_since", {**values, "time_at": since_ms})


def _passed(message: MessageFacts, found: Verdict) -> Evidence:
    facts, offset = found.facts, message.queue_offset
    by_member = next((each for each in facts.positions if each.committed > offset), None)
    if (facts.committed or 0) <= offset and by_member is not None:
        at_member: dict[str, Value] = {"client": by_member.client_id, "committed": by_member.committed}
        return Evidence("passed_member", {"offset": offset, **at_member})
    return Evidence("passed", {"offset": offset, "committed": facts.committed or 0})


def _popped(message: MessageFacts, found: Verdict) -> Evidence:
    if found.copy is not None:
        return _of_copy("popped_copy", found.copy)
    return Evidence("popped", {"offset": message.queue_offset, "committed": found.facts.committed or 0})


def _broadcasting(message: MessageFacts, found: Verdict) -> Evidence:
    positions = found.facts.positions
    if not positions:
        return Evidence("broadcasting")
    past = sum(each.committed > message.queue_offset for each in positions)
    return Evidence("broadcasting_asked", {"past": past, "count": len(positions)})


def _no_position(_message: MessageFacts, found: Verdict) -> Evidence:
    return Evidence("no_position" if found.facts.members else "no_position_offline")


def _unknown(_message: MessageFacts, found: Verdict) -> Evidence:
    return Evidence("unknown", {"facts": " ".join(sorted(each.value for each in found.lacking))})


_EVIDENCE: Final[Mapping[Reason, Callable[[MessageFacts, Verdict], Evidence]]] = {
    Reason.CONSUMED: _consumed,
    Reason.DEAD_LETTER: lambda _, found: _of_copy("dead_letter", found.copy),
    Reason.WAITING_RETRY: _waiting,
    Reason.CONSUMED_AFTER_RETRIES: lambda _, found: _of_copy("after_retries", found.copy),
    Reason.HANDED_OUT: _handed_out,
    Reason.NOT_YET: _not_yet,
    Reason.FAILED: _failed,
    Reason.FILTERED: _filtered,
    Reason.PASSED: _passed,
    Reason.POPPED: _popped,
    Reason.BROADCASTING: _broadcasting,
    Reason.NO_POSITION: _no_position,
    Reason.UNKNOWN: _unknown,
}


def sentence(message: MessageFacts, found: Verdict) -> str:
    """Return one sentence with the evidence of a verdict."""
    said = evidence(message, found)
    return sentence_of(
        _texts("evidence")[said.word], {name: _shown(name, value) for name, value in said.values.items()}
    )


@cache
def _texts(part: str) -> Mapping[str, Text]:
    texts: Mapping[str, Text] = texts_in("gantrymq_admin", "en")[part]
    return texts


def _shown(name: str, value: Value) -> Value:
    if name == "facts":
        return ", ".join(str(_texts(name)[word]) for word in str(value).split())
    if not name.endswith("_at"):
        return value
    return local_time(value, fraction=True) if isinstance(value, int) else "an unknown time"


def missing_sentence(missing: MissingFact) -> str:
    """Return what could not be asked, and why."""
    where = f" of {missing.broker}" if missing.broker else ""
    of_group = f" for group {missing.group}" if missing.group else ""
    return f"{missing.fact.value}{where}{of_group}: {missing.detail or _WHY.get(missing.why, missing.why)}"


_WHY = {
    "no-unique-id": "the message has no unique id, so its copies cannot be found",
    "not-indexed": "the broker's index does not have the message, so its copies cannot be found",
}


def as_json(found: Consumption) -> dict[str, Any]:
    """Return the members of a consumption."""
    return {
        "kind": found.kind.value,
        "message": None if found.message is None else _members(found.message),
        "groups": [_verdict(each) for each in found.verdicts],
        "group_count": found.group_count,
        "others": list(found.others),
        "traced": found.traced,
        "trace_topics": list(found.trace_topics),
        "transaction": found.transaction,
        "due_ms": found.due_ms,
        "light": [{**_members(each), "passed": each.passed} for each in found.light],
        "missing": [_members(each) for each in found.missing],
    }


def _verdict(found: Verdict) -> dict[str, Any]:
    return {
        "group": found.group,
        "reason": found.reason.value,
        "certainty": found.certainty.value,
        "lacking": sorted(each.value for each in found.lacking),
        "copy": None if found.copy is None else _members(found.copy),
        "attempt": None if found.attempt is None else _members(found.attempt),
        **{name: value for name, value in _members(found.facts).items() if name != "group"},
    }


def _members(record: attrs.AttrsInstance) -> dict[str, Any]:
    return {field.name: _value(getattr(record, field.name)) for field in attrs.fields(type(record))}


def _value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, MessageQueue):
        return {"topic": value.topic, "broker": value.broker_name, "queue": value.queue_id}
    if isinstance(value, frozenset):
        return sorted(each.value for each in value)
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return _members(value) if attrs.has(type(value)) else value
