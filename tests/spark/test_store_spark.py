"""The sources over a store's folder in Spark: received messages, ranges, damage, live brokers, mistakes."""

import json
import os
import shutil

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")

from golden_stores import SCENARIOS
from spark_columns import described, golden_names

from gantrymq.model.names import is_system_topic
from gantrymq_spark.store_source import StoreReader, StoreSource
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
ADDED = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}  # by Java's client
OTHERWISE = ("kind", "msgId", "transactionId", "properties")  # msgId: Java's client has the unique key there
PULLED = [name for name in SCENARIOS if name not in ("crash/killed", "crash/torn", "ha/slave", "mqadmin")]
ROLLING = {"plugins": "storage_mmap", "store": "mmap", "mappedFileSizeCommitLog": 65536}


def store(session, folder, **options):
    return session.read.format("gantrymq.store").options(**options).load(str(folder))


def offsets(frame):
    return sorted(row.commitLogOffset for row in frame.select("commitLogOffset").collect())


@pytest.mark.parametrize("name", golden_names(PULLED, ("crash/recovered", "innerbatch", "lmq", "v497")))
def test_rows_are_what_java_consumers_received(session, golden, name):
    scenario = golden(name)
    received = scenario.received("pull")
    frame = store(session, scenario.store, unwrapBatches="true", maxBytesPerPartition="50k")
    rows = {(row.commitLogOffset, row.queueOffset): row.asDict() for row in frame.collect()}
    start = min(at for at, _ in rows)
    there = [said for said in received if said["commitLogOffset"] >= start]
    assert there
    for said in there:
        row = rows[said["commitLogOffset"], said["queueOffset"]]
        row = described({**row, "body": bytes(row["body"])}, 1 << 40)
        mine, javas = ({k: v for k, v in each["properties"].items() if k not in ADDED} for each in (row, said))
        assert mine == javas
        same = [field for field in said.keys() & row.keys() if field not in OTHERWISE]
        if name == "innerbatch":  # 0 in Java
            same = [field for field in same if field not in ("storeSize", "bodyCRC")]
        assert len(same) > 12
        assert {field: row[field] for field in same} == {field: said[field] for field in same}
        assert said["offsetMsgId"] in (row["msgId"], None)


def test_cuts_everywhere_give_the_same_rows(session, golden):
    scenario = golden("ipv6")
    whole = sorted(map(str, store(session, scenario.store).collect()))
    assert len(whole) == 20
    cut = store(session, scenario.store, maxBytesPerPartition="443")
    assert cut.rdd.getNumPartitions() > 2 * len(whole)
    assert sorted(map(str, cut.collect())) == whole


def test_system_topics_can_be_left_out(session, golden):
    scenario = golden("transaction")
    rows = store(session, scenario.store, columns="topic,commitLogOffset").collect()
    users = store(session, scenario.store, columns="topic,commitLogOffset", systemTopics="false").collect()
    assert users == [row for row in rows if not is_system_topic(row.topic)]
    assert 0 < len(users) < len(rows)


def test_filters_of_one_query_are_none_of_the_next(session, golden):
    frame = store(session, golden("normal").store, columns="commitLogOffset,topic,storeTimestamp")
    rows = frame.collect()
    middle = rows[len(rows) // 2]
    assert frame.where(frame.commitLogOffset == middle.commitLogOffset).collect() == [middle]
    assert frame.collect() == rows
    after = frame.where((frame.storeTimestamp >= middle.storeTimestamp) & (frame.topic == middle.topic)).collect()
    assert after == [row for row in rows if row.storeTimestamp >= middle.storeTimestamp and row.topic == middle.topic]


def test_damage_of_a_torn_store_is_told(session, golden):
    scenario = golden("crash/torn")
    told = json.loads((scenario.folder / "damage.json").read_text())
    assert told
    found = session.read.format("gantrymq.damage").load(str(scenario.store)).collect()
    assert found
    good = offsets(store(session, scenario.store))
    assert all(not (row.commitLogOffset <= at < row.commitLogOffset + row["size"]) for row in found for at in good)
    assert session.read.format("gantrymq.damage").load(str(golden("normal").store)).count() == 0


def followed(session, folder, target, **options):
    frame = session.readStream.format("gantrymq.store").options(systemTopics="false", **options).load(str(folder))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(target / "checkpoint"))
    return writer.trigger(processingTime="50 milliseconds").start(str(target / "rows"))


