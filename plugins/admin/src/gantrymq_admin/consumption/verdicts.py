"""The verdict on one group: whether it consumed the message, and how sure that is. Pure.

Brokers store how far a group has read, not which messages it consumed. Only the trace, and the copies of failed
messages, show that. The rules, in order:

    broadcasting members                                broadcasting
    trace with a success, or an acknowledged pop        consumed
    newest copy in %DLQ%group                           dead-letter
    newest copy delayed, or at or after the position    waiting-retry, handed-out
    newest copy before the position                     consumed-after-retries
    subscription does not match                         filtered
    trace with a failure, no copy                       failed
    position after the message                          passed, popped
    pulled, popped, or held by a member                 handed-out, not-yet if no member is left that pulled it
    position at or before the message                   not-yet
    no position                                         no-position
    a fact is missing that could change the verdict     unknown

A trace names a message by its unique id. If several have the same one, a success counts only for those before the
position.

The committed offset is that of the next message, so the message has been passed only if its offset is lower
(apache/rocketmq PR 10595).
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from gantrymq_admin.consumption.facts import COPIES, Copy, Fact, Fit, GroupFacts, MessageFacts, Pop, Stage, Try

BROADCASTING: Final = "BROADCASTING"


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
    UNKNOWN = "unknown"  # it is not recorded, or the request failed


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
    if facts.model == BROADCASTING:  # one member's trace is no evidence about the others
        last = facts.tries[-1] if facts.tries else None
        return Verdict(facts, Reason.BROADCASTING, Certainty.UNKNOWN, attempt=success or last)
    if success is not None and not (message.same_id and not _has_passed(message, facts)):
        certainty = Certainty.LIKELY if message.same_id else Certainty.CERTAIN
        return Verdict(facts, Reason.CONSUMED, certainty, attempt=success)
    newest = max(facts.copies, key=lambda copy: copy.order, default=None)
    if newest is not None:
        return _by_copy(facts, newest)
    if facts.pop is not None:
        return _by_pop(facts, facts.pop, None)
    if facts.fit is Fit.DIFFERS and not facts.tries:
        return Verdict(facts, Reason.FILTERED, Certainty.LIKELY)
    return _by_position(message, facts)


def _by_copy(facts: GroupFacts, copy: Copy) -> Verdict:
    """Return the verdict if the message failed at least once; *copy* is the newest one."""
    if copy.stage is Stage.DEAD_LETTER:
        return Verdict(facts, Reason.DEAD_LETTER, Certainty.CERTAIN, copy)
    if copy.stage is Stage.DELAYED:
        if facts.unknown & {Fact.RETRIES, Fact.DEAD_LETTERS}:  # it may have been delivered meanwhile
            return _unknown(facts, Fact.RETRIES, Fact.DEAD_LETTERS, copy=copy)
        return Verdict(facts, Reason.WAITING_RETRY, Certainty.CERTAIN, copy)
    if facts.pop is not None:
        return _by_pop(facts, facts.pop, copy)
    if copy.committed is None:
        return _unknown(facts, Fact.RETRIES, copy=copy)
    if copy.committed <= copy.queue_offset:
        if (copy.pulled or 0) > copy.queue_offset and not _no_member(facts):
            return Verdict(facts, Reason.HANDED_OUT, Certainty.LIKELY, copy)
        return Verdict(facts, Reason.WAITING_RETRY, Certainty.LIKELY, copy)
    if facts.unknown & COPIES:  # a newer copy may be there
        return _unknown(facts, *COPIES, copy=copy)
    if copy.popped:
        return Verdict(facts, Reason.POPPED, Certainty.LIKELY, copy)
    return Verdict(facts, Reason.CONSUMED_AFTER_RETRIES, Certainty.LIKELY, copy)


def _by_pop(facts: GroupFacts, pop: Pop, copy: Copy | None) -> Verdict:
    """Return the verdict on a message whose last pop is known, and which has no newer copy."""
    if pop.acknowledged:
        return Verdict(facts, Reason.CONSUMED, Certainty.CERTAIN, copy)
    return Verdict(facts, Reason.HANDED_OUT, Certainty.CERTAIN, copy)


def _by_position(message: MessageFacts, facts: GroupFacts) -> Verdict:
    """Return the verdict if no copy was found."""
    offset = message.queue_offset
    last = facts.tries[-1] if facts.tries else None
    if _has_passed(message, facts):
        if facts.unknown & COPIES:
            return _unknown(facts, *COPIES)
        if last is not None and last.success is False:
            return Verdict(facts, Reason.FAILED, Certainty.LIKELY, attempt=last)
        return Verdict(facts, Reason.POPPED if facts.pops else Reason.PASSED, Certainty.LIKELY, attempt=last)
    if Fact.COMMITTED in facts.unknown:
        return _unknown(facts, Fact.COMMITTED)
    if any(each.holds(offset) for each in facts.positions):
        return Verdict(facts, Reason.HANDED_OUT, Certainty.CERTAIN, attempt=last)
    held = any(each.may_hold(offset) for each in facts.positions)
    pulled = (facts.pulled or 0) > offset
    if last is not None or held or (pulled and not _no_member(facts)):
        return Verdict(facts, Reason.HANDED_OUT, Certainty.LIKELY, attempt=last)
    if _may_have_it(message, facts):
        return _unknown(facts, Fact.PULLED, Fact.MEMBERS, Fact.POSITIONS)
    if facts.committed is None and not facts.positions:
        return Verdict(facts, Reason.NO_POSITION, Certainty.UNKNOWN)
    sure = message.pulls_recorded and facts.pulled is not None and not facts.pops and not pulled
    return Verdict(facts, Reason.NOT_YET, Certainty.CERTAIN if sure else Certainty.LIKELY)


def _has_passed(message: MessageFacts, facts: GroupFacts) -> bool:
    """Return whether the group, or a member that has not committed yet, is after the message."""
    return max([facts.committed or 0, *(each.committed for each in facts.positions)]) > message.queue_offset


def _no_member(facts: GroupFacts) -> bool:
    """Return whether no member holds the pulled messages: members left, or the pull was before a reset."""
    return not facts.members and not facts.positions and Fact.MEMBERS not in facts.unknown


def _may_have_it(message: MessageFacts, facts: GroupFacts) -> bool:
    """Return whether a member may have consumed the message without having committed it yet, which takes it 5 s, or
    longer if an earlier message is not consumed.
    """
    if message.pulls_recorded and facts.pulled is not None:
        return False
    online = bool(facts.members) or Fact.MEMBERS in facts.unknown
    return online and not (facts.positions and all(each.idle for each in facts.positions))


def _unknown(facts: GroupFacts, *needed: Fact, copy: Copy | None = None) -> Verdict:
    return Verdict(facts, Reason.UNKNOWN, Certainty.UNKNOWN, copy, lacking=facts.unknown & frozenset(needed))
