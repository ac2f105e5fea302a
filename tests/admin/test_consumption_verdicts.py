"""The verdict that follows from the facts of a group: each rule, and each missing fact that could change it."""

import attrs
import pytest

from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq_admin.consumption import (
    Certainty,
    Copy,
    Fact,
    Fit,
    GroupFacts,
    MemberPosition,
    MessageFacts,
    Pop,
    Reason,
    Stage,
    Try,
    verdict,
)
from gantrymq_admin.consumption.evidence import sentence

MESSAGE = MessageFacts(MessageQueue("T", "a", 1), 41, "U", "O", 1000, "TagB", pulls_recorded=True)
CERTAIN, LIKELY, UNKNOWN = Certainty.CERTAIN, Certainty.LIKELY, Certainty.UNKNOWN
SUCCESS = Try("10.0.0.1", 1000, 1200, True, 200, 0)
FAILURE = Try("10.0.0.1", 1000, 1100, False, 100, 0)
BEGUN = Try("10.0.0.1", 1000)


def copy(stage, failures=1, at=7, **more):
    topics = {Stage.DELAYED: "SCHEDULE_TOPIC_XXXX", Stage.RETRY: "%RETRY%G", Stage.DEAD_LETTER: "%DLQ%G"}
    return Copy(stage, topics[stage], "a", 0, at, 2000 + 10 * failures, failures, f"{stage}{failures}", **more)


def owner(committed, cached=(0, 0), count=0, locked=False):
    return MemberPosition("c1", committed, *cached, count, locked)


def judged(message=MESSAGE, **facts):
    found = verdict(message, GroupFacts("G", **{"committed": 57, "pulled": 57, **facts}))
    assert sentence(message, found)
    return found


DELAYED, DUE, DEAD = copy(Stage.DELAYED, due_ms=9000), copy(Stage.RETRY, committed=7), copy(Stage.DEAD_LETTER, 16)
DONE = copy(Stage.RETRY, committed=8)
POPPED_COPY = attrs.evolve(DONE, topic="%RETRY%G_T", popped=True)
BEHIND = {"committed": 41, "pulled": 41}


