"""SQL92 expressions: our results equal those of the filter in a Java broker 5.3.3, including refusals and errors.

Tested are 20,000 random pairs of an expression and the raw properties of a message, and every value, number, blank and
suffix that the random ones are built from, each in the simplest expressions: all are equal. Of invalid expressions
only those differ that exceed our limits or Java's stack (DIFFERENT). `tests/golden` has a tenth of the pairs for runs
without Java.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from harness import JavaFilters
from harness.filters import JavaAnswer
from sql92_answers import OurAnswer, our_answer
from sql92_mutations import corpus, mutated
from sql92_pairs import COUNT, SEED, Pair, corners, pairs, properties

from gantrymq_filter_sql92.expression import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS

pytestmark = pytest.mark.interop

SPOILT = 10_000
STACK_OVERFLOW = "java.lang.StackOverflowError"
# Known differences, by the message of ours or Java's.
DIFFERENT = {
    "long": f"over {MAX_CHARACTERS:,} characters or {MAX_TOKENS:,} words: ours refuses it, as none may hold us up",
    "deep": f"nested deeper than {MAX_DEPTH}: ours refuses it at the same depth everywhere, Java where its stack ends",
    "stack": "thousands of parentheses in each other: they end Java's stack, and to ours are none by themselves",
}


def kind_of(ours: OurAnswer, java: JavaAnswer) -> str | None:
    """Return the entry of DIFFERENT that explains a difference, or None."""
    if ours.answer == "refused" and (f"most {MAX_CHARACTERS:,}" in ours.why or f"than {MAX_TOKENS:,}" in ours.why):
        return "long"
    if ours.answer == "refused" and f"at most {MAX_DEPTH} are taken" in ours.why:
        return "deep"
    return "stack" if java == ("refused", STACK_OVERFLOW) else None


def differences(asked: list[Pair], answers: list[JavaAnswer]) -> Iterator[tuple[str | None, str]]:
    """Return the kind of a difference, and a line that describes it."""
    for pair, java in zip(asked, answers, strict=True):
        ours = our_answer(*pair)
        if ours.answer != java.answer:
            pair_text = f"{pair.expression[:500]!r} of {pair.properties!r}"
            yield kind_of(ours, java), f"{pair_text}: Java {java.answer} {java.why}, ours {ours.answer} {ours.why}"


def test_our_answers_are_java_s(tmp_path: Path) -> None:
    asked = [*pairs(SEED, COUNT), *corners()]
    with JavaFilters(tmp_path) as java:
        answers = java.answers(asked)
    assert min(Counter(each.answer for each in answers).values()) >= 1_000, "some kind of answer is hardly tried"
    found = [line for _, line in differences(asked, answers)]
    assert not found, f"{len(found)} of {len(asked)} differ:\n" + "\n".join(found[:20])


def test_spoilt_expressions_are_refused_and_answered_alike(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    texts = corpus()
    asked = [Pair(text, properties(rng, text[:500])) for text in (mutated(rng, texts) for _ in range(SPOILT))]
    with JavaFilters(tmp_path) as java:
        found = list(differences(asked, java.answers(asked)))
    unnamed = [line for kind, line in found if kind is None]
    assert not unnamed, f"{len(unnamed)} of {SPOILT} differ:\n" + "\n".join(unnamed[:20])
    assert {kind for kind, _ in found} <= set(DIFFERENT)
    assert len(found) < SPOILT // 100
