"""The answers: true, false, unknown, and failures."""

import itertools

import pytest
from hypothesis import given
from trees import conditions, stored

from gantrymq_filter_sql92.compiling import condition
from gantrymq_filter_sql92.explain import format_expression
from gantrymq_filter_sql92.expression import CompiledExpression, compiled
from gantrymq_filter_sql92.nodes import And, Boolean, Not, Or
from gantrymq_filter_sql92.values import EvaluationFailed

FAILS = EvaluationFailed
LOGIC = {"T": "TRUE", "F": "FALSE", "?": "NULL"}
ANSWERS = {"T": True, "F": False, "?": None}


def stored_as(**properties):
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


def answer(text, **properties):
    expression = compiled(text)
    try:
        found = expression.evaluate(stored_as(**properties))
    except EvaluationFailed:
        assert expression.matches(stored_as(**properties)) is False
        return FAILS
    assert expression.matches(stored_as(**properties)) is (found is True)
    return found


@pytest.mark.parametrize(
    ("operator", "table"),  # rows: left is T, F, ?; columns: right is T, F, ?
    [("AND", ("TF?", "FFF", "?F?")), ("OR", ("TTT", "TF?", "T??"))],
)
def test_two_conditions_follow_the_table(operator, table):
    for row, left in zip(table, "TF?", strict=True):
        for cell, right in zip(row, "TF?", strict=True):
            assert answer(f"{LOGIC[left]} {operator} {LOGIC[right]}") is ANSWERS[cell]


def test_three_conditions_are_two_and_one():
    for one, two, three in itertools.product(LOGIC.values(), repeat=3):
        for operator in ("AND", "OR"):
            whole = answer(f"{one} {operator} {two} {operator} {three}")
            assert whole is answer(f"({one} {operator} {two}) {operator} {three}")
            assert whole is answer(f"{one} {operator} ({two} {operator} {three})")


def test_not_keeps_the_unknown():
    assert [answer(f"NOT {word}") for word in ("TRUE", "FALSE", "NULL")] == [False, True, None]


