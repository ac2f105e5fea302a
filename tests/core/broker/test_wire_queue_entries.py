"""Queue entries: 321; forbidden topics and subscriptions: 353, 345."""

from __future__ import annotations

from broker_desk import body_of

from gantrymq.loose_json import dumps


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
        absent = body_of(await desk.ask(321, {**ext, "consumerGroup": "Absent"}))
        assert (absent["filterData"], "subscriptionData" in absent) == ("Absent@T is not online!", False)

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
