"""The sentence for each verdict on a message, in both languages."""

import string

import attrs
import pytest

from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.model.texts import sentence_of, texts_in
from gantrymq_admin.consumption import (
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
from gantrymq_admin.consumption.evidence import evidence, sentence

MESSAGE = MessageFacts(MessageQueue("T", "a", 1), 41, "U", "O", 1000, "TagB", pulls_recorded=True)
PASSED, BEHIND = {"committed": 57, "pulled": 57}, {"committed": 41, "pulled": 41}


def copy(stage, **more):
    return Copy(stage, "%RETRY%G", "a", 0, 7, 2000, 1, "O2", **more)


def holding(first):
    return MemberPosition("c1", first, first, 43, 3, False)


@pytest.mark.parametrize(
    ("facts", "reason", "key"),
    [
        ({**PASSED, "tries": (Try("10.0.0.1", 1, 2, True, 1, 0),)}, Reason.CONSUMED, "consumed"),
        ({**PASSED, "pop": Pop(1000, 2000, True)}, Reason.CONSUMED, "acknowledged"),
        ({**PASSED, "pop": Pop(1000, 2000, False)}, Reason.HANDED_OUT, "handed_out_popped"),
        ({**PASSED, "copies": (copy(Stage.DEAD_LETTER),)}, Reason.DEAD_LETTER, "dead_letter"),
        ({**PASSED, "copies": (copy(Stage.DELAYED, due_ms=5000),)}, Reason.WAITING_RETRY, "waiting_delayed"),
        ({**PASSED, "copies": (copy(Stage.RETRY, committed=7),)}, Reason.WAITING_RETRY, "waiting_retry"),
        (
            {**PASSED, "copies": (copy(Stage.RETRY, committed=7, pulled=8),), "members": ("c1",)},
            Reason.HANDED_OUT,
            "handed_out_copy",
        ),
        ({**PASSED, "copies": (copy(Stage.RETRY, committed=8),)}, Reason.CONSUMED_AFTER_RETRIES, "after_retries"),
        ({**PASSED, "copies": (copy(Stage.RETRY, committed=8, popped=True),)}, Reason.POPPED, "popped_copy"),
        ({**BEHIND, "positions": (holding(41),)}, Reason.HANDED_OUT, "handed_out_held"),
        ({**BEHIND, "positions": (holding(40),)}, Reason.HANDED_OUT, "handed_out_near"),
        ({**BEHIND, "pulled": 42, "members": ("c1",)}, Reason.HANDED_OUT, "handed_out_pulled"),
        ({"pulled": 42, "members": ("c1",)}, Reason.HANDED_OUT, "handed_out_first"),
        ({**BEHIND, "pulled": 42}, Reason.NOT_YET, "not_yet_pulled"),
        ({**BEHIND, "tries": (Try("10.0.0.1", 1),)}, Reason.HANDED_OUT, "handed_out_tried"),
        (BEHIND, Reason.NOT_YET, "not_yet"),
        ({**PASSED, "tries": (Try("10.0.0.1", 1, 2, False, 1, 0),)}, Reason.FAILED, "failed"),
        (
            {**PASSED, "fit": Fit.DIFFERS, "subscription": Subscription("T", "TagA")},
            Reason.FILTERED,
            "filtered_tag",
        ),
        (
            {**PASSED, "fit": Fit.DIFFERS, "subscription": Subscription("T", "TagA", version=1_795_000_000_000)},
            Reason.FILTERED,
            "filtered_tag_since",
        ),
        (
            {**PASSED, "fit": Fit.DIFFERS, "subscription": Subscription("T", "TagA", version=1_795 * 10**15)},
            Reason.FILTERED,
            "filtered_tag",
        ),
        (
            {**PASSED, "fit": Fit.DIFFERS, "subscription": Subscription("T", "a > 1", "SQL92")},
            Reason.FILTERED,
            "filtered_properties",
        ),
        (PASSED, Reason.PASSED, "passed"),
        ({**BEHIND, "positions": (MemberPosition("c1", 42, 0, 0, 0, False),)}, Reason.PASSED, "passed_member"),
        ({**PASSED, "pops": True}, Reason.POPPED, "popped"),
        ({**PASSED, "model": "BROADCASTING"}, Reason.BROADCASTING, "broadcasting"),
        ({"pulled": 0}, Reason.NO_POSITION, "no_position_offline"),
        ({**PASSED, "unknown": frozenset({Fact.RETRIES})}, Reason.UNKNOWN, "unknown"),
    ],
)
def test_each_verdict_has_a_sentence(facts, reason, key):
    found = verdict(MESSAGE, GroupFacts("G", **facts))
    assert found.reason is reason
    said = evidence(MESSAGE, found)
    assert said.word == key
    for language in ("en", "zh"):
        assert sentence_of(texts_in("gantrymq_admin", language)["evidence"][key], said.values)


def test_both_languages_have_the_same_texts_and_fields():
    def fields(text):
        forms = [text] if isinstance(text, str) else text.values()
        return {name for form in forms for _, name, _, _ in string.Formatter().parse(form) if name}

    english, chinese = (texts_in("gantrymq_admin", language) for language in ("en", "zh"))
    assert english.keys() == chinese.keys()
    for part, texts in english.items():
        other = chinese[part]
        assert {key: fields(text) for key, text in texts.items()} == {key: fields(text) for key, text in other.items()}


def test_facts_that_are_missing_are_named():
    assert texts_in("gantrymq_admin", "en")["facts"].keys() == {each.value for each in Fact}
    found = verdict(MESSAGE, GroupFacts("G", **PASSED, unknown=frozenset({Fact.RETRIES, Fact.DEAD_LETTERS})))
    assert sentence(MESSAGE, found) == "Could not be asked: dead letters, retry topics."


def test_unknown_numbers_are_not_shown_as_0():
    found = verdict(MESSAGE, GroupFacts("G", **PASSED, tries=(Try("10.0.0.1", 1, None, True),)))
    assert sentence(MESSAGE, found) == (
        "Traced as consumed by 10.0.0.1 at an unknown time; it took an unknown time. Failed tries before: unknown."
    )
    known = verdict(MESSAGE, GroupFacts("G", **PASSED, tries=(Try("10.0.0.1", 1, 6, True, 5, 0),)))
    assert "; it took 5 ms. Failed tries before: 0." in sentence(MESSAGE, known)
    again = sentence(attrs.evolve(MESSAGE, same_id=2), known)
    assert again.endswith("Other messages with the same unique id: 2.")
