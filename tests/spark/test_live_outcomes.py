"""Streaming queries while brokers and topics change, as described in docs/spark/live.md."""

import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_admin")

from gantrymq.broker import BrokerServer
from gantrymq.client import Client
from gantrymq.model.topic import TopicConfig
from gantrymq_spark import register

pytestmark = pytest.mark.spark
LOG_FILE_BYTES = 8192
SETTINGS = {
    "plugins": "storage_mmap,filter_tag,admin,diagnosis",
    "store": "mmap",
    "mappedFileSizeCommitLog": LOG_FILE_BYTES,
    "mappedFileSizeConsumeQueue": 400,
    "fileReservedTime": 0,
}
DEADLINE_S = 120


class Query:
    """A streaming query into Parquet, which is started again from its checkpoint for each step."""

    def __init__(self, spark, broker, topic, folder):
        register(spark)
        self.spark, self.broker, self.topic = spark, broker, topic
        self.folder, self.checkpoint = str(folder / "rows"), str(folder / "checkpoint")

    def start(self, *, available=True, **options):
        given = {"namesrv": self.broker.namesrv, "subscribe": self.topic, "startingOffsets": "earliest", **options}
        frame = self.spark.readStream.format("gantrymq").options(**given).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", self.checkpoint)
        trigger = {"availableNow": True} if available else {"processingTime": "200 milliseconds"}
        return writer.trigger(**trigger).start(self.folder)

    def run(self, **options):
        assert self.start(**options).awaitTermination(DEADLINE_S)

    def numbers(self):
        """Of the rows that are there: before the first micro-batch ends the folder has no schema of its own."""
        return sorted(int(row.body) for row in self.spark.read.schema("body binary").parquet(self.folder).collect())


def fill(broker, topic, begin, end, queues=1):
    for number in range(begin, end):
        broker.put(topic, b"%0*d" % (1 if queues > 1 else 3000, number), queue_id=number % queues)


def admin_does(broker, work):
    async def body():
        async with Client(broker.namesrv) as client, client.admin as admin:
            await work(admin)

    broker.run(body())


async def _again(cluster):
    """The broker stops and restarts at the same address; its name server stays."""
    cluster.settings.set("listenPort", cluster.server.address[1], "the test")
    await cluster.server.stop()
    cluster._broker = BrokerServer(cluster.world, cluster.settings, cluster.plugins)
    await cluster._broker.start()


def test_a_broker_is_started_again(spark, broker, tmp_path):
    """While a query runs, and between two runs."""
    broker.create_topic("Again", 2)
    fill(broker, "Again", 0, 10, queues=2)
    query = Query(spark, broker, "Again", tmp_path)
    running = query.start(available=False)
    try:
        _wait(query, running, 10)
        broker.run(_again(broker.cluster))
        fill(broker, "Again", 10, 20, queues=2)
        _wait(query, running, 20)
    finally:
        running.stop()
    broker.restart()
    fill(broker, "Again", 20, 30, queues=2)
    query.run()
    assert query.numbers() == list(range(30))


def _wait(query, running, count):
    deadline = time.monotonic() + DEADLINE_S
    while len(query.numbers()) < count:
        assert running.exception() is None
        assert not running.awaitTermination(0.2)
        assert time.monotonic() < deadline, f"{count} messages do not arrive"


def test_a_topic_gets_more_queues(spark, broker, tmp_path):
    broker.create_topic("Growing", 1)
    fill(broker, "Growing", 0, 4)
    query = Query(spark, broker, "Growing", tmp_path)
    query.run()
    grown = TopicConfig("Growing", read_queues=3, write_queues=3)
    admin_does(broker, lambda admin: admin.create_topic(broker.broker_address, grown))
    fill(broker, "Growing", 4, 10, queues=3)
    query.run()
    assert query.numbers() == list(range(10))


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_is_deleted(spark, broker, tmp_path, fail):
    topic = f"Deleted{fail}"
    broker.create_topic(topic, 1)
    fill(broker, topic, 0, 6)
    query = Query(spark, broker, topic, tmp_path)
    query.run(failOnDataLoss=fail)
    admin_does(broker, lambda admin: admin.delete_topic(topic))
    if fail:
        with pytest.raises(Exception, match=f"{topic}, broker-a, queue 0.*the queue no longer exists"):
            query.run()
        return
    query.run(failOnDataLoss="false")
    broker.create_topic(topic, 1)
    fill(broker, topic, 6, 9)
    query.run(failOnDataLoss="false")
    assert query.numbers() == list(range(9))


@pytest.mark.parametrize("fail", [True, False])
def test_offsets_expire_before_they_are_read(spark, broker, tmp_path, fail):
    topic = f"Expired{fail}"
    broker.create_topic(topic, 1)
    fill(broker, topic, 0, 2)
    query = Query(spark, broker, topic, tmp_path)
    query.run(failOnDataLoss=fail)
    fill(broker, topic, 2, 9)
    admin_does(broker, lambda admin: admin.clean(broker.broker_address, "log"))
    deadline = time.monotonic() + DEADLINE_S
    while (log := broker.call(broker.store.state)).max_log_offset - log.min_log_offset > LOG_FILE_BYTES:
        assert time.monotonic() < deadline, "nothing expires"
    left = [int(message.body) for message in broker.pull(topic)]
    if fail:
        with pytest.raises(Exception, match=f"{topic}, broker-a, queue 0: offsets 2 to {left[0] - 1} are no longer"):
            query.run()
        return
    query.run(failOnDataLoss="false")
    assert query.numbers() == [0, 1, *left]
