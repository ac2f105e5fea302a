"""Queries of live topics with a simulated broker: batch ranges, micro-batches, and broker failures."""

import asyncio
import logging
import random
from datetime import UTC, datetime

import pytest

pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_admin")
pytest.importorskip("gantrymq_diagnosis")

from live_rig import SETTINGS, Stream, batch_rows, options_of, rows_of

from gantrymq.broker import BrokerServer
from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.config import Settings
from gantrymq.errors import BrokerRefused, ConfigError, ConnectFailed, ConnectionLost
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_spark.live.offsets import DataLost, QueueRange, QueueState
from gantrymq_spark.live.options import QueueSelection, read_options
from gantrymq_spark.live.pushdown import PushedFilters
from gantrymq_spark.live.queue_view import QueueView
from gantrymq_spark.live.range_reader import read_range
from gantrymq_spark.live.session import LiveSession, query_reader, range_read_options
from gantrymq_testing.simulation import simulate_cluster

SMALL = {
    **SETTINGS,
    "plugins": SETTINGS["plugins"] + ",diagnosis",  # it deletes files on request
    "mappedFileSizeCommitLog": 8192,
    "mappedFileSizeConsumeQueue": 400,
    "fileReservedTime": 0,
}


def simulate(work, settings=SETTINGS, **more):
    return simulate_cluster(work, settings=settings, **more)


async def fill(cluster, count, queues=4, body=b"", topic="T"):
    """Messages 0, 1, ... one second apart, with a tag and a number."""
    await cluster.create_topic(topic, queues)
    for number in range(count):
        await cluster.world.clock.sleep(1)
        properties = {"a": str(number)}
        await cluster.send(topic, body or b"%d" % number, tags=f"t{number % 3}", properties=properties)


async def expire(cluster):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
        await admin.clean(cluster.broker_address, "log")
    await cluster.world.clock.sleep(2)


def numbers(rows):
    return sorted(int(row["body"]) for row in rows)


def test_a_batch_has_every_message_with_every_column_as_a_consumer_gets_it():
    async def case(cluster):
        await fill(cluster, 50)
        rows = {(row["queueId"], row["queueOffset"]): row for row in await batch_rows(cluster)}
        received = {(message.queue_id, message.queue_offset): message for message in await cluster.pull("T")}
        assert rows.keys() == received.keys()
        for key, message in received.items():
            row = rows[key]
            assert row["body"] == message.body
            assert dict(row["properties"]) == dict(message.properties)
            assert (row["topic"], row["brokerName"], row["tags"]) == ("T", "broker-a", message.properties["TAGS"])
            assert (row["commitLogOffset"], row["storeSize"]) == (message.log_offset, message.store_size)
            assert (row["msgId"], row["storeHost"]) == (message.offset_id, message.store_host)
            assert row["storeTimestamp"] == datetime.fromtimestamp(message.store_timestamp / 1000, UTC)

    simulate(case)


