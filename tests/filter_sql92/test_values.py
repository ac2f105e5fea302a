"""Java's readings of texts and its comparisons."""

import math

import pytest

from gantrymq_filter_sql92.values import (
    EvaluationFailed,
    Long,
    compare,
    compare_doubles,
    to_boolean,
    to_double,
    to_integer,
)

LARGEST = 2**31 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("007", 7),
        ("2147483647", LARGEST),
        ("-2147483648", -LARGEST - 1),
        ("0" * 5000 + "12", 12),
        ("-" + "0" * 5000 + "12", -12),
        ("\uff11\u0662", 12),  # Java reads digits of any script
        ("\u0660" * 5000 + "\u0663", 3),
    ],
)
def test_integers(text, value):
    assert to_integer(text, 32) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "-", " 1", "1 ", "1.0", "1e3", "1L", "0x1", "1_000", "--1", "+-1", "\n1", "1\n", "nan", "é"),
        *("2147483648", "-2147483649", "1" * 5000, "\U0001d7cf", "\u00b2", "\u0661" * 5000),
    ],
)
def test_no_integers(text):
    with pytest.raises(EvaluationFailed, match="is not a whole number of 32 bits"):
        to_integer(text, 32)


def test_longs_have_64_bits():
    assert to_integer("-9223372036854775808", 64) == -(2**63)
    assert to_integer("9223372036854775807", 64) == 2**63 - 1
    with pytest.raises(EvaluationFailed):
        to_integer("9223372036854775808", 64)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1.5e-3", -0.0015),
        ("+2E2", 200.0),
        (" \t1.5\x00", 1.5),
        ("1.5f", 1.5),
        ("2d", 2.0),
        ("1e5F", 1e5),
        ("1e999", math.inf),
        ("-1e999", -math.inf),
        ("1e-999", 0.0),
        ("1e" + "9" * 5000, math.inf),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("0x1.8p1", 3.0),
        ("-0XAp0", -10.0),
        ("0x.8P+1d", 1.0),
        ("0x1p99999", math.inf),
        ("0x1p-99999", 0.0),
        ("0x0p99999", 0.0),
        ("9" * 400, math.inf),
    ],
)
def test_doubles(text, value):
    assert to_double(text) == value


def test_nan_is_a_double():
    for text in ("NaN", "+NaN", " -NaN "):
        assert math.isnan(to_double(text))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            ".",
            "e5",
            "1e",
            "1e+",
            "1ff",
            "1L",
            "inf",
            "nan",
            "infinity",
            "NAN",
            "1_0",
            "1,5",
            "0x1",
            "0x1.8",
            "0xp1",
        ),
        *("+ 1", "1 2", "\u00a01", "\u0661", "--1", "0x1p", "0x-1p1", "1fd", "NaNf", "Infinityd"),
    ],
)
def test_no_doubles(text):
    with pytest.raises(EvaluationFailed, match="is not a number"):
        to_double(text)


def test_only_true_is_true():
    assert [to_boolean(text) for text in ("true", "TRUE", "tRuE", "1", "yes", " true", "")] == [True] * 3 + [False] * 4


def test_doubles_have_a_total_order():
    ascending = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for i, left in enumerate(ascending):
        for j, right in enumerate(ascending):
            answer = compare_doubles(left, right)
            assert (answer > 0, answer < 0) == (i > j, i < j)


@pytest.mark.parametrize(
    ("left", "right", "sign"),
    [
        (1, 2, -1),
        (Long(5), 5, 0),
        (2, 1.5, 1),
        (Long(2**53 + 1), float(2**53), 0),
        ("5", 5, 0),
        (5, "6", -1),
        ("3000000000", Long(3000000000), 0),
        (1.0, " 1 ", 0),
        ("1", 1.5, -1),
        ("true", True, 0),
        ("x", True, -1),
        ("true", False, 1),
        (True, True, 0),
        (False, True, -1),
        (True, 1, -1),
        (1, True, -1),
        (1.0, False, -1),
        ("a", "a", 0),
        ("a", "b", -1),
    ],
)
def test_compare(left, right, sign):
    answer = compare(left, right)
    assert (answer > 0) - (answer < 0) == sign


@pytest.mark.parametrize(
    ("left", "right"), [("x", 5), (5, "x"), ("3000000000", 5), ("1.5", 1), (Long(5), ""), ("x", 1.5), (True, "true")]
)
def test_what_java_cannot_compare_fails(left, right):
    with pytest.raises(EvaluationFailed):
        compare(left, right)
