"""SQL92 expressions: our answers are those of the filter in a Java broker 5.3.3, refusals and errors included.

20,000 random pairs of an expression and the raw properties of a message, and every value, number, blank and tail the
random ones are made of, each in the plainest expressions. `tests/golden` has a tenth of them for runs without Java.
"""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from harness import JavaFilters
from sql92_answers import our_answer
from sql92_pairs import COUNT, SEED, Pair, corners, pairs

pytestmark = pytest.mark.interop


def test_our_answers_are_java_s(tmp_path: Path) -> None:
    asked: list[Pair] = [*pairs(SEED, COUNT), *corners()]
    with JavaFilters(tmp_path) as java:
        answers = java.answers(asked)
    assert min(Counter(each.answer for each in answers).values()) >= 1_000, "some kind of answer is hardly tried"
    different = [
        f"{pair.expression!r} of {pair.properties!r}: Java {theirs.answer} {theirs.why}, ours {ours}"
        for pair, theirs in zip(asked, answers, strict=True)
        if (ours := our_answer(*pair)) != theirs.answer
    ]
    assert not different, f"{len(different)} of {len(asked)} differ:\n" + "\n".join(different[:20])
