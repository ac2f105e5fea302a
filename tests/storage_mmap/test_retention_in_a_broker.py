"""Consumers and operators of a broker while files are deleted."""

import pytest

from gantrymq.client import Client, PullStatus, SendFailed
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster

pytest.importorskip("gantrymq_diagnosis")  # it serves the requests to delete files

SMALL = {
    "plugins": "storage_mmap,diagnosis",
    "store": "mmap",
    "mappedFileSizeCommitLog": 8192,
    "mappedFileSizeConsumeQueue": 400,
}
BODY = b"b" * 3000  # two to a log file


async def filled(cluster, count=7):
    await cluster.create_topic("T", 1)
    for _ in range(count):
        await cluster.send("T", BODY)


async def cleaned(cluster, what="log"):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
        said = await admin.clean(cluster.broker_address, what)
    await cluster.world.clock.sleep(2)
    return said


def test_a_consumer_below_the_minimum_is_told_where_to_go_on():
    async def case(cluster):
        await filled(cluster)
        async with cluster.consumer() as consumer:
            (queue,) = await consumer.queues("T")
            assert (await consumer.pull(queue, 0)).status is PullStatus.FOUND
            await consumer.commit(queue, 2)
            assert await cleaned(cluster) == "deleting 3 log files, 24576 bytes"
            found = await consumer.pull(queue, 2)
            assert (found.status, found.next_offset) == (PullStatus.OFFSET_ILLEGAL, 6)
            assert (found.min_offset, found.max_offset) == (6, 7)
            assert await consumer.min_offset(queue) == 6
            assert await consumer.offset_for_timestamp(queue, 0) == 6
            found = await consumer.pull(queue, found.next_offset)
            assert [message.body for message in found.messages] == [BODY]
            assert (await consumer.pull(queue, 7)).status is PullStatus.NO_NEW_MSG

    simulate_cluster(case, settings={**SMALL, "fileReservedTime": 0})


def test_a_broker_restarts_on_what_is_left_and_numbers_go_on():
    async def case(cluster):
        await filled(cluster)
        await cleaned(cluster)
        report = await cluster.restart()
        assert (report.clean, report.notes) == (True, ())
        assert (await cluster.send("T", BODY)).queue_offset == 7

    simulate_cluster(case, settings={**SMALL, "fileReservedTime": 0})


def test_the_topic_s_attribute_hides_what_is_older_and_survives_a_restart():
    async def case(cluster):
        await filled(cluster, 2)
        topics = cluster.server.tables.topics
        topics.update(TopicConfig("T", 1, 1), {"+reserve.time": "60000"})
        await cluster.world.clock.sleep(30)
        await cluster.send("T", b"later")
        await cluster.world.clock.sleep(45)
        for _ in range(2):
            async with cluster.consumer() as consumer:
                (queue,) = await consumer.queues("T")
                found = await consumer.pull(queue, 0)
                assert (found.status, found.next_offset) == (PullStatus.OFFSET_ILLEGAL, 2)
                found = await consumer.pull(queue, 2)
                assert [message.body for message in found.messages] == [b"later"]
            await cluster.restart()

    simulate_cluster(case, settings=SMALL)


def test_an_operator_removes_permanently_empty_queues():
    async def case(cluster):
        await cluster.create_topic("Old", 1)
        await cluster.send("Old", b"old")
        await filled(cluster)
        assert await cleaned(cluster, "queues") == "removed 0 queues whose messages have left the log"
        await cleaned(cluster)
        assert await cleaned(cluster, "queues") == "removed 1 queues whose messages have left the log"
        assert (await cluster.send("Old", b"anew")).queue_offset == 0

    simulate_cluster(case, settings={**SMALL, "fileReservedTime": 0})


def test_senders_hear_why_a_full_disk_refuses_and_are_served_again_within_a_second():
    async def case(cluster):
        await filled(cluster)
        files, clock = cluster.world.files, cluster.world.clock
        whole, use = files.capacity, files.disk_use(cluster.root)
        files.capacity = (use.total - use.free) * 100 // 95
        await clock.sleep(10.1)
        with pytest.raises(SendFailed, match="diskSpaceWarningLevelRatio=90 is the limit; free space") as refused:
            await cluster.send("T", BODY)
        assert refused.value.__cause__.response_code == 14
        async with cluster.consumer() as consumer:  # readers are unaffected
            (queue,) = await consumer.queues("T")
            assert (await consumer.pull(queue, 0)).status is PullStatus.FOUND
        files.capacity = whole
        await clock.sleep(1)
        await cluster.send("T", BODY)

    simulate_cluster(case, settings={**SMALL, "cleanFileForciblyEnable": False})