@pytest.mark.parametrize(
    ("facts", "reason", "certainty"),
    [
        ({}, Reason.PASSED, LIKELY),
        ({"committed": 42}, Reason.PASSED, LIKELY),  # the committed offset is that of the next message
        ({"committed": 41, "members": ("c1",)}, Reason.HANDED_OUT, LIKELY),
        ({"committed": 41}, Reason.NOT_YET, LIKELY),  # pulled by a member that left, or before a reset
        (BEHIND, Reason.NOT_YET, CERTAIN),
        ({"committed": 0, "pulled": 0}, Reason.NOT_YET, CERTAIN),
        ({"committed": None, "pulled": 0}, Reason.NO_POSITION, UNKNOWN),
        ({"committed": None, "pulled": 42, "members": ("c1",)}, Reason.HANDED_OUT, LIKELY),
        ({"committed": None, "pulled": 42}, Reason.NO_POSITION, UNKNOWN),
        ({"tries": (SUCCESS,)}, Reason.CONSUMED, CERTAIN),
        ({"tries": (SUCCESS,), **BEHIND}, Reason.CONSUMED, CERTAIN),  # a reset to an earlier offset
        ({"tries": (FAILURE, SUCCESS), "copies": (DELAYED,)}, Reason.CONSUMED, CERTAIN),
        ({"tries": (FAILURE,)}, Reason.FAILED, LIKELY),
        ({"tries": (FAILURE,), **BEHIND}, Reason.HANDED_OUT, LIKELY),  # an ordered consumer tries again
        ({"tries": (BEGUN,), **BEHIND}, Reason.HANDED_OUT, LIKELY),
        ({"tries": (BEGUN,)}, Reason.PASSED, LIKELY),
        ({"copies": (DELAYED,)}, Reason.WAITING_RETRY, CERTAIN),
        ({"copies": (DELAYED, DUE)}, Reason.WAITING_RETRY, LIKELY),
        ({"copies": (DELAYED, attrs.evolve(DUE, pulled=8)), "members": ("c1",)}, Reason.HANDED_OUT, LIKELY),
        ({"copies": (DELAYED, attrs.evolve(DUE, pulled=8))}, Reason.WAITING_RETRY, LIKELY),
        ({"copies": (DELAYED, DONE)}, Reason.CONSUMED_AFTER_RETRIES, LIKELY),
        ({"copies": (DELAYED, DONE, copy(Stage.DELAYED, 2))}, Reason.WAITING_RETRY, CERTAIN),
        ({"copies": (DELAYED, DONE, DEAD)}, Reason.DEAD_LETTER, CERTAIN),
        ({"copies": (DEAD, copy(Stage.RETRY, 17, committed=0))}, Reason.WAITING_RETRY, LIKELY),  # sent again
        ({"copies": (POPPED_COPY,)}, Reason.POPPED, LIKELY),
        ({"copies": (POPPED_COPY,), "pop": Pop(1, 2, True)}, Reason.CONSUMED, CERTAIN),
        ({"pops": True}, Reason.POPPED, LIKELY),
        ({"pops": True, **BEHIND}, Reason.NOT_YET, LIKELY),
        ({"pops": True, "pop": Pop(1, 2, False)}, Reason.HANDED_OUT, CERTAIN),
        ({"pops": True, "pop": Pop(1, 2, True)}, Reason.CONSUMED, CERTAIN),
        ({"model": "BROADCASTING", **BEHIND}, Reason.BROADCASTING, UNKNOWN),
        ({"model": "BROADCASTING", "tries": (SUCCESS,)}, Reason.BROADCASTING, UNKNOWN),  # of one member only
        ({"fit": Fit.DIFFERS}, Reason.FILTERED, LIKELY),
        ({"fit": Fit.DIFFERS, **BEHIND}, Reason.FILTERED, LIKELY),
        ({"fit": Fit.DIFFERS, "tries": (FAILURE,)}, Reason.FAILED, LIKELY),  # the subscription was another
        ({"fit": Fit.DIFFERS, "copies": (DEAD,)}, Reason.DEAD_LETTER, CERTAIN),
        ({"fit": Fit.MATCHES}, Reason.PASSED, LIKELY),
        ({"positions": (owner(42),), **BEHIND}, Reason.PASSED, LIKELY),  # not committed yet
        ({"positions": (owner(41, (41, 43), 3),), **BEHIND}, Reason.HANDED_OUT, CERTAIN),
        ({"positions": (owner(40, (40, 43), 3),), **BEHIND}, Reason.HANDED_OUT, LIKELY),  # maybe consumed before 40
        ({"positions": (owner(40, (40, 43), 3, True),), **BEHIND}, Reason.HANDED_OUT, CERTAIN),  # in order
        ({"positions": (owner(41),), **BEHIND}, Reason.NOT_YET, CERTAIN),
    ],
)
def test_each_rule(facts, reason, certainty):
    if facts.get("fit") is Fit.DIFFERS:
        facts = {**facts, "subscription": Subscription("T", "TagA")}
    found = judged(**facts)
    assert (found.reason, found.certainty) == (reason, certainty)


