"""Pairs that an expression needs to be true; they never reject a matching message."""

import random

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.model import properties as property_text
from gantrymq_filter_sql92.blocks.block import LastMessage, build_block
from gantrymq_filter_sql92.blocks.keys import key_of, needle_of, pairs_in
from gantrymq_filter_sql92.equalities import MOST_PAIRS, Equality, required_equalities
from gantrymq_filter_sql92.expression import compiled, parse

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
    """The evaluator decides: needles, and the Bloom filter of a block with that one message."""
    rng = random.Random(16)
    matched = required = 0
    for _ in range(12_000):
        expression = random_expression(rng)
        try:
            asked = compiled(expression)
        except SubscriptionParseFailed:  # such as a string where only numbers are allowed
            continue
        pairs = required_equalities(asked.tree)
        for _ in range(9):
            text = random_properties(rng)
            if not asked.matches(text):
                continue
            matched += 1
            if pairs is None:
                continue
            required += 1
            assert any(needle_of(pair) in text for pair in pairs), (expression, text)
            block = build_block(0, 1, LastMessage(0, 0), [text], frozenset(pair.name for pair in pairs), 1)
            assert block.may_hold([key_of(pair) for pair in pairs]), (expression, text)
    assert matched > 5_000
    assert required > 150


def test_pairs_in_a_text():
    text = property_text.encode({"a": "1", "aa": "2", "b": "a\x013"}) + b"a\x014"
    assert pairs_in(text, [b"a"]) == [b"a\x011", b"a\x014"]
    assert pairs_in(text, [b"aa", b"c"]) == [b"aa\x012"]
    assert pairs_in(b"", [b"a"]) == []


def test_keys_of_numbers():
    one = [key_of(Equality("a", 1.0)), key_of(Equality("a", "x"))]
    for text in ("1", "01", "+1", "1.0", " 1 ", "0x1p0", "1d"):
        assert build_block(0, 1, LastMessage(0, 0), [b"a\x01" + text.encode()], frozenset("a"), 1).may_hold(one), text
    assert not build_block(0, 1, LastMessage(0, 0), [b"a\x01one\x02b\x011"], frozenset("a"), 1).may_hold(one)
