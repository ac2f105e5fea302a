"""Rows per second that Spark's sink sends, and those of the client library alone, to one broker of ours.

    python benchmarks/bench_spark_sink.py                  bodies of 1 KB, three rounds of each way, in turn

Each way sends the same messages (body, key, tag, a property) to a topic of 8 queues: the client from one process, in
batches as the sink makes them and one by one; Spark with two tasks, in batches, one by one, and in batches with a
sharding key. The frame is in Spark's memory before it is written. Load and broker share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from arguments import existing_folder, whole

from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import real_world
from gantrymq_spark.session import open_session
from gantrymq_spark.sink.options import DEFAULT_MESSAGES, read_options
from gantrymq_spark.sink.rows import Outbound
from gantrymq_spark.sink.sending import Sender

TOPIC, QUEUES, TOGETHER = "SinkLoad", 8, 10_000


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Name server and broker in their own process; yields the name server's address."""
    words = [str(Path(sys.executable).with_name("gantrymq")), "start", "--store", str(folder), "--namesrv-port", "0"]
    words += ["--broker-port", "0", "--output", "json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["namesrv"])
        finally:
            process.terminate()


async def make_topic(namesrv: str) -> None:
    """Create the topic on the broker."""
    async with Client(namesrv) as client, client.admin as admin:
        for each in (await admin.clusters()).brokers:
            assert each.master is not None
            await admin.create_topic(each.master, TopicConfig(TOPIC, QUEUES, QUEUES))


async def client_alone(namesrv: str, count: int, body: bytes, together: int) -> None:
    """Send by the client, as the sink does without Spark."""
    given = {"namesrv": namesrv, "batchMessages": str(together)}
    options = read_options(given, streaming=False, environ={})
    world = real_world()
    async with Client(namesrv, world=world) as client, client.producer("bench") as producer:
        sender = Sender(producer, world.clock, options)
        for begin in range(0, count, TOGETHER):
            numbers = range(begin, min(begin + TOGETHER, count))
            await sender.send(
                Outbound(Message(TOPIC, body, "t", f"k{n}", properties={"a": str(n)}), None, alone=False)
                for n in numbers
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=whole(1000), default=60_000, help="of one round of one way")
    parser.add_argument("--size", type=whole(1), default=1024, help="of a body, in bytes")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--store", type=existing_folder, help="a folder on the disk to use")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.store) as folder, broker(Path(folder) / "store") as namesrv:
        asyncio.run(make_topic(namesrv))
        spark = open_session("local[2]", {"spark.log.level": "ERROR"})
        frame = spark.range(0, options.rows, 1, 2).selectExpr(
            f"repeat('x', {options.size}) as body",
            "concat('k', id) as keys",
            "'t' as tags",
            "map('a', cast(id as string)) as properties",
            "concat('s', id % 100) as shard",
        )
        frame = frame.cache()
        frame.count()
        body = b"x" * options.size

        def sink(together: int, *, sharded: bool = False) -> None:
            rows = frame.withColumnRenamed("shard", "shardingKey") if sharded else frame.drop("shard")
            given = {"namesrv": namesrv, "topic": TOPIC, "batchMessages": str(together)}
            rows.write.format("gantrymq").options(**given).mode("append").save()

        ways: dict[str, Callable[[], object]] = {
            "client, batches": lambda: asyncio.run(client_alone(namesrv, options.rows, body, DEFAULT_MESSAGES)),
            "sink, batches": lambda: sink(DEFAULT_MESSAGES),
            "sink, batches, sharding key": lambda: sink(DEFAULT_MESSAGES, sharded=True),
            "client, one by one": lambda: asyncio.run(client_alone(namesrv, options.rows, body, 1)),
            "sink, one by one": lambda: sink(1),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):  # the first is not counted
            for name, work in ways.items():
                began = time.perf_counter()
                work()
                if number:
                    rates[name].append(options.rows / (time.perf_counter() - began))
        spark.stop()
    print(f"{options.rows} rows with bodies of {options.size} bytes, median of {options.rounds} rounds")
    print(f"{'way':32}{'rows/s':>10}{'MB/s':>8}{'over the client':>18}")
    for name, found in rates.items():
        rate = statistics.median(found)
        beside = rates["client, one by one" if "one by one" in name else "client, batches"]
        ratio = statistics.median(mine / its for mine, its in zip(found, beside, strict=True))
        print(f"{name:32}{rate:10,.0f}{rate * options.size / 1e6:8.1f}{ratio:18.2f}")


if __name__ == "__main__":
    main()
