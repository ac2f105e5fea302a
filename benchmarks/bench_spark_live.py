"""Rows per second of Spark's live source from a broker of ours, beside Spark's own Kafka source from Kafka.

    python benchmarks/bench_spark_live.py                  bodies of 1 KB, three rounds of each way, in turn

Both topics have 8 queues and the same messages, with a body and a key each, which Spark sent to them; both brokers run
with asynchronous flush. Both sources read in one Spark session with the same cores, as batch queries and as streams of
what is there (Trigger.AvailableNow), and what they read is discarded (data source noop). "The same columns" are those
that Kafka's source has: topic, queue, offset, time, key, body; "all columns" of ours has the others too, with the map
of properties. CPU is that of all processes except the brokers. One round, which starts the workers, does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import peer_servers
from arguments import existing_folder, whole
from spark_scans import Scans, Took, timed

from gantrymq.client import Client
from gantrymq.model.topic import TopicConfig

TOPIC, QUEUES = "LiveLoad", peer_servers.PARTITIONS
SAME = ("topic", "queueId", "queueOffset", "storeTimestamp", "keys", "body")
SPARK_KAFKA = Path(__file__).resolve().parent / "spark_kafka"


async def make_topic(namesrv: str) -> None:
    """Create the topic on our broker."""
    async with Client(namesrv) as client, client.admin as admin:
        for each in (await admin.clusters()).brokers:
            assert each.master is not None
            await admin.create_topic(each.master, TopicConfig(TOPIC, QUEUES, QUEUES))


def send(spark: Any, count: int, size: int, namesrv: str, kafka: str) -> None:
    """Send the same messages to both brokers."""
    frame = spark.range(0, count, 1, QUEUES).selectExpr(
        f"substring(repeat(concat('body ', id, ' '), {size}), 1, {size}) as body", "concat('k', id) as keys"
    )
    frame.write.format("gantrymq").options(namesrv=namesrv, topic=TOPIC).mode("append").save()
    frame = frame.selectExpr("cast(keys as binary) as key", "cast(body as binary) as value")
    frame.write.format("kafka").options(topic=TOPIC, **{"kafka.bootstrap.servers": kafka}).save()


class Reading:
    """The ways to read both topics."""

    def __init__(self, scans: Scans, folder: Path, namesrv: str, kafka: str) -> None:
        """*folder*: for checkpoints of streams."""
        self._scans = scans
        self._folder = folder
        self._ours = {"namesrv": namesrv, "subscribe": TOPIC}
        self._kafka = {"kafka.bootstrap.servers": kafka, "subscribe": TOPIC, "startingOffsets": "earliest"}
        self._same = {"columns": ",".join(SAME)}

    def ways(self) -> dict[str, Callable[[], int]]:
        """Return the ways by name; the one of Kafka before those of ours."""
        return {
            "Kafka, batch": lambda: self._batch("kafka", self._kafka),
            "ours, batch, the same columns": lambda: self._batch("gantrymq", {**self._ours, **self._same}),
            "ours, batch, all columns": lambda: self._batch("gantrymq", self._ours),
            "Kafka, stream": lambda: self._stream("kafka", self._kafka),
            "ours, stream, the same columns": lambda: self._stream(
                "gantrymq", {**self._ours, **self._same, "startingOffsets": "earliest"}
            ),
            "ours, stream, all columns": lambda: self._stream(
                "gantrymq", {**self._ours, "startingOffsets": "earliest"}
            ),
        }

    def count(self) -> tuple[int, int]:
        """Return how many messages both sources find, ours first."""
        ours = self._scans.spark.read.format("gantrymq").options(columns="queueOffset", **self._ours)
        return ours.load().count(), self._scans.spark.read.format("kafka").options(**self._kafka).load().count()

    def _batch(self, source: str, options: dict[str, str]) -> int:
        return self._scans.consume(self._scans.spark.read.format(source).options(**options).load())

    def _stream(self, source: str, options: dict[str, str]) -> int:
        frame = self._scans.spark.readStream.format(source).options(**options).load()
        with tempfile.TemporaryDirectory(dir=self._folder) as checkpoint:
            writing = frame.writeStream.format("noop").trigger(availableNow=True)
            writing.option("checkpointLocation", checkpoint).start().awaitTermination()
        return 0


def table(took: dict[str, list[Took]]) -> str:
    """A line for each way."""
    lines = [f"{'':34}{'rows/s':>10}{'s':>8}{'us CPU/row':>12}{'over Kafka':>12}"]
    for name, times in took.items():
        beside = took["Kafka, batch" if "batch" in name else "Kafka, stream"]
        wall = statistics.median(each.wall for each in times)
        cpu = statistics.median(each.cpu for each in times) / times[0].rows * 1e6
        ratio = statistics.median(its.wall / mine.wall for mine, its in zip(times, beside, strict=True))
        lines.append(f"{name:34}{times[0].rows / wall:10,.0f}{wall:8.2f}{cpu:12.2f}{ratio:12.2f}")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=whole(1), default=600_000)
    parser.add_argument("--size", type=whole(1), default=1024, help="of a body, in bytes")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--cores", type=whole(1), default=2)
    parser.add_argument("--only", default="", help="ways that contain this text")
    parser.add_argument("--store", type=existing_folder, help="a folder on the disk to use")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="gantrymq-bench-", dir=options.store))
    try:
        with ExitStack() as stack:
            for name in ("ours", "kafka"):
                (root / name).mkdir()
            ours = stack.enter_context(peer_servers.gantrymq("ASYNC_FLUSH", root / "ours"))
            kafka = stack.enter_context(peer_servers.kafka("ASYNC_FLUSH", root / "kafka"))
            asyncio.run(make_topic(ours.address))
            jars = peer_servers.kept_jars(SPARK_KAFKA, "spark-kafka").glob("*.jar")
            scans = Scans(root / "spark", options.cores, jars=",".join(map(str, jars)))
            stack.callback(scans.spark.stop)
            send(scans.spark, options.rows, options.size, ours.address, kafka.address)
            reading = Reading(scans, root, ours.address, kafka.address)
            found = reading.count()
            assert found == (options.rows, options.rows), found
            took: dict[str, list[Took]] = {}
            for number in range(options.rounds + 1):
                for name, work in reading.ways().items():
                    if options.only in name or name.startswith("Kafka"):
                        one = timed(work, options.rows, 0, without=(ours.pid, kafka.pid))
                        if number:
                            took.setdefault(name, []).append(one)
            print(
                f"{options.rows} messages with bodies of {options.size} bytes, local[{options.cores}], medians of "
                f"{options.rounds}"
            )
            print(table(took))
    except peer_servers.Missing as problem:
        raise SystemExit(str(problem)) from None
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
