"""Texts for verdicts: which sentence tells the evidence, and its fields. Pure.

The sentences on the command line are in `gantrymq_admin.consumption.sentences`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from gantrymq.model.subscription import TAG
from gantrymq_admin.consumption import MessageFacts, Reason, Stage, Verdict

__all__ = ["SIGNS", "Evidence", "evidence"]

SIGNS: Final = {
    Reason.CONSUMED: "good",
    Reason.CONSUMED_AFTER_RETRIES: "unknown",
    Reason.DEAD_LETTER: "bad",
    Reason.FAILED: "bad",
    Reason.WAITING_RETRY: "warn",
    Reason.NOT_YET: "warn",
    Reason.HANDED_OUT: "warn",
    Reason.FILTERED: "unknown",
    Reason.PASSED: "unknown",
    Reason.POPPED: "unknown",
    Reason.BROADCASTING: "unknown",
    Reason.NO_POSITION: "unknown",
    Reason.UNKNOWN: "unknown",
}
"""Words of the macro ``status`` by reason."""


@attrs.frozen
class Evidence:
    """One sentence: key of the text, and fields; those in *times* are times in ms."""

    key: str
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    times: Mapping[str, int | None] = attrs.field(factory=dict)


def evidence(message: MessageFacts, found: Verdict) -> Evidence:
    """Return the sentence with the evidence of a verdict."""
    return _EVIDENCE[found.reason](message, found)


def _consumed(message: MessageFacts, found: Verdict) -> Evidence:
    attempt, pop = found.attempt, found.facts.pop
    if attempt is None:
        assert pop is not None
        return Evidence("message.evidence.acknowledged", times={"time": pop.popped_ms})
    fields = {"client": attempt.client_host, "took": attempt.took_ms or 0, "failures": attempt.failures or 0}
    key = "message.evidence.consumed_same_id" if message.same_id else "message.evidence.consumed"
    return Evidence(key, {**fields, "count": message.same_id}, {"time": attempt.ended_ms})


def _of_copy(key: str) -> Callable[[MessageFacts, Verdict], Evidence]:
    def sentence(_message: MessageFacts, found: Verdict) -> Evidence:
        copy = found.copy
        assert copy is not None
        fields = {
            "topic": copy.topic,
            "queue": f"{copy.broker}:{copy.queue_id}",
            "offset": copy.queue_offset,
            "committed": copy.committed or 0,
            "pulled": copy.pulled or 0,
            "count": copy.failures,
        }
        return Evidence(f"message.evidence.{key}", fields, {"time": copy.stored_ms, "due": copy.due_ms})

    return sentence


def _waiting(message: MessageFacts, found: Verdict) -> Evidence:
    assert found.copy is not None
    delayed = found.copy.stage is Stage.DELAYED
    return _of_copy("waiting_delayed" if delayed else "waiting_retry")(message, found)


def _handed_out(message: MessageFacts, found: Verdict) -> Evidence:
    facts, offset = found.facts, message.queue_offset
    if facts.pop is not None:
        times = {"time": facts.pop.popped_ms, "until": facts.pop.visible_ms}
        return Evidence("message.evidence.handed_out_popped", times=times)
    if found.copy is not None:
        return _of_copy("handed_out_copy")(message, found)
    holder = next((each for each in facts.positions if each.may_hold(offset)), None)
    if holder is not None:
        key = "handed_out_held" if holder.holds(offset) else "handed_out_near"
        return Evidence(f"message.evidence.{key}", {"client": holder.client_id, "count": holder.cached_count})
    if found.attempt is not None:
        host = found.attempt.client_host
        return Evidence("message.evidence.handed_out_tried", {"client": host}, {"time": found.attempt.began_ms})
    fields = {"offset": offset, "pulled": facts.pulled or 0, "committed": facts.committed or 0}
    return Evidence("message.evidence.handed_out_pulled", fields)


def _not_yet(message: MessageFacts, found: Verdict) -> Evidence:
    at = found.facts.committed or 0
    fields = {"offset": message.queue_offset, "committed": at, "count": message.queue_offset - at}
    if found.facts.positions:
        return Evidence("message.evidence.not_yet_owned", {**fields, "client": found.facts.positions[0].client_id})
    if (found.facts.pulled or 0) > message.queue_offset:
        return Evidence("message.evidence.not_yet_pulled", {**fields, "pulled": found.facts.pulled})
    return Evidence("message.evidence.not_yet", fields)


def _failed(_message: MessageFacts, found: Verdict) -> Evidence:
    attempt = found.attempt
    assert attempt is not None
    return Evidence("message.evidence.failed", {"client": attempt.client_host}, {"time": attempt.ended_ms})


def _filtered(message: MessageFacts, found: Verdict) -> Evidence:
    subscription = found.facts.subscription
    assert subscription is not None
    expression = f"{subscription.type} {subscription.expression}"
    by_tag = subscription.type == TAG
    key = "message.evidence." + (
        "filtered_properties" if not by_tag else "filtered_tag" if message.tags else "filtered"
    )
    fields, since_ms = {"tag": message.tags or "", "expression": expression}, found.facts.subscribed_ms
    return Evidence(f"{key}_since", fields, {"time": since_ms}) if since_ms is not None else Evidence(key, fields)


def _passed(message: MessageFacts, found: Verdict) -> Evidence:
    facts = found.facts
    by_member = next((each for each in facts.positions if each.committed > message.queue_offset), None)
    fields = {"offset": message.queue_offset, "committed": facts.committed or 0}
    if (facts.committed or 0) <= message.queue_offset and by_member is not None:
        fields["committed"] = by_member.committed
        return Evidence("message.evidence.passed_member", {**fields, "client": by_member.client_id})
    return Evidence("message.evidence.passed", fields)


def _popped(message: MessageFacts, found: Verdict) -> Evidence:
    if found.copy is not None:
        return _of_copy("popped_copy")(message, found)
    fields = {"offset": message.queue_offset, "committed": found.facts.committed or 0}
    return Evidence("message.evidence.popped", fields)


def _broadcasting(message: MessageFacts, found: Verdict) -> Evidence:
    asked = len(found.facts.positions)
    past = sum(each.committed > message.queue_offset for each in found.facts.positions)
    if asked:
        return Evidence("message.evidence.broadcasting_asked", {"past": past, "count": asked})
    return Evidence("message.evidence.broadcasting")


def _no_position(_message: MessageFacts, found: Verdict) -> Evidence:
    return Evidence(f"message.evidence.{'no_position' if found.facts.members else 'no_position_offline'}")


def _unknown(_message: MessageFacts, found: Verdict) -> Evidence:
    lacking = ", ".join(sorted(each.value for each in found.lacking))
    return Evidence("message.evidence.unknown", {"facts": lacking})


_EVIDENCE: Final = {
    Reason.CONSUMED: _consumed,
    Reason.DEAD_LETTER: _of_copy("dead_letter"),
    Reason.WAITING_RETRY: _waiting,
    Reason.CONSUMED_AFTER_RETRIES: _of_copy("after_retries"),
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
