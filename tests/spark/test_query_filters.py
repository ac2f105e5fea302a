"""A broker's filter, the filter of a query over a store, and that of an archive take the same messages."""

import random

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from gantrymq.model.subscription import SQL92
from gantrymq_spark import register
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,filter_sql92,admin", "store": "mmap", "enablePropertyFilter": True}
SEED, MESSAGES = 18, 80
VALUES = ("1", "2", "5", "7", "-3", "2.5", "1e2", "x", "it's", "TRUE", "true", " 5", "9223372036854775808", "")
EXPRESSIONS = (
    "a > 1",
    "a >= 2 AND b < 100",
    "a = 'x' OR b = 'x'",
    "a IS NULL",
    "a IS NOT NULL AND NOT (b = 1)",
    "a BETWEEN -5 AND 2",
    "a NOT BETWEEN 0 AND 2 OR b IS NULL",
    "b IN ('x', 'it''s', '2')",
    "b NOT IN ('x')",
    "a CONTAINS '2' OR b STARTSWITH 'i'",
    "a = TRUE OR b = 2.5",
    "TAGS = 't1' AND (a > 0 OR b > 0)",
    "a = b",
    "a <> b AND b IS NOT NULL",
)


def test_the_same_rows_everywhere(spark, tmp_path):
    register(spark)
    chance = random.Random(SEED)
    with RunningBroker(tmp_path / "broker", SETTINGS) as broker:
        broker.create_topic("Filtered", 3)
        for number in range(MESSAGES):
            given = {name: chance.choice(VALUES) for name in ("a", "b") if chance.random() < 0.8}
            properties = {name: value for name, value in given.items() if value}
            broker.put("Filtered", b"%d" % number, queue_id=number % 3, tags=f"t{number % 2}", properties=properties)
        live = Input(topics=("Filtered",), namesrv=broker.namesrv)
        archive(spark, live, str(tmp_path / "archive"))
        taken = {
            expression: {int(message.body) for message in broker.pull("Filtered", expression, SQL92)}
            for expression in EXPRESSIONS
        }
        archived, sent = {"archive": str(tmp_path / "archive")}, {"namesrv": broker.namesrv}
        places = [(each, archived) for each in EXPRESSIONS] + [(each, sent) for each in EXPRESSIONS[::4]]
        for expression, place in places:
            given = Input(topics=("Filtered",), sql92=expression, **place)
            rows = {int(row.body) for row in messages(spark, given, ["body"]).collect()}
            assert rows == taken[expression], (expression, place)
    store = Input(topics=("Filtered",), store=str(tmp_path / "broker" / "store"))
    for expression in EXPRESSIONS[::4]:
        given = Input(topics=store.topics, store=store.store, sql92=expression)
        assert {int(row.body) for row in messages(spark, given, ["body"]).collect()} == taken[expression], expression
    assert 0 < min(map(len, taken.values())) < max(map(len, taken.values())) < MESSAGES
