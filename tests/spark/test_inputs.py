"""Inputs of jobs: live topics and the store below them give the same rows with every filter."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from gantrymq.errors import ConfigError
from gantrymq_spark import register
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,filter_sql92,admin", "store": "mmap", "enablePropertyFilter": True}
FILTERS = {
    "topics": ({}, range(60)),
    "tags": ({"tags": " t0||t2 "}, [n for n in range(60) if n % 3 != 1]),
    "every tag": ({"tags": "*"}, range(60)),
    "sql92": ({"sql92": "a BETWEEN 7 AND 9 OR a IS NULL"}, [5, 7, 8, 9, 15, 25, 35, 45, 55]),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        for topic in ("Orders", "Bills"):
            running.create_topic(topic)
            for n in range(60):
                properties = {} if n % 10 == 5 else {"a": str(n)}
                running.put(topic, b"%d" % n, queue_id=n % 4, tags=f"t{n % 3}", properties=properties)
        yield running


@pytest.fixture(scope="module")
def inputs(spark, broker):
    register(spark)
    places = {"namesrv": broker.namesrv}, {"store": str(broker.settings.text("storePathRootDir"))}
    return lambda **more: [Input(**place, **more) for place in places]


def rows(spark, given):
    return sorted((row.topic, int(row.body)) for row in messages(spark, given, ["body", "topic"]).collect())


@pytest.mark.parametrize("name", FILTERS)
def test_brokers_and_spark_narrow_alike(spark, inputs, name):
    more, numbers = FILTERS[name]
    wanted = [("Orders", n) for n in numbers]
    assert [rows(spark, given) for given in inputs(topics=("Orders",), **more)] == [wanted, wanted]


def test_times_and_patterns(spark, inputs):
    (live, store) = inputs(pattern="Bill.|Ord")
    assert rows(spark, live) == rows(spark, store) == [("Bills", n) for n in range(60)]
    frame = messages(spark, inputs(topics=("Orders",))[1], ["storeTimestamp"])
    times = sorted(round(row.storeTimestamp.timestamp() * 1000) for row in frame.collect())
    since, until = times[15], times[45]
    wanted = sum(since <= time < until for time in times)
    for given in inputs(topics=("Orders",), since_ms=since, until_ms=until):
        assert len(rows(spark, given)) == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Input(), "no messages are named; give --topic"),
        (Input(store="a", archive="b"), "give one of --store and --archive"),
        (Input(topics=("a",), pattern="b"), "give --topic or --topic-pattern"),
        (Input(store="a", tags="||"), "--tags: the tag expression '||' names no tag"),
        (Input(store="a", sql92="a >"), "--sql92: "),
    ],
)
def test_a_mistake_is_one_sentence(spark, golden, given, says):
    if given.store is not None and given.archive is None:
        given = Input(store=str(golden("normal").store), tags=given.tags, sql92=given.sql92)
    with pytest.raises(ConfigError, match="^[^\n]+$") as problem:
        messages(spark, given)
    assert says in str(problem.value)
