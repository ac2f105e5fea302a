"""English sentences for verdicts, for the command line. Pure."""

from __future__ import annotations

from gantrymq.commands.times import local_time
from gantrymq.model.subscription import TAG
from gantrymq_admin.consumption.facts import MessageFacts, Missing, Stage
from gantrymq_admin.consumption.verdicts import Reason, Verdict

__all__ = ["missing_sentence", "sentence"]


def sentence(message: MessageFacts, found: Verdict) -> str:
    """Return one sentence with the evidence of a verdict."""
    return _SENTENCES[found.reason](message, found)


def missing_sentence(missing: Missing) -> str:
    """Return what could not be asked, and why."""
    where = f" of {missing.broker}" if missing.broker else ""
    of_group = f" for group {missing.group}" if missing.group else ""
    return f"{missing.fact.value}{where}{of_group}: {missing.detail or _WHY.get(missing.why, missing.why)}"


_WHY = {
    "no-unique-id": "the message has no unique id, so its copies cannot be found",
    "not-indexed": "the broker's index does not have the message, so its copies cannot be found",
}


def _consumed(message: MessageFacts, found: Verdict) -> str:
    attempt, pop = found.attempt, found.facts.pop
    if attempt is None:
        assert pop is not None
        return f"popped at {_at(pop.popped_ms)} and acknowledged"
    took = "" if attempt.took_ms is None else f", which took {attempt.took_ms} ms"
    tries = f", after {_count(attempt.failures, 'failure')}" if attempt.failures else ""
    other = f"; {message.same_id} other messages have the same unique id" if message.same_id else ""
    return f"traced as consumed by {attempt.client_host} at {_at(attempt.ended_ms)}{took}{tries}{other}"


def _dead_letter(_message: MessageFacts, found: Verdict) -> str:
    copy = found.copy
    assert copy is not None
    return (
        f"in {copy.topic} since {_at(copy.stored_ms)}, {copy.broker}:{copy.queue_id} @{copy.queue_offset}, after "
        f"{_count(copy.failures, 'failure')}"
    )


def _waiting_retry(_message: MessageFacts, found: Verdict) -> str:
    copy = found.copy
    assert copy is not None
    failed = f"failed {_count(copy.failures, 'time')}"
    if copy.stage is Stage.DELAYED:
        return f"{failed}; the next try is due at {_at(copy.due_ms)}"
    return (
        f"{failed}; the next try is in {copy.topic}, {copy.broker}:{copy.queue_id} @{copy.queue_offset}, and the group "
        f"is at {copy.committed or 0}"
    )


def _after_retries(_message: MessageFacts, found: Verdict) -> str:
    copy = found.copy
    assert copy is not None
    failed = f"failed {_count(copy.failures, 'time')}"
    return (
        f"{failed}; the last copy is at {copy.queue_offset} of {copy.topic}, the group at {copy.committed}: consumed, "
        "filtered out, or skipped by a reset"
    )


def _handed_out(message: MessageFacts, found: Verdict) -> str:
    facts, offset = found.facts, message.queue_offset
    if facts.pop is not None:
        return f"popped at {_at(facts.pop.popped_ms)}, invisible to others until {_at(facts.pop.visible_ms)}"
    if found.copy is not None:
        return f"a retry was pulled: the copy is at {found.copy.queue_offset}, pulled up to {found.copy.pulled}"
    holder = next((each for each in facts.positions if each.may_hold(offset)), None)
    if holder is not None:
        cached = f"{_count(holder.cached_count, 'message')} from {holder.cached_min} to {holder.cached_max}"
        return f"position {offset}; {holder.client_id} has {cached} in memory, not consumed yet"
    if found.attempt is not None:
        return f"delivered to {found.attempt.client_host} at {_at(found.attempt.began_ms)}; not committed"
    return f"pulled: position {offset}, pulled up to {facts.pulled}, committed {_number(facts.committed)}"


def _not_yet(message: MessageFacts, found: Verdict) -> str:
    at, pulled = found.facts.committed or 0, found.facts.pulled or 0
    before = (
        f"; pulled up to {pulled} by a member that left, or before a reset" if pulled > message.queue_offset else ""
    )
    owner = f"; the queue is read by {found.facts.positions[0].client_id}" if found.facts.positions else ""
    return (
        f"position {message.queue_offset}, committed {at}, {message.queue_offset - at} messages before it"
        f"{owner}{before}; not consumed since the offset was last set back, if it was: it may have been consumed before"
    )


def _failed(_message: MessageFacts, found: Verdict) -> str:
    attempt = found.attempt
    assert attempt is not None
    return f"traced as failed at {attempt.client_host} at {_at(attempt.ended_ms)}; no copy for another try was found"


def _filtered(message: MessageFacts, found: Verdict) -> str:
    subscription = found.facts.subscription
    assert subscription is not None
    tag = f" (tag {message.tags!r})" if message.tags else " (no tag)"
    what = f"the message{tag}" if subscription.type == TAG else "the message, by its properties,"
    text = f"{subscription.type} {subscription.expression!r}"
    since_ms = found.facts.subscribed_ms
    since = f"since {_at(since_ms)} at the latest" if since_ms is not None else "since an unknown time"
    return f"{what} does not match the present subscription, {text} {since}"


def _passed(message: MessageFacts, found: Verdict) -> str:
    facts = found.facts
    by_member = next((each for each in facts.positions if each.committed > message.queue_offset), None)
    if (facts.committed or 0) <= message.queue_offset and by_member is not None:
        return f"position {message.queue_offset}, and {by_member.client_id} is at {by_member.committed}, soon committed"
    return (
        f"position {message.queue_offset}, committed {facts.committed}: consumed, filtered out, or skipped by a "
        "reset; without message trace nobody records which"
    )


def _popped(message: MessageFacts, found: Verdict) -> str:
    if found.copy is not None:
        return f"popped again {_count(found.copy.failures, 'time')}; acknowledged, or still invisible"
    return (
        f"position {message.queue_offset}, popped up to {found.facts.committed}: acknowledged, or still invisible to "
        "others"
    )


def _broadcasting(message: MessageFacts, found: Verdict) -> str:
    past = sum(each.committed > message.queue_offset for each in found.facts.positions)
    asked = len(found.facts.positions)
    told = f"; {past} of {asked} members asked have passed it" if asked else ""
    return f"each member keeps its own position{told}"


def _no_position(_message: MessageFacts, found: Verdict) -> str:
    if found.facts.members:
        return "never committed in this queue"
    return "offline, and never committed in this queue"


def _unknown(message: MessageFacts, found: Verdict) -> str:
    at = found.facts.committed
    position = "" if at is None else f"position {message.queue_offset}, committed {at}; "
    return f"{position}not known: {', '.join(sorted(each.value for each in found.lacking))}"


_SENTENCES = {
    Reason.CONSUMED: _consumed,
    Reason.DEAD_LETTER: _dead_letter,
    Reason.WAITING_RETRY: _waiting_retry,
    Reason.CONSUMED_AFTER_RETRIES: _after_retries,
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


def _count(number: int | None, noun: str) -> str:
    return f"{number or 0} {noun}{'' if number == 1 else 's'}"


def _number(number: int | None) -> str:
    return "nothing" if number is None else str(number)


def _at(ms: int | None) -> str:
    if ms is None:
        return "an unknown time"
    return local_time(ms, fraction=True)
