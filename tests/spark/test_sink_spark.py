"""Rows sent by Spark, and messages sent once more, to a broker of ours."""

import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from pyspark.sql import functions as sql

from gantrymq.errors import ConfigError
from gantrymq_spark import register
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.replay import replay
from gantrymq_spark.sink.options import SinkOptions
from gantrymq_spark.sink.sink_ids import SINK_ID, SeenIds
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,admin,schedule", "store": "mmap"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    pytest.importorskip("gantrymq_schedule")
    with RunningBroker(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def session(spark):
    register(spark)
    return spark


def sent(frame, broker, **options):
    frame.write.format("gantrymq").options(namesrv=broker.namesrv, **options).mode("append").save()


def test_rows_become_messages(session, broker):
    broker.create_topic("Rows")
    rows = session.range(200).select(
        sql.lit("Rows").alias("topic"),
        sql.col("id").cast("string").alias("body"),
        sql.concat(sql.lit("k"), "id").alias("keys"),
        sql.when(sql.col("id") % 2 == 0, "even").alias("tags"),
        sql.create_map(sql.lit("n"), sql.col("id").cast("string")).alias("properties"),
    )
    sent(rows.repartition(3), broker)
    received = broker.pull("Rows")
    assert sorted(int(message.body) for message in received) == list(range(200))
    for message in received:
        number = message.body.decode()
        assert (message.keys, message.properties["n"]) == (f"k{number}", number)
        assert message.tags == ("even" if int(number) % 2 == 0 else None)
    assert len({message.properties[SINK_ID] for message in received}) == 200


@pytest.mark.parametrize("batch_size", ["1", "20"])
def test_rows_of_one_key_stay_in_their_order(session, broker, batch_size):
    topic = f"Ordered{batch_size}"
    broker.create_topic(topic, 3)
    rows = session.range(300).select(
        sql.col("id").cast("string").alias("body"), (sql.col("id") % 7).cast("string").alias("shardingKey")
    )
    sent(rows.coalesce(1), broker, topic=topic, batchSize=batch_size)
    places = {}
    for message in broker.pull(topic):
        number = int(message.body)
        places.setdefault(number % 7, []).append((message.queue_id, message.queue_offset, number))
    assert sum(map(len, places.values())) == 300
    for own in places.values():
        assert len({queue for queue, _, _ in own}) == 1
        assert [number for _, _, number in sorted(own)] == sorted(number for _, _, number in own)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("'b' AS body", {}, "needs a topic: a column topic, or the option"),
        ("'b' AS body, 1 AS key", {"topic": "Rows"}, "has no column 'key'"),
        ("cast(null AS string) AS body", {"topic": "Rows"}, "its body is null"),
        ("repeat('b', 5000000) AS body", {"topic": "Rows"}, "has 5000000 bytes, the longest allowed is 4194304"),
        ("'b' AS body", {"topic": "Rows", "namesrv": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_mistakes_are_told_by_spark_in_our_words(session, broker, columns, options, words):
    given = {"namesrv": broker.namesrv, **options}
    with pytest.raises(Exception, match=words):
        session.range(1).selectExpr(*columns.split(", ") if "repeat" not in columns else [columns]).write.format(
            "gantrymq"
        ).options(**given).mode("append").save()


def test_topics_are_not_overwritten(session, broker):
    with pytest.raises(Exception, match="cannot be overwritten"):
        session.range(1).selectExpr("'b' AS body").write.format("gantrymq").options(
            namesrv=broker.namesrv, topic="Rows"
        ).mode("overwrite").save()


def test_a_stream_from_topic_to_topic_and_what_comes_twice_is_told(session, broker, tmp_path):
    broker.create_topic("From", 2)
    broker.create_topic("To", 2)
    for number in range(30):
        broker.put("From", b"%d" % number, queue_id=number % 2, properties={"n": str(number), "UNIQ_KEY": f"U{number}"})

    def run(checkpoint):
        frame = session.readStream.format("gantrymq").options(
            namesrv=broker.namesrv, subscribe="From", startingOffsets="earliest", maxOffsetsPerTrigger="10"
        )
        query = (
            frame.load()
            .drop("topic")
            .writeStream.format("gantrymq")
            .options(namesrv=broker.namesrv, topic="To", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    run(tmp_path / "checkpoint")
    received = broker.pull("To")
    assert sorted(int(message.body) for message in received) == list(range(30))
    assert all(message.properties["n"] == message.body.decode() for message in received)
    assert not {message.message_id for message in received} & {f"U{number}" for number in range(30)}
    ids = {message.properties[SINK_ID] for message in received}
    assert len(ids) == 30

    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)  # as if it had been killed before the last micro-batch was noted
    run(tmp_path / "checkpoint")
    again = broker.pull("To")
    assert len(again) == 40
    assert {message.properties[SINK_ID] for message in again} == ids
    seen = SeenIds()
    assert sorted(int(message.body) for message in again if seen.first(message.properties)) == list(range(30))


def test_messages_are_sent_once_more_in_their_order(session, broker, tmp_path):
    broker.create_topic("Past", 3)
    broker.create_topic("Again", 3)
    for number in range(60):
        broker.put("Past", b"%d" % number, queue_id=number % 3, tags=f"t{number % 2}", properties={"n": str(number)})
    given = Input(topics=("Past",), namesrv=broker.namesrv)
    target = SinkOptions(broker.namesrv, topic="Again")
    dry = replay(session, given, target, dry_run=True)
    assert (dry.messages, dry.queues, dry.dry_run) == (60, 3, True)
    assert broker.pull("Again") == []
    assert replay(session, given, target).messages == 60
    archive(session, given, str(tmp_path))
    assert replay(session, Input(archive=str(tmp_path), tags="t1"), target).messages == 30
    received = broker.pull("Again")
    for queue in range(3):
        own = [(message.queue_offset, int(message.body)) for message in received if message.queue_id == queue]
        numbers = [number for _, number in sorted(own)]
        wanted = [number for number in range(60) if number % 3 == queue]
        assert numbers == wanted + [number for number in wanted if number % 2]
    first = {message.properties[SINK_ID] for message in received}
    assert first == {f"Past.broker-a.{number % 3}.{number // 3}" for number in range(60)}
    assert {message.tags for message in received} == {"t0", "t1"}


def test_a_replay_takes_as_long_as_its_pace_says(session, broker):
    broker.create_topic("Paced", 2)
    broker.create_topic("PacedAgain", 2)
    for number in range(4):
        broker.put("Paced", b"%d" % number, queue_id=number % 2)
        deadline = time.monotonic() + 0.4
        while time.monotonic() < deadline:
            pass
    given = Input(topics=("Paced",), namesrv=broker.namesrv)
    report = replay(session, given, SinkOptions(broker.namesrv, topic="PacedAgain"), speed=0.5)
    old = sorted((message.store_timestamp, message.body) for message in broker.pull("Paced"))
    new = sorted((message.store_timestamp, message.body) for message in broker.pull("PacedAgain"))
    assert [body for _, body in new] == [body for _, body in old]
    assert report.takes_s == pytest.approx((old[-1][0] - old[0][0]) / 500)
    assert new[-1][0] - new[0][0] == pytest.approx((old[-1][0] - old[0][0]) * 2, abs=600)


def test_a_replay_onto_itself_is_refused(session, broker):
    with pytest.raises(ConfigError, match="would be sent to, without an end"):
        replay(session, Input(topics=("Past",), namesrv="n:1"), SinkOptions("n:1", topic="Past"))