@pytest.mark.parametrize(
    ("text", "answers"),
    [  # for a absent, 5, x
        ("a", (None, False, False)),
        ("NOT a", (None, True, True)),
        ("a = 5", (None, True, FAILS)),
        ("5 = a", (False, True, FAILS)),
        ("a <> 5", (None, False, FAILS)),
        ("5 <> a", (True, False, FAILS)),
        ("a = '5'", (None, True, False)),
        ("'5' = a", (False, True, False)),
        ("'5' <> a", (True, False, True)),
        ("a <> '5'", (None, False, True)),
        ("a = 5.0", (None, True, FAILS)),
        ("a = 3000000000", (None, False, FAILS)),
        ("a = TRUE", (None, False, False)),
        ("a = FALSE", (None, True, True)),
        ("TRUE = a", (False, FAILS, FAILS)),
        ("a = -5", (None, False, FAILS)),
        ("a > 4", (None, True, FAILS)),
        ("4 > a", (None, False, FAILS)),
        ("a >= 5", (None, True, FAILS)),
        ("a < 5.5", (None, True, FAILS)),
        ("a <= -5", (None, False, FAILS)),
        ("a > a", (None, False, FAILS)),
        ("a >= a", (None, True, FAILS)),
        ("a > b", (None, None, None)),
        ("a = b", (True, False, False)),
        ("b = a", (True, None, None)),
        ("a <> b", (False, True, True)),
        ("a = a", (True, True, True)),
        ("a > -b", (None, None, None)),
        ("-a = b", (True, True, True)),
        ("a = -a", (True, False, False)),
        ("-a > 1", (None, None, None)),
        ("a BETWEEN 5 AND 6", (None, True, FAILS)),
        ("a BETWEEN 6 AND b", (None, False, FAILS)),
        ("a BETWEEN 1 AND b", (None, None, FAILS)),
        ("b BETWEEN 6 AND a", (None, None, None)),
        ("a NOT BETWEEN 5 AND 6", (None, False, FAILS)),
        ("a NOT BETWEEN 6 AND 5", (None, True, FAILS)),
        ("5 BETWEEN a AND 6", (None, True, FAILS)),
        ("a IN ('5', 'y')", (None, True, False)),
        ("a NOT IN ('5', 'y')", (None, False, True)),
        ("a IN ('1', '2', '3', '4', '5')", (None, True, False)),
        ("a IS NULL", (True, False, False)),
        ("a IS NOT NULL", (False, True, True)),
        ("(a > 1) IS NULL", (True, False, FAILS)),
        ("(a = 5) = TRUE", (None, True, FAILS)),
        ("(a = 5) = 1", (None, False, FAILS)),
        ("(a = '5') = 'true'", (None, FAILS, FAILS)),
        ("TRUE = (a = '5')", (False, True, False)),
        ("a = (a = '5')", (True, False, True)),
        ("a CONTAINS '5'", (False, True, False)),
        ("a NOT CONTAINS '5'", (False, False, True)),
        ("a STARTSWITH 'x'", (False, False, True)),
        ("a NOT STARTSWITH 'x'", (False, True, False)),
        ("a ENDSWITH 'x'", (False, False, True)),
        ("a NOT ENDSWITH 'x'", (False, True, False)),
        ("a CONTAINS ''", (False, False, False)),
        ("a NOT CONTAINS ''", (False, False, False)),
        ("'axb' CONTAINS 'x'", (True, True, True)),
        ("5 CONTAINS '5'", (False, False, False)),
        ("(a = '5') NOT CONTAINS 't'", (False, False, False)),
        ("a = 5 OR b IS NULL", (True, True, FAILS)),
        ("b IS NULL OR a = 5", (True, True, True)),
        ("b IS NOT NULL AND a = 5", (False, False, False)),
        ("a > 4 AND b > 4", (None, None, FAILS)),
        ("5 = '5'", (True, True, True)),
        ("'5' = 5.0", (True, True, True)),
        ("5 = 'x'", (FAILS, FAILS, FAILS)),
        ("5 = TRUE", (False, False, False)),
        ("'TRUE' = TRUE", (True, True, True)),
        ("-(a > 4) IS NULL", (True, True, FAILS)),
        ("5 > a OR TRUE", (True, True, FAILS)),
        ("1 < 2.5", (True, True, True)),
        ("-2147483648 = -2147483648", (True, True, True)),
        ("NULL", (None, None, None)),
    ],
)
def test_answers(text, answers):
    assert (answer(text), answer(text, a="5"), answer(text, a="x")) == answers


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("a > 2147483647", "3000000000", FAILS),
        ("a > 2147483648", "3000000000", True),
        ("a = 5L", "3000000000", FAILS),
        ("a = 7", "007", True),
        ("a = 7", " 7", FAILS),
        ("a = 7.0", " 7 ", True),
        ("a > 1.5", "NaN", True),
        ("a = -2147483648", "3000000000", False),
        ("a > a", "NaN", False),
        ("a >= a", "1.5", True),
        ("a = TRUE", "tRUE", True),
        ("a = 'é😀'", "é😀", True),
        ("a <> 'é😀'", "é", True),
        ("a CONTAINS 'é'", "xéy", True),
        ("a STARTSWITH 'é'", "éy", True),
        ("a ENDSWITH '😀'", "é😀", True),
        ("a = 'it''s'", "it's", True),
        ("a = 'b\x01c'", "b\x01c", True),
        ("a = 9007199254740993", "9007199254740992", False),
        ("9007199254740993 = 9007199254740992.0", "x", True),
    ],
)
def test_values(text, value, expected):
    assert answer(text, a=value) is expected


def test_zeros_of_either_sign_are_ordered_as_doubles():
    assert answer("a < b", a="-0.0", b="0.0") is True
    assert answer("a >= b", a="-0.0", b="0.0") is False


@pytest.mark.parametrize(
    "text", ["a = '\ufffd'", "a = b", "a IN ('\ufffd')", "a CONTAINS '\ufffd'", "NOT (a <> '\ufffd')"]
)
def test_bytes_that_are_no_utf_8_read_as_in_java(text):
    assert compiled(text).evaluate(b"a\x01\xff\x02b\x01\xfe\x02") is True


@pytest.mark.parametrize("text", ["a = '\ud800'", "a IN ('\ud800')", "a CONTAINS '\ud800'", "a STARTSWITH '\udc00'"])
def test_halves_of_characters_are_found_in_no_property(text):
    assert answer(text, a="x") is False


@given(conditions, stored)
def test_every_expression_answers_or_fails_with_evaluation_failed(tree, properties):
    expression = CompiledExpression(format_expression(tree), tree)
    try:
        found = expression.evaluate(properties)
    except EvaluationFailed:
        found = FAILS
    assert found in (True, False, None, FAILS)
    assert expression.matches(properties) is (found is True)


def outcome(tree, properties):
    try:
        return condition(tree)(properties)
    except EvaluationFailed:
        return FAILS


@given(conditions, conditions, stored)
def test_logic_is_that_of_the_parts(left, right, properties):
    one, other = outcome(left, properties), outcome(right, properties)
    assert outcome(Not(left), properties) is (one if one in (None, FAILS) else not one)
    literals = {True: Boolean(True), False: Boolean(False), None: Boolean(None)}
    if FAILS not in (one, other):
        for connective in (And, Or):
            assert outcome(connective((left, right)), properties) is outcome(
                connective((literals[one], literals[other])), b""
            )
    elif one is FAILS:
        assert outcome(And((left, right)), properties) is outcome(Or((left, right)), properties) is FAILS
