"""Long and deep expressions: refused with a sentence, and never a deep stack."""

import sys

import pytest

from gantrymq_filter_sql92.explain import format_expression
from gantrymq_filter_sql92.expression import MAX_CHARACTERS, MAX_DEPTH, MAX_TOKENS, compiled, parse
from gantrymq_filter_sql92.nodes import ExpressionRefused, depth

DEEP = {  # wraps a condition n times
    "NOT": lambda n: "NOT " * n + "a",
    "minus": lambda n: "- " * (n - 1) + "a = 1",
    "parenthesized": lambda n: "(a OR " * (n - 1) + "a" + ")" * (n - 1),
    "equalities": lambda n: "a = 1" + " = 1" * (n - 1),
    "IS NULL": lambda n: "a" + " IS NULL" * n,
    "texts": lambda n: "a" + " CONTAINS 'x'" * n,
}


def with_frames_left(frames, call):
    """The result of *call* on a stack with the given number of free frames."""

    def deeper(left):
        return deeper(left - 1) if left else call()

    used = 0
    frame = sys._getframe()
    while frame:
        used, frame = used + 1, frame.f_back
    return deeper(sys.getrecursionlimit() - used - frames)


@pytest.mark.parametrize("wrap", DEEP.values(), ids=DEEP)
def test_the_deepest_expression_takes_half_of_the_stack_at_most(wrap):
    text = wrap(MAX_DEPTH - 2)
    assert MAX_DEPTH - 2 <= depth(parse(text)) <= MAX_DEPTH

    def everything():
        expression = compiled(text)
        assert parse(format_expression(expression.tree)) == expression.tree
        assert hash(expression.tree) == hash(parse(text))
        return repr(expression.tree) and expression.matches(b"a\x011\x02")

    assert with_frames_left(500, everything) in (True, False)


@pytest.mark.parametrize("wrap", DEEP.values(), ids=DEEP)
@pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 1000])
def test_deeper_ones_are_refused(wrap, levels):
    with pytest.raises(ExpressionRefused, match=rf"\d+ levels, and at most {MAX_DEPTH}|more than"):
        with_frames_left(200, lambda: parse(wrap(levels)))


def test_parentheses_by_themselves_are_not_depth():
    assert depth(parse("(" * 900 + "a" + ")" * 900)) == 2


@pytest.mark.parametrize("text", ["(" * 5000, "- " * 5000, "NOT " * 4000, "a = 1 AND " * 1600, "a IN (" + "''," * 5000])
def test_too_many_tokens_are_refused(text):
    with pytest.raises(ExpressionRefused, match="more than 2,000 words, literals and signs"):
        parse(text)


def test_as_many_as_allowed_are_taken():
    values = (MAX_TOKENS - 5) // 2
    assert len(parse("a IN (" + "''," * values + "'')").values) == values + 1
    assert len(parse(" OR ".join(["a"] * (MAX_TOKENS // 2))).operands) == MAX_TOKENS // 2


def test_too_long_texts_are_refused_unread():
    text = "a = '" + "x" * MAX_CHARACTERS + "'"
    with pytest.raises(ExpressionRefused, match="16,390 characters, and an expression has at most 16,384"):
        parse(text)
    assert parse("a" + " " * (MAX_CHARACTERS - 1))


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "-" * 12000,
        "a /*" + "*" * 12000,
        "a /*" + "/*" * 6000,
        "'" + "''" * 6000,
        "a = " + "9" * 12000,
        "a = ." + "9" * 12000 + "e" + "9" * 4000,
        "a = 1e" + "9" * 12000,
        "--" * 6000 + "\n",
        "a" * 12000,
    ],
)
def test_long_tokens_are_read_once(text):
    try:
        parse(text)
    except ExpressionRefused as refusal:
        sentence = str(refusal)
    else:
        sentence = ""
    assert len(sentence) < 400


LONGEST_NUMBERS = ["9" * 32_000, "0" * 32_000, "\u0660" * 16_000 + "7", "." + "0" * 32_000 + "1", "x" * 32_000]


@pytest.mark.parametrize("value", LONGEST_NUMBERS, ids=["nines", "zeros", "arabic", "fraction", "no number"])
def test_long_properties_are_read_once_however_often_they_are_compared(value):
    comparisons = [f"a = {n}.5 OR a <> {n} OR a > 3000000000" for n in range(1, 130)]
    for text in (" OR ".join(comparisons), " AND ".join(f"a < {n}" for n in range(500))):
        assert compiled(text).matches(b"a\x01" + value.encode()) in (True, False)
