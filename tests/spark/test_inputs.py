"""Inputs of jobs: live topics and the store below them give the same rows with every filter."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

import attrs

from gantrymq.client import Message
from gantrymq.errors import ConfigError
from gantrymq.interfaces import StoreMessage
from gantrymq.model.sys_flag import COMPRESSED, TRANSACTION_COMMIT
from gantrymq.model.topic import TopicConfig
from gantrymq_spark import register
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.audit import Limits, audit
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.jobs.query import Search, query
from gantrymq_spark.jobs.stats import STATS_COLUMNS, stats
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


@pytest.fixture(scope="module")
def kinds(broker, spark, tmp_path_factory):
    """The three inputs with messages of every kind in the topics Kinds and Inner, and a message of a system topic."""
    register(spark)
    broker.create_topic("Kinds", 2)
    broker.call(broker.broker.topics.put, TopicConfig("Inner", 1, 1, attributes={"queue.type": "BatchCQ"}))
    broker.create_topic("Compressed", 1)

    async def send():
        async with broker.producer(compress_over_bytes=1000) as producer:
            await producer.send(Message("Kinds", b"plain"))
            await producer.send(Message("Kinds", b"all", tags="t", keys=["k1", "k2"], properties={"a": "1"}))
            await producer.send(Message("Kinds", b"long " * 1000, tags="t"))
            await producer.send_batch([Message("Kinds", b"%d" % n, tags="t", keys=f"b{n}") for n in range(3)])
            for size in (10, 2000):  # the second is compressed as a whole
                await producer.send_batch([Message("Inner", b"%d" % n * size, keys=f"i{n}") for n in range(5)])
        put, half = broker.broker.messages.put, "RMQ_SYS_TRANS_HALF_TOPIC"
        await put(StoreMessage("Kinds", 0, b"committed", b"", sys_flag=TRANSACTION_COMMIT, prepared_offset=17))
        await put(StoreMessage("Kinds", 1, b"not compressed", b"", sys_flag=COMPRESSED))
        await put(StoreMessage("Kinds", 1, b"retried", b"RECONSUME_TIME\x012\x02", reconsume_times=2))
        await put(StoreMessage(half, 0, b"half", b""))

    broker.run(send())
    folder = str(tmp_path_factory.mktemp("archive"))
    name = broker.settings.text("brokerName")
    store = Input(store=str(broker.settings.text("storePathRootDir")), options={"brokerName": name})
    archive(spark, store, folder)
    live = Input(namesrv=broker.namesrv, topics=("Kinds", "Inner"))
    return live, attrs.evolve(store, topics=live.topics), Input(archive=folder, topics=live.topics), store, folder


def test_every_kind_of_message_has_the_same_rows_in_every_input(spark, kinds):
    live, store, kept, whole, folder = kinds
    order = ("topic", "queueId", "queueOffset")
    expected = messages(spark, live).orderBy(*order).collect()
    assert len(expected) == 19
    for given in (store, kept):
        assert messages(spark, given).orderBy(*order).collect() == expected
    everything = [
        messages(spark, given).orderBy("brokerName", *order).collect() for given in (whole, Input(archive=folder))
    ]
    assert everything[0] == everything[1]
    assert not any(row.topic.startswith("RMQ_SYS") for row in everything[0])
    by_option = attrs.evolve(whole, options={**whole.options, "systemtopics": "true"})
    assert messages(spark, by_option).where("topic like 'RMQ_SYS%'").count() == 1


def test_jobs_count_and_find_the_messages_of_inner_batches(spark, kinds):
    from gantrymq_spark.jobs.replay import rows_to_replay

    found = []
    for given in kinds[:3]:
        inner = attrs.evolve(given, topics=("Inner",))
        stated = stats(messages(spark, inner, STATS_COLUMNS))
        total = [row.messages for row in stated.topics.collect()]
        (one,) = query(
            spark, inner, Search(key="i3", condition="length(body) > 100"), ("body", "queueOffset")
        ).collect()
        replayed = rows_to_replay(spark, inner).count()
        audited = audit(spark, inner, Limits(0))
        sums = audited.hours.groupBy("topic").agg({"messages": "sum", "bytes": "sum"}).collect()
        faults = audited.findings.where("fault").count()
        audited.close()
        found.append((total, bytes(one.body), one.queueOffset, replayed, sums, faults))
    assert found[0][:4] == ([10], b"3" * 2000, 8, 10)
    assert found[0][5] == 0
    assert found == found[:1] * 3


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
