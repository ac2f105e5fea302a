"""Columns of Spark give the evaluator's answers."""

import random
import sys
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from gantrymq.errors import GantryError, SubscriptionParseFailed
from gantrymq.model import properties
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import Sql92Filter

if str(Path(__file__).parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1]))

TOGETHER = 40  # columns of one query
SEED, EXPRESSIONS, MESSAGES = 16, 40, 60


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def evaluated(expression, found):
    """The evaluator's answer; false where it fails."""
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
    from sql92_pairs import pairs

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
