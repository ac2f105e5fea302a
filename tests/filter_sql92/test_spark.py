"""Columns of Spark give the same answers as the evaluator and Java."""

import random
from contextlib import contextmanager
from itertools import islice

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from sql92_answers import our_answer
from sql92_golden import read
from sql92_pairs import pairs

from gantrymq.errors import GantryError, SubscriptionParseFailed
from gantrymq.model import properties
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import Sql92Filter

pytestmark = pytest.mark.spark

TOGETHER = 40  # columns of one query
SEED, EXPRESSIONS, MESSAGES, PAIRS = 16, 40, 60, 500
ANSWERS = {"true": True, "false": False, "null": None, "failed": False}


def evaluated(expression, found):
    """The evaluator's answer; false if it fails."""
    try:
        return compiled(expression).evaluate(properties.encode(found))
    except GantryError:
        return False


def check(spark, expressions, messages):
    """Compare every expression on every message."""
    frame = spark.createDataFrame([(each,) for each in messages], "properties map<string,string>").coalesce(1).cache()
    for start in range(0, len(expressions), TOGETHER):
        some = expressions[start : start + TOGETHER]
        columns = [Sql92Filter.to_column(each).alias(f"c{number}") for number, each in enumerate(some)]
        for found, row in zip(messages, frame.select(*columns).collect(), strict=True):
            answers = {each: evaluated(each, found) for each in some}
            assert dict(zip(some, row, strict=True)) == answers, found


def test_texts_numbers_and_nothing_are_told_apart(spark):
    texts = ["5", "05", "+5", "-5", "5.0", " 5", "5 ", "five", "", "true", "TRUE", "True ", "NaN", "-NaN", "Infinity"]
    texts += ["-Infinity", "1e400", "-0.0", "0", "0.0", "-0", "0x1p3", "-0X.8p1d", "5f", "5D", ".5", "5.", "1e3", "--5"]
    texts += ["2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "0" * 60 + "7"]
    texts += [
        "\u0665",
        "\uff15",
        "\u00b2",
        "5\n",
        "\x1f5",
        "\u00a05",
        "it's",
        "a",
        "b",
        "ab",
        "\u676d\u5dde",
        "\U0001d7d3",
    ]
    messages = [{}, {"b": "x"}, *({"a": each} for each in texts), *({"a": each, "b": "5"} for each in texts)]
    forms = [
        "a = 5",
        "a <> 5",
        "a > 4",
        "a >= 5",
        "a < 5",
        "a <= -5",
        "a = 5.0",
        "a < 1.5",
        "a > -0.5",
        "a = 3000000000",
    ]
    forms += ["a >= -3000000000", "5 = a", "1.5 <> a", "a = b", "a <> b", "a > b", "a <= b", "a = '5'", "a <> 'five'"]
    forms += [
        "a = TRUE",
        "a <> FALSE",
        "TRUE = a",
        "a IN ('5', 'it''s')",
        "a NOT IN ('5')",
        "a IS NULL",
        "a IS NOT NULL",
    ]
    forms += ["a CONTAINS '5'", "a NOT CONTAINS '5'", "a STARTSWITH '5'", "a NOT STARTSWITH 'f'", "a ENDSWITH '5'"]
    forms += [
        "a NOT ENDSWITH '5'",
        "a BETWEEN 1 AND 5",
        "a NOT BETWEEN 1 AND 5",
        "a BETWEEN b AND 5",
        "a",
        "NOT (a = 5)",
    ]
    forms += ["TRUE", "FALSE", "NULL", "NULL IS NULL", "-a = 5", "(a = 5) = TRUE", "(a = 5) = (b = 5)"]
    forms += ["(a > 1) IS NULL", "a = 5 AND b = 5", "a > 1 OR b = 5", "b = 5 OR a > 1", "b = 'x' AND a > 1", "5 = 5.0"]
    check(spark, forms, messages)


def test_random_expressions_on_random_messages(spark):
    expressions, messages = {}, {}
    for expression, raw in pairs(SEED, 20 * EXPRESSIONS):
        try:
            compiled(expression)
            found = properties.decode(raw)
            raw.decode()
        except (SubscriptionParseFailed, UnicodeDecodeError):
            continue
        expressions[expression] = None
        messages[tuple(found.items())] = found
    chosen = random.Random(SEED).sample(list(messages.values()), MESSAGES)
    check(spark, list(islice(expressions, EXPRESSIONS)), chosen)


@contextmanager
def interpreted(spark):
    """Without code generation: a query with a thousand expressions exceeds its limits."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = [spark.conf.get(name, None) for name in names]
    for name, value in zip(names, ("false", "NO_CODEGEN"), strict=True):
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in zip(names, before, strict=True):
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def check_pairs(spark, answered):
    """Evaluate every expression on its message, all in one query, refusals included; return their number."""
    from pyspark.sql import functions as sql

    columns, rows, expected = [], [], []
    for expression, raw, answer in answered:
        try:
            columns.append(Sql92Filter.to_column(expression))
        except SubscriptionParseFailed:
            assert answer == "refused", expression
            continue
        assert answer != "refused", expression
        rows.append((len(rows), properties.decode(raw)))
        expected.append((expression, raw, ANSWERS[answer]))

    def of_number(first, end):
        if end - first == 1:
            return columns[first]
        middle = (first + end) // 2
        below = sql.when(sql.col("number") < middle, of_number(first, middle))
        return below.otherwise(of_number(middle, end))

    frame = spark.createDataFrame(rows, "number int, properties map<string,string>").coalesce(1)
    with interpreted(spark):
        found = dict(frame.select("number", of_number(0, len(columns))).collect())
    different = [(*pair, found[number]) for number, pair in enumerate(expected) if found[number] is not pair[2]]
    assert not different, f"{len(different)} differ: {different[:20]}"
    return len(found)


@pytest.mark.parametrize("share", [3, pytest.param(1, marks=pytest.mark.long)])
def test_java_s_frozen_answers(spark, share):
    frozen = read()[::share]
    asked = [check_pairs(spark, frozen[start : start + PAIRS]) for start in range(0, len(frozen), PAIRS)]
    assert sum(asked) >= 2_000 // share


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.long)])
def test_random_pairs(spark, rounds):
    answered = ((*pair, our_answer(*pair).answer) for pair in pairs(SEED, rounds * PAIRS))
    asked = [check_pairs(spark, list(islice(answered, PAIRS))) for _ in range(rounds)]
    assert sum(asked) > rounds * PAIRS // 2


def test_large_expressions_stay_small(spark):
    many = " OR ".join(f"a = {number}" for number in range(60))
    deep = "a = 5"
    for _ in range(8):
        deep = f"NOT ({deep} AND (b = 5 OR {deep[-12:] if '(' not in deep[-12:] else 'a = 1'}))"
        try:
            compiled(deep)
        except SubscriptionParseFailed:
            break
        last = deep
    check(spark, [many, last], [{"a": "5"}, {"a": "59", "b": "5"}, {"a": "x"}, {}])


def test_another_column_and_a_wrong_expression(spark):
    frame = spark.createDataFrame([({"a": "5"},), ({},), (None,)], "headers map<string,string>")
    rows = frame.select(Sql92Filter.to_column("a = 5", "headers")).collect()
    assert [row[0] for row in rows] == [True, None, None]
    assert frame.filter(Sql92Filter.to_column("a IS NOT NULL", "headers")).count() == 1
    with pytest.raises(SubscriptionParseFailed):
        Sql92Filter.to_column("a >")
