"""Archives made by Spark of live topics and of stores, and queries over them: each message once."""

import attrs
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from spark_columns import described, golden_names, recorded

from gantrymq.errors import ConfigError, StoreError
from gantrymq.interfaces.store import StoreMessage
from gantrymq.model.names import is_system_topic
from gantrymq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4
from gantrymq_spark.columns import COLUMNS
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.archive_read import read_archive
from gantrymq_spark.jobs.inputs import Input, messages
from gantrymq_spark.jobs.query import Search, query
from gantrymq_spark.jobs.replay import replay, rows_to_replay

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,filter_sql92,admin", "store": "mmap", "enablePropertyFilter": True}


def fill(broker, topic, begin, end, queues=4):
    if begin == 0:
        broker.create_topic(topic, queues)
    for number in range(begin, end):
        broker.put(
            topic,
            b"%d" % number,
            queue_id=number % queues,
            tags=f"t{number % 3}",
            properties={"KEYS": f"k{number} all", "a": str(number)},
        )


def numbers(frame):
    return sorted(int(row.body) for row in frame.select("body").collect())


def test_runs_take_what_is_new_and_a_query_has_each_message_once(session, broker, tmp_path):
    folder = str(tmp_path / "archive")
    given = Input(topics=("A", "B|C"), namesrv=broker.namesrv)
    fill(broker, "A", 0, 40)
    fill(broker, "B|C", 0, 7, queues=2)
    first = archive(session, given, folder, commit_messages=20)
    assert (first.messages, first.missing, first.lost) == (47, 0, [])
    assert first.commits > 1
    assert archive(session, given, folder).messages == 0
    fill(broker, "A", 40, 50)
    assert archive(session, given, folder).messages == 10
    assert numbers(read_archive(session, folder)) == sorted([*range(50), *range(7)])
    assert numbers(read_archive(session, folder, topics=["B|C"])) == list(range(7))

    fill(broker, "A", 50, 60)
    both = attrs.evolve(given, archive=folder)
    assert numbers(query(session, both, live=True)) == sorted([*range(60), *range(7)])
    assert numbers(query(session, both)) == sorted([*range(50), *range(7)])
    assert numbers(query(session, both, Search(key="k55"), live=True)) == [55]
    assert numbers(query(session, both, Search(key="k45"), live=True)) == [45]
    assert numbers(query(session, both, Search(key="k4"), live=True)) == [4, 4]
    assert numbers(query(session, both, Search(condition="queueId = 1 and topic = 'B|C'"), live=True)) == [1, 3, 5]
    some = query(session, both, Search(condition="body = '58'"), ["msgId", "tags", "body"], live=True)
    (row,) = some.collect()
    assert row.tags == "t1"
    assert numbers(query(session, both, Search(message_id=row.msgId.lower()), live=True)) == [58]
    push_filters = attrs.evolve(both, sql92="a > 47 AND a < 53", tags=None)
    assert numbers(query(session, push_filters, live=True)) == [48, 49, 50, 51, 52]
    times = {
        int(row.body): row.storeTimestamp for row in query(session, both, live=True).where("topic = 'A'").collect()
    }
    since = round(times[45].timestamp() * 1000)
    later = [number for number, at in times.items() if round(at.timestamp() * 1000) >= since]
    assert numbers(query(session, attrs.evolve(both, topics=("A",), since_ms=since), live=True)) == sorted(later)


def test_a_body_that_cannot_be_decompressed_is_told_and_kept(session, broker, tmp_path):
    """One message, in each place where jobs read."""
    folder, flags = str(tmp_path / "archive"), COMPRESSED | COMPRESSION_LZ4
    broker.create_topic("Bad", 1)
    broker.put("Bad", b"good")
    broker.run(broker.cluster.broker.messages.put(StoreMessage("Bad", 0, b"no frame of LZ4", b"", sys_flag=flags)))
    live = Input(topics=("Bad",), namesrv=broker.namesrv)
    stored = Input(topics=("Bad",), store=broker.settings.text("storePathRootDir"))
    assert archive(session, live, folder).messages == 2
    for given in (live, stored, Input(topics=("Bad",), archive=folder)):
        good, bad = messages(session, given).orderBy("queueOffset").collect()
        assert (bytes(good.body), good.bodyProblem, good.sysFlag) == (b"good", None, 0)
        assert (bad.body, bad.sysFlag) == (None, flags)
        assert "is not an LZ4 frame" in bad.bodyProblem
    files = session.read.option("recursiveFileLookup", "true").parquet(folder)  # as docs/spark/archive.md says
    kept = files.where("bodyProblem is not null and topic = 'Bad'").collect()
    assert [bytes(row.body) for row in kept] == [b"no frame of LZ4"]
    assert files.columns == list(COLUMNS)
    for given in (live, stored):
        failing = attrs.evolve(given, options={"bodyProblems": "fail"})
        with pytest.raises(
            Exception, match="topic Bad, queue 0, offset 1: compressed body of 15 bytes is not an LZ4 frame"
        ):
            messages(session, failing, ("body",)).collect()
    broker.create_topic("Target", 1)
    with pytest.raises(Exception, match="the body could not be read: compressed body of 15 bytes is not an LZ4 frame"):
        replay(rows_to_replay(session, Input(topics=("Bad",), archive=folder)), "Target", broker.namesrv, None)


