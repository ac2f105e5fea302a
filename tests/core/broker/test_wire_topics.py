"""Requests about topics: 17, 18, 21, 351, 202, 215, 305."""

from __future__ import annotations

import asyncio

import pytest
from broker_desk import START_MS, body_of, pull_ext, topic_ext

from gantrymq.errors import StoreError, TopicNotExist
from gantrymq.interfaces import StoreMessage
from gantrymq.loose_json import dumps, loads
from gantrymq.model import names
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulation import simulate_cluster


def test_a_created_topic_is_told_member_by_member(broker):
    async def main(desk):
        assert (await desk.ask(17, topic_ext("T", attributes="+message.type=FIFO"))).code == 0
        assert body_of(await desk.ask(351, {"topic": "T"})) == {
            "attributes": {"message.type": "FIFO"},
            "order": False,
            "perm": 6,
            "readQueueNums": 4,
            "topicFilterType": "SINGLE_TAG",
            "topicName": "T",
            "topicSysFlag": 0,
            "writeQueueNums": 4,
        }

    broker(main)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"topic": "../T"}, 29),
        ({"topic": "TBW102"}, 29),
        ({"topic": "rmq_sys_own"}, 29),
        ({"perm": "8"}, 29),
        ({"readQueueNums": "-1"}, 29),
        ({"topicFilterType": "NO_TAG"}, 29),
        ({"attributes": "message.type=FIFO"}, 29),
        ({"attributes": "+colour=red"}, 1),
        ({"attributes": "+queue.type=ListCQ"}, 1),
    ],
)
def test_a_topic_that_may_not_be_is_refused_and_not_made(broker, fields, code):
    async def main(desk):
        before = dict(desk.tables.topics.view)
        answer = await desk.ask(17, {**topic_ext("T"), **fields})
        assert (answer.code, bool(answer.remark)) == (code, True)
        assert dict(desk.tables.topics.view) == before

    broker(main)


def test_of_several_topics_none_is_made_when_one_is_refused(broker):
    async def main(desk):
        wanted = [{"topicName": "Good"}, {"topicName": "bad name"}]
        assert (await desk.ask(18, None, dumps({"topicConfigList": wanted}))).code == 29
        assert desk.tables.topics.get("Good") is None
        wanted[1] = {"topicName": "Better", "attributes": {"+message.type": "DELAY"}}
        assert (await desk.ask(18, None, dumps({"topicConfigList": wanted}))).code == 0
        assert desk.tables.topics.get("Better").attributes == {"message.type": "DELAY"}

    broker(main)


def test_the_whole_table_comes_at_once_or_page_by_page(broker):
    async def main(desk):
        everything = body_of(await desk.ask(21))["topicConfigTable"]
        assert list(everything) == sorted(everything)
        seen = {}
        version = None
        while True:
            ext = {"topicSeq": str(len(seen)), "maxTopicNum": "5", **({"dataVersion": version} if version else {})}
            answer = await desk.ask(21, ext)
            seen.update(body_of(answer)["topicConfigTable"])
            version = dumps(body_of(answer)["dataVersion"]).decode()
            if len(seen) >= int(answer.ext["totalTopicNum"]):
                break
        assert seen == everything

    broker(main)


def test_statistics_name_each_queue_and_its_last_message(broker):
    async def main(desk):
        await desk.send("T")
        await desk.send("T")
        table = body_of(await desk.ask(202, {"topic": "T"}))["offsetTable"]
        by_queue = {key["queueId"]: (key["brokerName"], value) for key, value in table.items()}
        assert sorted(by_queue) == [0, 1, 2, 3]
        name, first = by_queue[0]
        assert (name, first["minOffset"], first["maxOffset"]) == ("broker-a", 0, 2)
        assert START_MS <= first["lastUpdateTimestamp"] < START_MS + 1000
        assert by_queue[1][1] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
        assert (await desk.ask(202, {"topic": "Unknown"})).code == 17

    broker(main)


def test_a_deleted_topic_takes_its_messages_and_offsets_along(broker):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG")
        await desk.ask(15, {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "1"})
        assert (await desk.ask(215, {"topic": "T"})).code == 0
        assert (await desk.ask(351, {"topic": "T"})).code == 17
        assert (await desk.ask(30, {"topic": "T", "queueId": "0"})).ext == {"offset": "0"}
        assert body_of(await desk.ask(43))["offsetTable"] == {}
        saved = desk.world.files.read(desk.server.root / "config" / "consumerOffset.json")
        assert loads(saved)["offsetTable"] == {}  # by the time of the answer
        for protected in ("TBW102", " "):
            assert (await desk.ask(215, {"topic": protected})).code == 29

    broker(main)


