"""Pairs that an expression needs to be true; they never reject a matching message."""

import random

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_filter_sql92.expression import compiled, parse
from gantrymq_filter_sql92.filter import MOST_NEEDLES, MOST_PAIRS, needles_of, required_equalities

NAMES = ("a", "b", "aa", "c")
TEXTS = ("x", "y", "1", "01", "+1", "1.0", " 1 ", "1e0", "0x1p0", "-1", "-0.0", "0", "9223372036854775807", "\u0661")
TEXTS += ("true", "x\x01y", "\u00e9", "1d", "NaN", "Infinity", "0.1", "9007199254740993", "9007199254740992")
NUMBERS = ("1", "1.0", "-1", "0", "0.1", "9223372036854775807", "9007199254740993", "9007199254740992.0", "-0.0")


def pairs_of(text):
    found = required_equalities(parse(text))
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a = 'x'", {("a", "x")}),
        ("'x' = a", {("a", "x")}),
        ("a = 1", {("a", 1.0)}),
        ("a = -1", {("a", -1.0)}),
        ("a = 'x' AND b > 1", {("a", "x")}),
        ("a IN ('x', 'y') AND b = 'z'", {("b", "z")}),
        ("a = 1 AND b = 'z'", {("b", "z")}),
        ("a = 'x' OR b = 'y'", {("a", "x"), ("b", "y")}),
        ("a = 'x' OR b > 1", None),
        ("a IN ('x', 'y')", {("a", "x"), ("a", "y")}),
        ("a NOT IN ('x', 'y')", None),
        ("a <> 'x'", None),
        ("NOT (a = 'x')", None),
        ("a = b", None),
        ("a = TRUE", None),
        ("a > 1", None),
        ("a BETWEEN 1 AND 1", None),
        ("a IS NULL", None),
        ("TRUE", None),
        ("FALSE", set()),
        ("FALSE OR a = 'x'", {("a", "x")}),
        ("a = '\ufffd'", None),
    ],
)
def test_examples(text, pairs):
    assert pairs_of(text) == pairs


def test_many_alternatives_are_none():
    values = [f"'v{number}'" for number in range(MOST_PAIRS + 1)]
    assert pairs_of(f"a IN ({', '.join(values)})") is None
    assert len(pairs_of(f"a IN ({', '.join(values[1:])})")) == MOST_PAIRS


def random_expression(rng, depth=3):
    if depth and rng.random() < 0.6:
        form = rng.choice(["{} AND {}", "{} OR {}", "NOT {}"])
        return "(" + form.format(random_expression(rng, depth - 1), random_expression(rng, depth - 1)) + ")"
    name, text = rng.choice(NAMES), rng.choice(TEXTS)
    value = rng.choice([f"'{text}'", rng.choice(NUMBERS), rng.choice(NAMES), "TRUE", "FALSE"])
    return rng.choice(
        [
            f"{name} = {value}",
            f"{value} = {name}",
            f"{name} <> {value}",
            f"{name} IN ('{text}', '{rng.choice(TEXTS)}')",
            f"{name} NOT IN ('{text}')",
            f"{name} > {rng.choice(NUMBERS)}",
            f"{name} BETWEEN {rng.choice(NUMBERS)} AND {rng.choice(NUMBERS)}",
            f"{name} IS NULL",
            f"{name} CONTAINS '{text}'",
            "FALSE",
        ]
    )


def random_properties(rng):
    pairs = [f"{rng.choice(NAMES)}\x01{rng.choice((*TEXTS, ''))}" for _ in range(rng.randrange(5))]
    text = "\x02".join(pairs).encode() + rng.choice([b"", b"\x02"])
    return text + rng.choice([b"", b"", b"a\x01\xff\x02"])


def test_what_matches_has_one_of_the_pairs():
    """The evaluator decides."""
    rng = random.Random(16)
    matched = required = 0
    for _ in range(12_000):
        expression = random_expression(rng)
        try:
            asked = compiled(expression)
        except SubscriptionParseFailed:  # such as a string where only numbers are allowed
            continue
        pairs, needles = required_equalities(asked.tree), needles_of(asked.tree)
        for _ in range(9):
            text = random_properties(rng)
            if not asked.matches(text):
                continue
            matched += 1
            if pairs is None:
                continue
            required += 1
            texts = [f"{name}\x01{value if isinstance(value, str) else ''}".encode() for name, value in pairs]
            assert any(each in text for each in texts), (expression, text)
            assert not needles or any(needle in text for needle in needles), (expression, text)
    assert matched > 5_000
    assert required > 150


def test_search_strings():
    assert needles_of(parse("a = 'x' OR b = 1")) == (b"a\x01x", b"b\x01")
    assert needles_of(parse("a = 1 OR a = 2")) == (b"a\x01",)
    assert needles_of(parse("a > 1")) == needles_of(parse("FALSE")) == ()
    texts = [f"'{number}'" for number in range(MOST_NEEDLES + 1)]
    assert needles_of(parse(f"a IN ({', '.join(texts)})")) == ()
    assert len(needles_of(parse(f"a IN ({', '.join(texts[1:])})"))) == MOST_NEEDLES