def test_a_pattern_s_report_names_the_topics_it_matches(session, broker, tmp_path):
    folder = str(tmp_path / "archive")
    fill(broker, "Near", 0, 4, queues=1)
    fill(broker, "Nearer", 0, 6, queues=1)
    archive(session, Input(topics=("Nearer",), namesrv=broker.namesrv), folder)
    done = archive(session, Input(pattern="Nea.", namesrv=broker.namesrv), folder)
    assert (done.messages, {queue.topic for _, queue in done.archived}) == (4, {"Near"})
    assert numbers(read_archive(session, folder)) == sorted([*range(4), *range(6)])


def test_what_expired_is_told_and_what_is_archived_may_expire(session, broker, tmp_path, monkeypatch):
    from gantrymq_spark.jobs import archive as job

    folder, given = str(tmp_path / "archive"), Input(topics=("Gone",), namesrv=broker.namesrv)
    fill(broker, "Gone", 0, 20, queues=1)
    archive(session, given, folder)
    fill(broker, "Gone", 20, 30, queues=1)
    asked = job.live_bounds
    monkeypatch.setattr(
        job, "live_bounds", lambda found: {queue: (24, end) for queue, (_, end) in asked(found).items()}
    )
    report = archive(session, given, folder)
    (queue,) = asked(given)
    assert report.lost == [(queue.broker_name, "Gone", 0, 20, 24)]
    assert numbers(read_archive(session, folder)) == [*range(20), *range(24, 30)]
    assert report.to_json()["archived"] == [{"broker": queue.broker_name, "topic": "Gone", "queue": 0, "before": 30}]


def test_columns_are_those_of_the_broker_s_messages(session, broker, tmp_path):
    fill(broker, "Whole", 0, 9)
    given = Input(topics=("Whole",), namesrv=broker.namesrv)
    archive(session, given, str(tmp_path))
    live = messages(session, given)
    kept = messages(session, Input(archive=str(tmp_path)))
    assert kept.schema == live.schema
    order = ("queueId", "queueOffset")
    assert kept.orderBy(*order).collect() == live.orderBy(*order).collect()


@pytest.mark.parametrize(
    "name", golden_names(["normal", "batch", "innerbatch", "retry", "pop"], ("innerbatch", "retry"))
)
def test_a_store_of_java_archived_is_what_java_read(session, golden, tmp_path, name):
    scenario = golden(name)
    given = Input(store=str(scenario.store), options={"brokerName": "broker-a", "unwrapBatches": "false"})
    report = archive(session, given, str(tmp_path))
    rows = sorted(
        (row.asDict() for row in read_archive(session, str(tmp_path)).collect()), key=lambda row: row["commitLogOffset"]
    )
    said = [line for line in recorded(scenario.records) if not is_system_topic(line["topic"])]
    size = scenario.size("mappedFileSizeCommitLog")
    found = [described({**row, "body": bytes(row["body"])}, size) for row in rows]
    names = ("topic", "queueId", "queueOffset", "commitLogOffset", "properties", "storeTimestamp", "bornHost", "msgId")
    assert [[line[key] for key in names] for line in found] == [[line[key] for key in names] for line in said]
    assert report.messages == len(said) > 0
    assert archive(session, given, str(tmp_path)).messages == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Input(), "no messages are named"),
        (Input(topics=("A",), archive="x"), "an archive is written from live topics or a store"),
        (Input(topics=("A",), sql92="a > 1"), "remove --sql92"),
        (Input(topics=("A",), since_ms=1), "remove --since"),
        (Input(store="/nowhere"), "/nowhere"),
    ],
)
def test_mistakes_are_sentences(session, tmp_path, given, words):
    with pytest.raises((ConfigError, StoreError), match=words):
        archive(session, given, str(tmp_path / "a"))


def test_mistakes_of_queries_are_sentences(session, broker, tmp_path):
    with pytest.raises(ConfigError, match="is not an archive; `gantrymq pipeline archive"):
        query(session, Input(archive=str(tmp_path)))
    with pytest.raises(ConfigError, match="name one with --archive"):
        query(session, Input(topics=("A",), namesrv=broker.namesrv), live=True)
    fill(broker, "Mistakes", 0, 1)
    with pytest.raises(ConfigError, match="cannot be read by Spark"):
        query(session, Input(topics=("Mistakes",), namesrv=broker.namesrv), Search(condition="queueId ="))