def test_a_deletion_is_answered_when_the_store_is_done_and_others_go_on_meanwhile(broker, monkeypatch):
    async def main(desk):
        for topic in ("A", "B", "C"):
            await desk.send(topic)
        store, waiting = desk.server.store, {}
        drop = store.drop

        def late(topic):
            drop(topic)
            waiting[topic] = asyncio.get_running_loop().create_future()
            return waiting[topic]

        monkeypatch.setattr(store, "drop", late)
        deletions = {}
        for topic in ("A", "B"):
            deletions[topic] = desk.peer().later(215, {"topic": topic})
            await desk.clock.sleep(1)
        assert (await desk.ask(351, {"topic": "A"})).code == 17
        assert set(waiting) == {"A"}  # the store is not called while it makes another topic durable
        assert not any(each.done() for each in deletions.values())
        waiting["A"].set_result(None)
        assert (await deletions["A"]).code == 0
        await desk.clock.sleep(1)
        waiting["B"].set_exception(StoreError("the disk is full"))
        failed = await deletions["B"]
        assert (failed.code, failed.remark) == (1, "the disk is full")
        assert "B" not in desk.tables.topics.view

    broker(main)


def test_a_pull_that_waits_on_a_deleted_topic_is_told_at_once(broker):
    async def main(desk):
        await desk.send("T")
        held = desk.later(11, pull_ext("T", 1, wait_s=15))
        await desk.clock.sleep(1)
        await desk.peer().ask(215, {"topic": "T"})
        before = desk.clock.monotonic()
        assert (await held).code == 17
        assert desk.clock.monotonic() - before < 1

    broker(main)


def test_no_topic_of_the_broker_itself_is_changed_or_deleted(broker):
    async def main(desk):
        listed = {name for name in desk.tables.topics.view if desk.tables.topics.is_own(name)}
        own = sorted(listed | names.SYSTEM_TOPICS)
        assert {"DefaultCluster", "DefaultCluster_REPLY_TOPIC", "broker-a", "TBW102", "OwnTrace"} <= set(own)
        before = dict(desk.tables.topics.view)
        for topic in own:
            configs = dumps({"topicConfigList": [TopicConfig("Other").to_json(), TopicConfig(topic).to_json()]})
            changed, many = await desk.ask(17, topic_ext(topic)), await desk.ask(18, {}, configs)
            deleted = await desk.ask(215, {"topic": topic})
            assert [changed.code, many.code, deleted.code] == [29, 29, 29], topic
            assert changed.remark == many.remark == f"topic {topic} belongs to the broker itself and cannot be changed"
            assert deleted.remark == f"topic {topic} belongs to the broker itself and cannot be deleted"
        assert dict(desk.tables.topics.view) == before

    broker(main, traceTopicEnable="true", msgTraceTopicName="OwnTrace")


@pytest.mark.parametrize("wanted", [True, False])
def test_retry_topics_of_groups_that_popped_a_topic_go_with_it(broker, wanted):
    async def main(desk):
        await desk.send("T")
        for name in ("%RETRY%CG_T", "%RETRY%CG+T", "%RETRY%CG_U", "%RETRY%CG"):
            desk.tables.topics.create_retry(name, 1)
        await desk.ask(200, None, dumps({"groupName": "CG"}))
        commit = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await desk.ask(15, commit)).code == 0
        assert (await desk.ask(215, {"topic": "T"})).code == 0
        left = {name for name in desk.tables.topics.view if name.startswith("%RETRY%")}
        assert left == {"%RETRY%CG_U", "%RETRY%CG", *(() if wanted else ("%RETRY%CG_T", "%RETRY%CG+T"))}

    broker(main, clearRetryTopicWhenDeleteTopic=wanted)


def test_a_message_that_was_taken_before_its_topic_is_deleted_makes_no_queue_of_it():
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(cluster):
        await cluster.create_topic("T", 1)
        parts, answers = cluster.broker.metrics._parts, []
        parts.pipeline.submit([StoreMessage("T", 0, b"body", b"")], lambda *answer: answers.append(answer))
        await parts._forget_topic("T")
        await cluster.world.clock.sleep(1)
        assert [error for _, error in answers] == [None]
        assert not [queue for queue in cluster.store.queues() if queue.topic == "T"]

    simulate_cluster(main)


def test_a_message_that_waits_until_its_topic_is_on_disk_is_refused_if_that_is_deleted():
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(cluster):
        await cluster.create_topic("T", 1)
        stored = asyncio.ensure_future(cluster.broker.messages.put_all([StoreMessage("T", 0, b"body", b"")]))
        await asyncio.sleep(0)
        await cluster.broker.metrics._parts.delete_topic("T")
        with pytest.raises(TopicNotExist, match="topic T was deleted before the message was stored"):
            await stored
        assert not [queue for queue in cluster.store.queues() if queue.topic == "T"]

    simulate_cluster(main)