@pytest.mark.parametrize("given", [{}, {"maxRecordsPerPartition": "3"}, {"tags": "t1"}])
def test_messages_of_inner_batches_are_rows_of_their_own(given):
    async def case(cluster):
        cluster.broker.topics.put(TopicConfig("T", 1, 1, attributes={"queue.type": "BatchCQ"}))
        await cluster.world.clock.sleep(2)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("GID_B") as producer:
            for first in (0, 5, 10):
                tag = f"t{first // 5 % 2}"  # one for each: a batch with several tags is no inner batch
                messages = [Message("T", b"%d" % number, tags=tag) for number in range(first, first + 5)]
                await producer.send_batch(messages)
        rows = await batch_rows(cluster, **given)
        wanted = [number for number in range(15) if "tags" not in given or number // 5 % 2]
        assert [(int(row["body"]), row["queueOffset"]) for row in rows] == [(number, number) for number in wanted]
        assert {row["tags"] for row in rows} == {f"t{number // 5 % 2}" for number in wanted}
        assert len({row["commitLogOffset"] for row in rows}) == len({number // 5 for number in wanted})

    simulate(case)


@pytest.mark.parametrize(
    "given", [{"minPartitions": "13"}, {"maxRecordsPerPartition": "2"}, {"maxBytesPerPartition": "400"}]
)
def test_split_tasks_have_every_message_once(given):
    async def case(cluster):
        await fill(cluster, 30)
        async with LiveSession(options_of(cluster, **given), cluster.world) as session:
            assert len(await session.batch_tasks(PushedFilters())) >= 12
        assert numbers(await batch_rows(cluster, **given)) == list(range(30))

    simulate(case)


def test_topics_are_found_by_pattern_without_the_broker_s_own():
    async def case(cluster):
        for topic in ("Orders", "OrdersOld", "Bills"):
            await fill(cluster, 2, topic=topic)
        options = {"namesrv": cluster.namesrv, "subscribePattern": "Or.*|SCHEDULE.*|rmq.*|TBW.*"}
        read = read_options(options, streaming=False, environ={})
        async with LiveSession(read, cluster.world) as session:
            tasks = await session.batch_tasks(PushedFilters())
        assert {task.queue.topic for task in tasks} == {"Orders", "OrdersOld"}

    simulate(case)


def test_starts_and_ends_of_a_batch():
    async def case(cluster):
        await fill(cluster, 10, queues=1)
        start_ms = (await cluster.pull("T"))[0].store_timestamp
        read = {
            "offsets": {"startingOffsets": '{"T":{"broker-a":{"0":3}}}', "endingOffsets": '{"T":{"broker-a":{"0":5}}}'},
            "marks": {"startingOffsets": '{"T":{"broker-a":{"0":-2}}}', "endingOffsets": '{"T":{"broker-a":{"0":-1}}}'},
            "times": {"startingTimestamp": str(start_ms + 4000), "endingTimestamp": str(start_ms + 7000)},
            "late": {"startingTimestamp": str(start_ms + 40_000)},
            "queue times": {"startingOffsetsByTimestamp": f'{{"T":{{"broker-a":{{"0":{start_ms + 8000}}}}}}}'},
            "relative": {"startingOffsets": "-2 seconds"},
        }
        return {name: numbers(await batch_rows(cluster, **given)) for name, given in read.items()}

    found = simulate(case)
    assert found["offsets"] == [3, 4]
    assert found["marks"] == list(range(10))
    assert found["times"] == [4, 5, 6]
    assert found["late"] == []
    assert found["queue times"] == [8, 9]
    assert found["relative"] in ([8, 9], [7, 8, 9])


def test_tags_and_sql92_are_applied_by_the_broker():
    pytest.importorskip("gantrymq_filter_sql92")

    async def case(cluster):
        await fill(cluster, 20)
        tagged = await batch_rows(cluster, tags="t0 || t2", columns=("body",))
        chosen = await batch_rows(cluster, sql92="a > 4 AND a < 9 AND TAGS <> 't1'")
        with pytest.raises(BrokerRefused, match="OTHER"):
            await batch_rows(cluster, sql92="OTHER:: what it likes")
        return numbers(tagged), numbers(chosen), {*tagged[0]}

    tagged, chosen, columns = simulate(case)
    assert tagged == [number for number in range(20) if number % 3 != 1]
    assert chosen == [5, 6, 8]
    assert columns == {"body"}


def test_tags_of_one_hash_are_told_apart():
    async def case(cluster):
        await cluster.create_topic("T", 1)
        for tag in ("Aa", "BB", "Aa"):
            await cluster.send("T", tag.encode(), tags=tag)
        return [row["body"] for row in await batch_rows(cluster, tags="Aa", columns=("body",))]

    assert simulate(case) == [b"Aa", b"Aa"]


def test_what_is_pushed_narrows_ranges():
    async def case(cluster):
        await fill(cluster, 12, queues=2)
        messages = sorted(await cluster.pull("T"), key=lambda message: message.store_timestamp)
        pushed = PushedFilters(queue_ids=frozenset([1]), first_offset=1, end_offset=4)
        rows = await batch_rows(cluster, pushed)
        timed = PushedFilters(first_ms=messages[3].store_timestamp, end_ms=messages[6].store_timestamp)
        return {(row["queueId"], row["queueOffset"]) for row in rows}, numbers(await batch_rows(cluster, timed))

    assert simulate(case) == ({(1, 1), (1, 2), (1, 3)}, [3, 4, 5])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": "Nope"}, "topic Nope does not exist, or its brokers are not running"),
        ({"subscribe": "t"}, r"topic t does not exist \(did you mean T\?\), or its brokers are not running"),
        ({"startingOffsets": '{"T":{"broker-a":{"0":0}}}'}, "startingOffsets names no offset for T, broker-a, queue 1"),
        ({"startingOffsets": '{"T":{"broker-a":{"9":0}}}'}, "queue 9 of T, broker-a is not among the selected queues"),
        (
            {"startingOffsets": '{"T":{"broker-a":{"0":77,"1":0}}}'},
            "offset 77 of T, broker-a, queue 0 is after its end",
        ),
        ({"endingOffsets": '{"T":{"broker-a":{"0":77,"1":0}}}'}, "option endingOffsets: offset 77 of T"),
    ],
)
def test_options_that_do_not_fit_the_topics(given, words):
    async def case(cluster):
        await fill(cluster, 2, queues=2)
        with pytest.raises(ConfigError, match=words):
            await batch_rows(cluster, **given)

    simulate(case)


def test_expired_offsets_fail_a_batch_with_a_report_or_are_passed(caplog):
    start = {"startingOffsets": '{"T":{"broker-a":{"0":2}}}'}

    async def case(cluster):
        await fill(cluster, 7, queues=1, body=b"b" * 3000)
        await expire(cluster)
        with pytest.raises(DataLost, match="T, broker-a, queue 0: offsets 2 to 5 are no longer in the queue"):
            await batch_rows(cluster, **start)
        with caplog.at_level(logging.WARNING, "gantrymq_spark"):
            rows = await batch_rows(cluster, failOnDataLoss="false", **start)
        assert [row["queueOffset"] for row in rows] == [6]
        assert "continuing without them, as failOnDataLoss is false" in caplog.text

    simulate(case, SMALL)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_offsets_that_expire_between_plan_and_task(fail):
    async def case(cluster):
        await fill(cluster, 7, queues=1, body=b"b" * 3000)
        options = options_of(cluster, failOnDataLoss=fail)
        async with LiveSession(options, cluster.world) as session:
            tasks = await session.batch_tasks(PushedFilters())
        await expire(cluster)
        if fail == "true":
            with pytest.raises(DataLost, match="offsets 0 to 5 are no longer in the queue"):
                await rows_of(cluster, options, tasks)
        else:
            assert [row["queueOffset"] for row in await rows_of(cluster, options, tasks)] == [6]

    simulate(case, SMALL)


def test_a_stream_has_what_comes_after_its_start_and_commits_for_a_group():
    async def case(cluster):
        await fill(cluster, 6, queues=2)
        stream = Stream(cluster, groupId="G", maxOffsetsPerTrigger="5")
        async with stream.session() as session:
            assert await stream.step(session) is None
            for number in range(6, 18):
                await cluster.send("T", b"%d" % number)
            sizes, rows = [], []
            while (more := await stream.step(session)) is not None:
                sizes.append(len(more))
                rows += more
            assert (sizes, numbers(rows)) == ([5, 5, 2], list(range(6, 18)))
        async with cluster.consumer("G") as consumer:
            return [await consumer.committed(queue) for queue in await consumer.queues("T")]

    assert simulate(case) == [9, 9]


def test_a_stream_takes_queues_that_a_topic_grows_by():
    async def case(cluster):
        await fill(cluster, 4, queues=1)
        stream = Stream(cluster, startingOffsets="latest")
        async with stream.session() as session:
            assert await stream.step(session) is None
        async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
            await admin.create_topic(cluster.broker_address, TopicConfig("T", read_queues=3, write_queues=3))
            await cluster.world.clock.sleep(60)
        for number in range(4, 10):
            await cluster.put("T", b"%d" % number, queue_id=number % 3)
        async with stream.session() as session:
            assert numbers(await stream.step(session)) == list(range(4, 10))
            assert await stream.step(session) is None

    simulate(case)


async def make_anew(cluster, count, topic="T"):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
        await admin.delete_topic(topic)
    await cluster.world.clock.sleep(60)
    await fill(cluster, count, queues=1, topic=topic)


@pytest.mark.parametrize("now", [True, False], ids=["available now", "interval"])
@pytest.mark.parametrize("count", [2, 6, 20])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_deleted_and_made_anew(count, fail, now):
    async def case(cluster):
        await fill(cluster, 6, queues=1)
        stream = Stream(cluster, startingOffsets="earliest", failOnDataLoss=fail)
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
        await make_anew(cluster, count)
        async with stream.session() as session:
            if now:
                await session.aim()
            if fail == "true":
                with pytest.raises(
                    DataLost, match="belong to a topic that was deleted; a topic of that name was created since"
                ):
                    await stream.step(session)
                return
            assert numbers(await stream.step(session)) == list(range(count))
            assert await stream.step(session) is None

    simulate(case)


@pytest.mark.parametrize("count", [2, 6, 20])
def test_a_topic_made_anew_between_two_micro_batches(count):
    async def case(cluster):
        await fill(cluster, 6, queues=1)
        await fill(cluster, 1, queues=1, topic="U")
        stream = Stream(cluster, subscribe="T,U", startingOffsets="earliest", failOnDataLoss="false")
        async with stream.session() as session:
            assert len(await stream.step(session)) == 7
            await make_anew(cluster, count)
            await cluster.send("U", b"100")  # a micro-batch of another queue
            assert numbers(await stream.step(session)) == [*range(count), 100]
            assert await stream.step(session) is None

    simulate(case)


@pytest.mark.parametrize("count", [2, 20])
def test_a_topic_made_anew_at_a_broker_that_was_away(count):
    async def case(cluster):
        await fill(cluster, 6, queues=1)
        stream = Stream(cluster, startingOffsets="earliest", failOnDataLoss="false")
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
        await make_anew(cluster, count)
        again = await stopped(cluster)
        async with stream.session() as session:
            assert await stream.step(session) is None
            await again()
            await cluster.world.clock.sleep(60)
            assert numbers(await stream.step(session)) == list(range(count))

    simulate(case)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_is_deleted(fail):
    async def case(cluster):
        await fill(cluster, 6, queues=1)
        stream = Stream(cluster, startingOffsets="earliest", failOnDataLoss=fail)
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
            async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
                await admin.delete_topic("T")
            if fail == "true":
                with pytest.raises(DataLost, match="the queue no longer exists"):
                    await stream.step(session)
                return
            assert await stream.step(session) == []
            assert await stream.step(session) is None
            await fill(cluster, 3, queues=1)
            assert numbers(await stream.step(session)) == [0, 1, 2]

    simulate(case)


def test_a_stream_waits_for_a_broker_that_is_away_and_a_query_does_not_begin_without_it():
    async def case(cluster):
        await fill(cluster, 6)
        stream = Stream(cluster, startingOffsets="earliest")
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
            await cluster.send("T", b"6")
            again = await stopped(cluster)
            assert await stream.step(session) is None
            with pytest.raises((ConfigError, ConnectFailed), match="brokers are not running|does not answer"):
                await batch_rows(cluster)
            await again()
            await cluster.world.clock.sleep(60)
            assert numbers(await stream.step(session)) == [6]

    simulate(case)


async def start_name_server(cluster):
    """A new one at the address of the last, without routes; brokers register again within their interval."""
    address, _, port = cluster.namesrv.rpartition(":")
    values = {"bindAddress": address, "listenPort": int(port)}
    settings = Settings(name_server_settings(cluster.root / "namesrv"), values)
    cluster._name_server = NameServer(cluster.world, settings)
    await cluster._name_server.start()


@pytest.mark.parametrize("wait", ["2m", "20s"])
def test_a_stream_waits_for_a_name_server_as_long_as_it_may(wait):
    async def case(cluster):
        await fill(cluster, 6)
        stream = Stream(cluster, startingOffsets="earliest", brokerWait=wait)
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
            await cluster.send("T", b"6")
            await cluster._name_server.stop()
            step = asyncio.ensure_future(stream.step(session))
            await cluster.world.clock.sleep(60)
            await start_name_server(cluster)
            if wait == "20s":
                with pytest.raises(ConnectFailed, match="no name server answers at"):
                    await step
            else:
                assert numbers(await step) == [6]

    simulate(case)


@pytest.mark.parametrize("pattern", [False, True], ids=["subscribe", "subscribePattern"])
@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_name_server_that_restarts_between_two_questions_of_a_look(fail, pattern):
    async def case(cluster):
        await fill(cluster, 6, queues=1)
        topics = {"subscribePattern": "T"} if pattern else {"subscribe": "T"}
        stream = Stream(cluster, startingOffsets="earliest", failOnDataLoss=fail, **topics)
        async with stream.session() as session:
            assert len(await stream.step(session)) == 6
            await cluster.send("T", b"6")
            registration, sleep = cluster.broker.registration, cluster.world.clock.sleep
            register_with = registration.register_with

            async def late(address, known):
                await sleep(30)
                return await register_with(address, known)

            registration.register_with = late
            await cluster._name_server.stop()
            await start_name_server(cluster)
            admin = session._client.admin
            clusters = admin.clusters

            async def registered():  # routes are asked before the broker has registered, clusters after
                await cluster.world.clock.sleep(60)
                return await clusters()

            admin.clusters = registered
            assert await stream.step(session) is None
            assert numbers(await stream.step(session)) == [6]

    simulate(case)


@pytest.mark.parametrize("seed", range(8))
def test_streams_that_are_killed_and_restarted_have_every_message_once(seed):
    async def case(cluster):
        rng = random.Random(seed)
        await cluster.create_topic("T", 2)
        stream = Stream(cluster, startingOffsets="earliest", maxOffsetsPerTrigger=str(rng.choice([1, 7, 40])))
        sent, rows, queues = 0, [], 2
        for _ in range(12):
            async with stream.session() as session:
                for _ in range(rng.randint(0, 3)):
                    for _ in range(rng.randint(0, 15)):
                        await cluster.send("T", b"%d" % sent)
                        sent += 1
                    rows += await stream.step(session) or []
            kept = stream.checkpoint
            if kept and rng.random() < 0.5:  # killed inside a micro-batch: it is not in the sink
                async with stream.session() as session:
                    await stream.step(session)
                stream.checkpoint = kept
            if rng.random() < 0.15:
                queues += 1
                async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
                    config = TopicConfig("T", read_queues=queues, write_queues=queues)
                    await admin.create_topic(cluster.broker_address, config)
        async with stream.session() as session:
            while (more := await stream.step(session)) is not None:
                rows += more
        assert numbers(rows) == list(range(sent))

    simulate(case, seed=seed)


def test_a_filter_gives_no_task_what_is_another_one_s():
    async def case(cluster):
        await fill(cluster, 30, queues=1)
        return numbers(await batch_rows(cluster, tags="t0", maxRecordsPerPartition="3"))

    assert simulate(case) == list(range(0, 30, 3))


def test_a_stream_waits_for_enough_offsets():
    async def case(cluster):
        await fill(cluster, 3)
        stream = Stream(cluster, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="10m")
        async with stream.session() as session:
            assert len(await stream.step(session)) == 3
            await cluster.send("T", b"3")
            assert await stream.step(session) is None
            assert len(await stream.step(session, limited=False)) == 1
            await cluster.send("T", b"4")
            assert await stream.step(session) is None
            await cluster.world.clock.sleep(601)
            assert len(await stream.step(session)) == 1

    simulate(case)


def test_available_now_ends_with_what_was_there():
    async def case(cluster):
        await fill(cluster, 9)
        stream = Stream(cluster, startingOffsets="earliest", maxOffsetsPerTrigger="4", minOffsetsPerTrigger="4")
        async with stream.session() as session:
            await session.aim()
            rows = []
            while (more := await stream.step(session)) is not None:
                rows += more
                await cluster.send("T", b"99")
            return numbers(rows)

    assert simulate(case) == list(range(9))


@pytest.mark.parametrize(("stored_ms", "found"), [(4_999, 10), (5_000, 9)])
def test_a_time_after_the_last_message_is_the_end_though_java_says_the_last_message(stored_ms, found):
    class Java:
        async def offset_for_timestamp(self, queue, time_ms):
            return 9

    view = QueueView(None, Java(), QueueSelection(topics=("T",)))
    there = QueueState(0, 10, stored_ms)
    assert asyncio.run(view.offset_at(MessageQueue("T", "a", 0), there, 5_000)) == found


async def stopped(cluster):
    """The broker alone, and how to start it again where it was."""
    broker, cluster._broker = cluster._broker, None
    cluster.settings.set("listenPort", broker.address[1], "the test")
    await broker.stop()

    async def again():
        cluster._broker = BrokerServer(cluster.world, cluster.settings, cluster.plugins)
        await cluster._broker.start()

    return again


@pytest.mark.parametrize("wait", ["2m", "20s"])
def test_a_task_waits_for_a_broker_as_long_as_it_may(wait):
    async def case(cluster):
        await fill(cluster, 100, queues=1)
        options = options_of(cluster, brokerWait=wait)
        async with LiveSession(options, cluster.world) as session:
            (task,) = await session.batch_tasks(PushedFilters())
        async with query_reader(options, cluster.world) as consumer:
            await consumer.pull_records(task.queue, 0)
            again = await stopped(cluster)
            reading = asyncio.ensure_future(collected(consumer, cluster.world.clock, task, options))
            await cluster.world.clock.sleep(60)
            await again()
            if wait == "20s":
                with pytest.raises((ConnectFailed, ConnectionLost)):
                    await reading
            else:
                assert numbers(await reading) == list(range(100))

    simulate(case)


@pytest.mark.parametrize("away", [False, True])
def test_the_time_that_rows_are_used_for_is_no_silence_of_the_broker(away):
    """A pull is under way meanwhile; with *away* its broker stops, and is back before more rows are wanted."""

    async def case(cluster):
        await fill(cluster, 24, queues=1, body=random.Random(1).randbytes(1 << 19))
        options = options_of(cluster, brokerWait="20s")
        task = QueueRange(MessageQueue("T", "broker-a", 0), 0, 24)
        rows, batches = [], 0
        async with query_reader(options, cluster.world) as consumer:
            async for batch in read_range(
                consumer, cluster.world.clock, task, range_read_options(options, ("queueOffset",))
            ):
                rows += batch.column("queueOffset").to_pylist()
                batches += 1
                again = await stopped(cluster) if away and batches == 1 else None
                await cluster.world.clock.sleep(100)
                if again:
                    await again()
        assert rows == list(range(24))
        assert batches > 1

    simulate(case)


def test_a_pull_that_nobody_waits_for_is_cancelled():
    async def case(cluster):
        await fill(cluster, 24, queues=1, body=random.Random(1).randbytes(1 << 19))
        options = options_of(cluster)
        task = QueueRange(MessageQueue("T", "broker-a", 0), 0, 24)
        async with query_reader(options, cluster.world) as consumer:
            before = asyncio.all_tasks()
            reading = read_range(consumer, cluster.world.clock, task, range_read_options(options, ("body",)))
            await anext(reading)
            assert len(asyncio.all_tasks() - before) == 1
            await reading.aclose()
            assert not asyncio.all_tasks() - before

    simulate(case)


async def collected(consumer, clock, task, options):
    found = []
    async for batch in read_range(consumer, clock, task, range_read_options(options, ("body",))):
        found += batch.to_pylist()
    return found


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_queue_that_ends_before_the_range_does(fail):
    async def case(cluster):
        await fill(cluster, 5, queues=1)
        options = options_of(cluster, failOnDataLoss=fail)
        task = QueueRange(MessageQueue("T", "broker-a", 0), 2, 8)
        begun = cluster.world.clock.monotonic()
        if fail == "true":
            with pytest.raises(DataLost, match="offsets 5 to 7 are not in the queue, which ends before them"):
                await rows_of(cluster, options, [task])
        else:
            assert numbers(await rows_of(cluster, options, [task])) == [2, 3, 4]
        assert 120 <= cluster.world.clock.monotonic() - begun < 125

    simulate(case)


def test_messages_that_come_while_a_task_waits_are_taken():
    async def case(cluster):
        await fill(cluster, 5, queues=1)
        task = QueueRange(MessageQueue("T", "broker-a", 0), 2, 6)
        reading = asyncio.ensure_future(rows_of(cluster, options_of(cluster), [task]))
        await cluster.world.clock.sleep(30)
        await cluster.send("T", b"5")
        await cluster.send("T", b"6")
        assert numbers(await reading) == [2, 3, 4, 5]

    simulate(case)
