"""Forbidden topics and subscriptions: 353, 345; all producers: 328."""

from __future__ import annotations

from broker_desk import body_of

from gantrymq.loose_json import dumps


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
