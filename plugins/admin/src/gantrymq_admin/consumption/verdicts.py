"""The verdict on one group: whether it consumed the message, and how sure that is. Pure.

Brokers store how far a group has read, not which messages it consumed. Only the trace, and the copies of failed
messages, tell more. The rules, in order:

    trace with a success                                consumed
    newest copy in %DLQ%group                           dead-letter
    newest copy delayed, or at or after the position    waiting-retry, handed-out
    newest copy before the position                     consumed-after-retries
    broadcasting members                                broadcasting
    subscription does not match                         filtered
    trace with a failure, no copy                       failed
    position after the message                          passed, popped
    pulled, or held by a member                         handed-out
    position at or before the message                   not-yet
    no position                                         no-position
    a fact is missing that could change the verdict     unknown

The committed offset is that of the next message, so the message has been passed only if its offset is lower
(apache/rocketmq PR 10595).
"""

from __future__ import annotations

import enum

import attrs

from gantrymq_admin.consumption.facts import COPIES, Copy, Fact, Fit, GroupFacts, MessageFacts, Stage, Try

__all__ = ["Certainty", "Reason", "Verdict", "verdict"]


class Reason(enum.Enum):
    """Verdicts; the words are stable."""

    CONSUMED = "consumed"
    DEAD_LETTER = "dead-letter"
    WAITING_RETRY = "waiting-retry"
    CONSUMED_AFTER_RETRIES = "consumed-after-retries"
    HANDED_OUT = "handed-out"
    NOT_YET = "not-yet"
    FAILED = "failed"
    FILTERED = "filtered"
    PASSED = "passed"
    POPPED = "popped"
    BROADCASTING = "broadcasting"
    NO_POSITION = "no-position"
    UNKNOWN = "unknown"


class Certainty(enum.Enum):
    """How sure a verdict is."""

    CERTAIN = "certain"  # a server or a client recorded it
    LIKELY = "likely"  # it follows from positions, which have other explanations too
    UNKNOWN = "unknown"  # nobody records it, or it could not be asked


@attrs.frozen
class Verdict:
    """The verdict on one group, with its evidence."""

    facts: GroupFacts
    reason: Reason
    certainty: Certainty
    copy: Copy | None = None  # the copy that decided
    attempt: Try | None = None  # the try that decided
    lacking: frozenset[Fact] = frozenset()  # missing facts because of which the verdict is UNKNOWN

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.facts.group


def verdict(message: MessageFacts, facts: GroupFacts) -> Verdict:
    """Return the verdict on one group."""
    success = next((each for each in reversed(facts.tries) if each.success), None)
    if success is not None:
        certainty = Certainty.LIKELY if message.same_id else Certainty.CERTAIN
        return Verdict(facts, Reason.CONSUMED, certainty, attempt=success)
    newest = max(facts.copies, key=lambda copy: copy.order, default=None)
    if newest is not None:
        return _by_copy(facts, newest)
    if facts.model == "BROADCASTING":
        attempt = facts.tries[-1] if facts.tries else None
        return Verdict(facts, Reason.BROADCASTING, Certainty.UNKNOWN, attempt=attempt)
    if facts.fit is Fit.DIFFERS and not facts.tries:
        return Verdict(facts, Reason.FILTERED, Certainty.LIKELY)
    if Fact.COMMITTED in facts.unknown:
        return _unknown(facts, Fact.COMMITTED)
    return _by_position(message, facts)


def _by_copy(facts: GroupFacts, copy: Copy) -> Verdict:
    """Return the verdict if the message failed at least once; *copy* is the newest one."""
    if copy.stage is Stage.DEAD_LETTER:
        return Verdict(facts, Reason.DEAD_LETTER, Certainty.CERTAIN, copy)
    if copy.stage is Stage.DELAYED:
        if facts.unknown & {Fact.RETRIES, Fact.DEAD_LETTERS}:  # it may have been delivered meanwhile
            return _unknown(facts, Fact.RETRIES, Fact.DEAD_LETTERS, copy=copy)
        return Verdict(facts, Reason.WAITING_RETRY, Certainty.CERTAIN, copy)
    if copy.committed is None and Fact.RETRIES in facts.unknown:
        return _unknown(facts, Fact.RETRIES, copy=copy)
    if (copy.committed or 0) <= copy.queue_offset:
        if (copy.pulled or 0) > copy.queue_offset:
            return Verdict(facts, Reason.HANDED_OUT, Certainty.LIKELY, copy)
        return Verdict(facts, Reason.WAITING_RETRY, Certainty.LIKELY, copy)
    if facts.unknown & {Fact.DELAYED, Fact.DEAD_LETTERS, Fact.RETRIES}:  # a newer copy may be there
        return _unknown(facts, Fact.DELAYED, Fact.DEAD_LETTERS, Fact.RETRIES, copy=copy)
    if copy.popped:
        return Verdict(facts, Reason.POPPED, Certainty.LIKELY, copy)
    return Verdict(facts, Reason.CONSUMED_AFTER_RETRIES, Certainty.LIKELY, copy)


def _by_position(message: MessageFacts, facts: GroupFacts) -> Verdict:
    """Return the verdict if no copy was found."""
    offset = message.queue_offset
    last = facts.tries[-1] if facts.tries else None
    owner = next((each for each in facts.positions if each.committed > offset), None)
    passed = (facts.committed is not None and facts.committed > offset) or owner is not None
    if passed:
        if facts.unknown & COPIES:
            return _unknown(facts, *COPIES)
        if last is not None and last.success is False:
            return Verdict(facts, Reason.FAILED, Certainty.LIKELY, attempt=last)
        return Verdict(facts, Reason.POPPED if facts.pops else Reason.PASSED, Certainty.LIKELY, attempt=last)
    if any(each.holds(offset) for each in facts.positions):
        return Verdict(facts, Reason.HANDED_OUT, Certainty.CERTAIN, attempt=last)
    if last is not None or (facts.pulled or 0) > offset:
        return Verdict(facts, Reason.HANDED_OUT, Certainty.LIKELY, attempt=last)
    could_hold = facts.members or Fact.MEMBERS in facts.unknown  # consumed messages are committed every 5 s
    if could_hold and facts.pulled is None and not facts.positions:
        return _unknown(facts, Fact.PULLED, Fact.MEMBERS, Fact.POSITIONS)
    if facts.committed is None and not facts.positions:
        return Verdict(facts, Reason.NO_POSITION, Certainty.UNKNOWN)
    return Verdict(facts, Reason.NOT_YET, _certainty_of_not_yet(message, facts))


def _certainty_of_not_yet(message: MessageFacts, facts: GroupFacts) -> Certainty:
    """Return CERTAIN if the broker has recorded pulls since the message was stored, and has none of it."""
    started_ms = message.broker_started_ms
    recorded = facts.pulled is not None and started_ms is not None and started_ms <= message.stored_ms
    return Certainty.CERTAIN if recorded and Fact.TRACE not in facts.unknown else Certainty.LIKELY


def _unknown(facts: GroupFacts, *needed: Fact, copy: Copy | None = None) -> Verdict:
    return Verdict(facts, Reason.UNKNOWN, Certainty.UNKNOWN, copy, lacking=facts.unknown & frozenset(needed))
