"""Randomly corrupted expressions: each is refused, evaluated or fails as specified, and none takes long.

By default 10,000, with ``-m long`` 1,000,000, a thousand to a seed. A failure names the seed; $GANTRYMQ_SEEDS runs
these seeds only. Time is counted in function calls, of Python's and of C functions, against the length of the
text, and not measured. A call that does not return, such as a regular expression with exponential backtracking, ends
the run after STUCK_S.
"""

import faulthandler
import gc
import os
import random
import sys
import tracemalloc
from collections import Counter

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from sql92_mutations import corpus, mutated
from sql92_pairs import properties

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.values import EvaluationFailed

CHOSEN = [int(seed) for seed in os.environ.get("GANTRYMQ_SEEDS", "").replace(",", " ").split()]
EXPRESSIONS = 1_000  # to a seed
USUAL = range(1, 4)
LONG = range(1, 1_001)
STUCK_S = 120.0  # for a thousand expressions, which take a second or a few
GROWTH_BYTES = 2 << 20  # total memory that rounds may leave allocated, in caches and interned names
PEAK_BYTES = 64 << 20  # peak memory at any time; the largest text of a round has 20,000 characters
MOST_CALLS = 2_000  # for a text without length
CALLS_A_CHARACTER = 200


class Work:
    """Counts calls of functions while it is entered."""

    calls = 0

    def __enter__(self) -> "Work":
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: object, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1


def tried(text: str, raw: bytes) -> str:
    """The result of one expression: refused, or its answer to a message."""
    try:
        ready = compiled(text)
    except SubscriptionParseFailed:
        return "refused"
    try:
        answer = ready.evaluate(raw)
    except EvaluationFailed:
        answer = "failed"
    assert answer in (True, False, None, "failed")
    assert ready.matches(raw) == (answer is True)
    assert ready.matching((raw,)) == [0] * (answer is True)
    return str(answer)


def check(seed: int) -> Counter[str]:
    """A round of a thousand expressions; how many ended how."""
    compiled("a = 1 OR b <> 'x'")  # created once
    rng = random.Random(seed)
    texts = corpus()
    found: Counter[str] = Counter()
    faulthandler.dump_traceback_later(STUCK_S, exit=True)
    try:
        for number in range(EXPRESSIONS):
            text = mutated(rng, texts)
            raw = properties(rng, text[:500])
            try:
                with Work() as work:
                    found[tried(text, raw)] += 1
                assert work.calls <= MOST_CALLS + CALLS_A_CHARACTER * len(text), f"{work.calls} calls"
            except Exception as error:
                replay = f"GANTRYMQ_SEEDS={seed} python -m pytest tests/filter_sql92/test_fuzz.py"
                pytest.fail(f"{replay}\nexpression {number}: {text[:2_000]!r}\nof {raw!r}\n{error!r}", pytrace=False)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return found


@pytest.mark.parametrize("seed", CHOSEN or USUAL)
def test_spoilt_expressions_break_nothing(seed):
    found = check(seed)
    assert found["refused"] >= EXPRESSIONS // 10
    assert found["True"] + found["False"] + found["None"] >= EXPRESSIONS // 10


@pytest.mark.slow
def test_rounds_leave_nothing_in_memory():
    check_memory(range(1, 4), range(4, 7))


@pytest.mark.long
@pytest.mark.parametrize("tenth", range(10))
def test_a_million_spoilt_expressions(tenth):
    seeds = LONG[tenth * 100 : tenth * 100 + 100]
    check_memory(seeds[:90], seeds[90:])


def check_memory(first: range, others: range) -> None:
    """The memory that *others* leave allocated and their peak are bounded; *first*, not measured, warms caches up."""
    for seed in first:
        check(seed)
    gc.collect()
    tracemalloc.start()
    try:
        for seed in others:
            check(seed)
        gc.collect()
        grown, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < GROWTH_BYTES
    assert peak < PEAK_BYTES
