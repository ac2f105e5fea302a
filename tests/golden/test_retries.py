"""Failed messages of a Java broker: ours writes the same records, and continues Java's counts."""

from __future__ import annotations

import asyncio
import shutil

import pytest

pytest.importorskip("gantrymq_schedule")

from mmap_stores import TAKEN_OVER

from gantrymq.broker.sending.sending_back import copy_of, own_properties
from gantrymq.client import Client
from gantrymq.model.java import ordered_text
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq.world.real import real_world
from gantrymq_testing.cluster import Cluster


def test_what_comes_back_is_made_as_java_made_it(golden):
    """Byte for byte, from the record that was sent back: property text, flags, hosts, times."""
    records = golden("retry").log_records()
    first = {record.properties["UNIQ_KEY"]: record for record in records if record.topic == "GoldenRetry"}
    made = 0
    for theirs in records:
        before = first.get(theirs.properties["UNIQ_KEY"])
        if theirs.topic == "GoldenRetry" or before is None or theirs.reconsume_times != 1:
            continue
        if theirs.topic.startswith("%RETRY%"):
            continue  # the schedule topic's, delivered
        dead = theirs.topic.startswith("%DLQ%")
        topic = TopicConfig("%DLQ%CG_retry" if dead else "%RETRY%CG_retry", 1, 1)
        own = own_properties(before, 0 if dead else int(theirs.properties["DELAY"]))
        ours = copy_of(before, topic, 0, own, before.store_host)
        if not dead:
            own.update(REAL_TOPIC=topic.name, REAL_QID="0")
            ours.properties = ordered_text(own)
        assert ours.properties == bytes(theirs.properties_bytes)
        for name in ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times"):
            assert getattr(ours, name) == getattr(theirs, name)
        made += 1
    assert made == 10


def test_the_retries_of_a_java_broker_go_on_in_ours(golden_copy, tmp_path):
    """Java's count is used: the third failure of a message that it stored for a second try is a dead letter."""
    scenario = golden_copy("retry")
    shutil.move(scenario.store, tmp_path / "cluster/store")
    settings = {key: scenario.conf[key] for key in TAKEN_OVER if key in scenario.conf}
    settings |= {"messageDelayLevel": "1s 1s 1s 1s 1s"}

    async def failed_once_more(cluster, admin, log_offset):
        header = ConsumerSendMsgBackRequest(offset=log_offset, group="CG_retry", delay_level=1, max_reconsume_times=2)
        await admin.request(cluster.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, header)

    async def main(world):
        cluster = Cluster(world, tmp_path / "cluster", {**settings, "store": "mmap"})
        await cluster.start()
        try:
            async with Client(cluster.namesrv) as client, client.admin as admin:
                waiting = await cluster.pull("%RETRY%CG_retry")
                always = [each for each in waiting if each.tags == "fail-always" and each.reconsume_times == 1]
                dead = await cluster.pull("%DLQ%CG_retry")
                await failed_once_more(cluster, admin, always[0].log_offset)
                while len(now := await cluster.pull("%RETRY%CG_retry")) == len(waiting):
                    await world.clock.sleep(0.05)
                await failed_once_more(cluster, admin, now[-1].log_offset)
                return always[0], now[-1], dead, await cluster.pull("%DLQ%CG_retry")
        finally:
            await cluster.stop()

    async def run():
        world = real_world()
        try:
            return await main(world)
        finally:
            await world.workers.close()

    before, second, dead, now = asyncio.run(run())
    assert (second.message_id, second.reconsume_times, second.body) == (before.message_id, 2, before.body)
    assert now[: len(dead)] == dead
    (letter,) = now[len(dead) :]
    assert (letter.message_id, letter.reconsume_times) == (before.message_id, 3)
    assert letter.properties["ORIGIN_MESSAGE_ID"] == before.properties["ORIGIN_MESSAGE_ID"]