def test_a_stream_follows_a_broker_that_rolls_its_files(session, tmp_path):
    with RunningBroker(tmp_path / "broker", ROLLING) as broker:
        broker.create_topic("Tail", 2)
        folder = tmp_path / "broker"
        while not (folder / "commitlog").is_dir():
            folder = next(path.parent for path in folder.rglob("commitlog"))
        sent = 0
        for stops_well in (True, False, False):
            query = followed(
                session, folder, tmp_path, columns="topic,queueId,queueOffset,body", maxBytesPerTrigger="40k"
            )
            for _ in range(100):
                broker.put("Tail", b"%06d" % sent + b"x" * 700, queue_id=sent % 2)
                sent += 1
            if stops_well:
                query.processAllAvailable()
            query.stop()  # also in the middle of a micro-batch
        query = followed(session, folder, tmp_path, columns="topic,queueId,queueOffset,body", maxBytesPerTrigger="40k")
        query.processAllAvailable()
        query.stop()
        assert len(list((folder / "commitlog").iterdir())) > 3
        rows = session.read.parquet(str(tmp_path / "rows")).where("topic = 'Tail'").collect()
    assert sorted(int(row.body[:6]) for row in rows) == list(range(sent))


def test_files_that_retention_deletes(session, golden, tmp_path):
    scenario = golden("crash/recovered")
    for lenient in ("false", "true"):
        folder = tmp_path / lenient
        shutil.copytree(scenario.store, folder / "store")
        files = sorted((folder / "store" / "commitlog").iterdir())
        size = files[0].stat().st_size
        options = {"columns": "commitLogOffset", "failOnDataLoss": str(lenient == "false").lower()}
        frame = store(session, folder / "store", maxBytesPerPartition="20k", **options)
        before = sorted(row.commitLogOffset for row in frame.collect())
        files[0].unlink()
        if lenient == "true":  # the frame knows its ranges already
            assert sorted(row.commitLogOffset for row in frame.collect()) == [at for at in before if at >= size]
        else:
            with pytest.raises(Exception, match="was deleted during the query, as brokers delete expired files"):
                frame.collect()
        again = offsets(store(session, folder / "store", **options))
        assert again == [at for at in before if at >= size]
        stream = (
            session.readStream.format("gantrymq.store")
            .options(startingOffsets="0", **options)
            .load(str(folder / "store"))
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "rows"))
        )
        if lenient == "true":
            assert stream.awaitTermination(60)
            assert offsets(session.read.parquet(str(folder / "rows"))) == again
        else:
            with pytest.raises(Exception, match="the files between were deleted as expired"):
                stream.awaitTermination(60)


@pytest.mark.parametrize("source", ["gantrymq.store", "gantrymq.damage"])
def test_a_folder_that_is_no_store_is_one_sentence(session, tmp_path, source):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        with pytest.raises(Exception, match=str(tmp_path / name)) as problem:
            session.read.format(source).load(str(tmp_path / name)).collect()
        assert "StoreLayoutError: " in str(problem.value) or "StoreError: " in str(problem.value)
    with pytest.raises(Exception, match="needs a folder"):
        session.read.format(source).load().collect()
    with pytest.raises(Exception, match="is not a size; write a number of bytes from 1, or for example 64m"):
        session.read.format(source).options(maxBytesPerPartition="-1").load(str(tmp_path)).collect()


def test_no_right_to_read_is_one_sentence(session, golden_copy):
    """The folder belongs to root and is read by the user nobody, also if root runs the tests."""

    class AsNobody(StoreReader):
        def partitions(self):
            if os.geteuid():
                return super().partitions()
            os.seteuid(65534)
            try:
                return super().partitions()
            finally:
                os.seteuid(0)

    class Source(StoreSource):
        @classmethod
        def name(cls):
            return "gantrymq.store.of.nobody"

        def reader(self, schema):
            return AsNobody(self._read_options(), tuple(schema.fieldNames()))

    session.dataSource.register(Source)
    folder = golden_copy("batch").store
    (folder / "commitlog").chmod(0)
    try:
        with pytest.raises(Exception, match="may not be read by the user that Spark runs as; grant it read access to"):
            session.read.format("gantrymq.store.of.nobody").load(str(folder)).collect()
    finally:
        (folder / "commitlog").chmod(0o755)