@pytest.mark.parametrize(
    ("missing", "facts", "reason"),
    [
        (Fact.COMMITTED, {"committed": None}, Reason.UNKNOWN),
        (Fact.COMMITTED, {"committed": None, "tries": (SUCCESS,)}, Reason.CONSUMED),
        (Fact.COMMITTED, {"committed": None, "copies": (DEAD,)}, Reason.DEAD_LETTER),
        (Fact.RETRIES, {}, Reason.UNKNOWN),
        (Fact.RETRIES, BEHIND, Reason.NOT_YET),  # not handed out, so not failed
        (Fact.RETRIES, {"copies": (DELAYED,)}, Reason.UNKNOWN),
        (Fact.RETRIES, {"copies": (attrs.evolve(DUE, committed=None),)}, Reason.UNKNOWN),
        (Fact.DEAD_LETTERS, {}, Reason.UNKNOWN),
        (Fact.DEAD_LETTERS, {"copies": (DONE,)}, Reason.UNKNOWN),
        (Fact.DELAYED, {}, Reason.UNKNOWN),
        (Fact.DELAYED, {"copies": (DONE,)}, Reason.UNKNOWN),
        (Fact.DELAYED, {"copies": (DUE,)}, Reason.WAITING_RETRY),
        (Fact.MESSAGE, {}, Reason.UNKNOWN),
        (Fact.TRACE, {}, Reason.PASSED),
        (Fact.FILTER, {}, Reason.PASSED),
        (Fact.PULLED, {"committed": 41, "pulled": None, "members": ("c1",)}, Reason.UNKNOWN),
        (Fact.POSITIONS, {"committed": 41, "pulled": None, "members": ("c1",)}, Reason.UNKNOWN),
        (Fact.MEMBERS, {"committed": 41, "pulled": None}, Reason.UNKNOWN),
        (Fact.MEMBERS, {"committed": 41}, Reason.HANDED_OUT),
    ],
)
def test_a_missing_fact_makes_only_what_depends_on_it_unknown(missing, facts, reason):
    found = judged(unknown=frozenset({missing}), **facts)
    assert found.reason is reason
    if reason is Reason.UNKNOWN:
        assert (found.certainty, found.lacking) == (UNKNOWN, {missing})


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"members": ("c1",)}, Reason.UNKNOWN),
        ({"members": ("c1",), "positions": (owner(41),)}, Reason.NOT_YET),
        (
            {"members": ("c1",), "positions": (owner(30, (30, 30), 1),)},
            Reason.UNKNOWN,
        ),  # 41 may follow an unfinished 30
        ({"members": ("c1",), "positions": (owner(41, locked=True),)}, Reason.UNKNOWN),  # the one in work is not cached
        ({}, Reason.NOT_YET),
    ],
)
@pytest.mark.parametrize("pulled", [None, 41])
def test_a_message_that_may_have_been_consumed_is_not_reported_as_not_yet(facts, reason, pulled):
    """RocketMQ 4.9 does not keep the pulled offset, and a broker forgets it when it is restarted."""
    message = attrs.evolve(MESSAGE, pulls_recorded=False)
    found = judged(message, committed=41, pulled=pulled, **facts)
    assert found.reason is reason
    assert found.certainty is (LIKELY if reason is Reason.NOT_YET else UNKNOWN)


def test_a_success_of_another_message_with_the_same_id_says_nothing_after_the_position():
    message = attrs.evolve(MESSAGE, same_id=1)
    assert judged(message, tries=(SUCCESS,), committed=41, pulled=41).reason is not Reason.CONSUMED


def test_one_of_several_messages_with_the_same_id():
    found = judged(attrs.evolve(MESSAGE, same_id=1), tries=(SUCCESS,))
    assert (found.reason, found.certainty) == (Reason.CONSUMED, LIKELY)


def test_the_deciding_copy_and_try_are_part_of_the_verdict():
    assert judged(copies=(DELAYED, DEAD)).copy is DEAD
    assert judged(tries=(FAILURE, SUCCESS)).attempt is SUCCESS
    assert judged(tries=(FAILURE,)).attempt is FAILURE


def test_sentences_name_every_explanation():
    """Nobody records that an offset was set back, nor what a member that left had subscribed to."""
    for facts in (BEHIND, {"committed": 41}, {**BEHIND, "positions": (owner(41),)}):
        assert "it may have been consumed before" in sentence(MESSAGE, judged(**facts))
    assert "by a member that left, or before a reset" in sentence(MESSAGE, judged(committed=41))
    assert "consumed, filtered out, or skipped by a reset" in sentence(MESSAGE, judged())
    assert "consumed, filtered out, or skipped by a reset" in sentence(MESSAGE, judged(copies=(DONE,)))
