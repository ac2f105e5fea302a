"""Queues handed out by the broker: 400; queue entries: 321; forbidden topics and subscriptions: 353, 345."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import body_of, run_broker

from gantrymq.loose_json import dumps


class Halves:
    """Gives the first member the even queues."""

    name = "AVG"

    def allocate(self, group, client_id, queues, client_ids):
        return [queue for queue in queues if queue.queue_id % len(client_ids) == client_ids.index(client_id)]


@pytest.fixture
def halved(plugins):
    def run(main, **values):
        return run_broker(attrs.evolve(plugins, allocations={"AVG": lambda settings: Halves()}), main, **values)

    return run


async def assigned(peer, **fields):
    body = {"topic": "T", "consumerGroup": "CG", "clientId": "c1", "messageModel": "CLUSTERING", "strategyName": "AVG"}
    return await peer.ask(400, None, dumps({**body, **fields}))


def ids(answer):
    return [each["messageQueue"]["queueId"] for each in body_of(answer)["messageQueueAssignments"]]


def test_members_share_the_queues_and_pull_them(halved):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("CG")
        await desk.peer().heartbeat("CG", client_id="c2")
        answer = await assigned(desk)
        assert ids(answer) == [0, 2]
        assert {each["mode"] for each in body_of(answer)["messageQueueAssignments"]} == {"PULL"}
        assert ids(await assigned(desk, clientId="c2")) == [1, 3]
        assert ids(await assigned(desk, messageModel="BROADCASTING")) == [0, 1, 2, 3]
        assert ids(await assigned(desk, topic="Nowhere")) == []
        assert body_of(await desk.ask(402)) == {"messageRequestModeMap": {}}

    halved(main)


def test_nobody_online_or_a_strategy_nobody_offers_is_refused(halved):
    async def main(desk):
        await desk.send("T")
        assert (await assigned(desk)).code == 1
        await desk.heartbeat("CG")
        answer = await assigned(desk, strategyName="MACHINE_ROOM")
        assert (answer.code, "there is AVG" in answer.remark) == (1, True)

    halved(main)


def test_queue_entries_with_the_subscription(broker):
    async def main(desk):
        for number in range(5):
            await desk.send("T", properties="TAGS\x01Aa\x02" if number else "")
        await desk.heartbeat("CG")
        ext = {"topic": "T", "queueId": "0", "index": "0", "count": "2", "consumerGroup": "CG"}
        body = body_of(await desk.ask(321, ext))
        assert (body["minQueueIndex"], body["maxQueueIndex"], body["filterData"]) == (0, 5, "null")
        assert body["subscriptionData"]["topic"] == "T"
        first, second = body["queueData"]
        assert (first["physicOffset"], first["tagsCode"], second["tagsCode"]) == (0, 0, 2112)
        assert second["physicOffset"] == first["physicSize"]
        rest = body_of(await desk.ask(321, {**ext, "index": "3", "count": "100"}))
        assert len(rest["queueData"]) == 2
        assert body_of(await desk.ask(321, {**ext, "index": "99"}))["queueData"] == []

    broker(main)


def test_queue_entries_of_what_is_not_there_are_refused(broker):
    async def main(desk):
        await desk.send("T")
        assert (await desk.ask(321, {"topic": "Nowhere", "queueId": "0", "index": "0", "count": "1"})).code == 1
        assert (await desk.ask(321, {"topic": "T", "queueId": "4", "index": "0", "count": "1"})).code == 1
        assert (await desk.ask(321, {"topic": "T", "queueId": "0", "index": "-1", "count": "1"})).code == 29

    broker(main)


def test_a_group_is_forbidden_a_topic_and_allowed_again(broker):
    async def main(desk):
        ext = {"group": "CG", "topic": "T"}
        await desk.send("T")
        assert (await desk.ask(353, {**ext, "readable": "false"})).code == 26
        await desk.heartbeat("CG")
        assert body_of(await desk.ask(353, ext))["readable"] is True
        assert body_of(await desk.ask(353, {**ext, "readable": "false"})) == {**ext, "readable": False}
        assert (await desk.pull("T", sysFlag="0")).code == 16
        assert body_of(await desk.ask(353, {**ext, "readable": "true"}))["readable"] is True
        assert desk.tables.groups.forbidden == {}

    broker(main)


def test_one_subscription_and_all_producers(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        await desk.ask(34, None, dumps({"clientID": "p1", "producerDataSet": [{"groupName": "PG"}]}))
        found = body_of(await desk.ask(345, {"group": "CG", "topic": "T"}))
        assert (found["group"], found["topic"], found["subscriptionData"]["subString"]) == ("CG", "T", "*")
        assert "subscriptionData" not in body_of(await desk.ask(345, {"group": "CG", "topic": "U"}))
        (producer,) = body_of(await desk.ask(328))["data"]["PG"]
        assert (producer["clientId"], producer["language"], producer["version"]) == ("p1", "JAVA", 479)
        assert producer["remoteIP"].startswith("/127.0.0.1:")

    broker(main)
