"""Online clients, their groups and subscriptions: 203, 204, 328, 345, 300, 343; the broker's own topics: 305."""

from __future__ import annotations

import pytest
from broker_desk import body_of
from test_sliced_answers import FIELDS, GROUPS, MEMBERS, TOPICS, answer_made_in_slices

from gantrymq.loose_json import dumps
from gantrymq.model import names

SLICED = {  # code to fields, and the smallest number of items
    203: ({"consumerGroup": "online"}, MEMBERS),
    204: ({"producerGroup": "online"}, MEMBERS),
    300: (FIELDS, GROUPS),
    328: ({}, MEMBERS),
    343: (FIELDS, TOPICS),
}


async def produce(desk):
    await desk.ask(34, None, dumps({"clientID": "p1", "producerDataSet": [{"groupName": "PG"}]}))


def test_the_members_of_a_consumer_group_and_of_a_producer_group(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        await produce(desk)
        told = body_of(await desk.ask(203, {"consumerGroup": "CG"}))
        (member,) = told.pop("connectionSet")
        assert member.pop("clientAddr").count(":") == 1
        assert member == {"clientId": "c1", "language": "JAVA", "version": 479}
        assert set(told.pop("subscriptionTable")) == {"T"}
        assert told == {
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
        }
        assert len(body_of(await desk.ask(204, {"producerGroup": "PG"}))["connectionSet"]) == 1

    broker(main)


def test_groups_without_members_have_codes_of_their_own(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        await desk.ask(35, {"clientID": "c1", "consumerGroup": "CG"})
        assert (await desk.ask(203, {"consumerGroup": "CG"})).code == 206
        assert (await desk.ask(204, {"producerGroup": "PG"})).code == 1
        assert body_of(await desk.ask(328)) == {"data": {}}

    broker(main)


def test_one_subscription_and_all_producers(broker):
    async def main(desk):
        await desk.heartbeat("CG")
        await produce(desk)
        found = body_of(await desk.ask(345, {"group": "CG", "topic": "T"}))
        assert (found["group"], found["topic"], found["subscriptionData"]["subString"]) == ("CG", "T", "*")
        assert "subscriptionData" not in body_of(await desk.ask(345, {"group": "CG", "topic": "U"}))
        assert "subscriptionData" not in body_of(await desk.ask(345, {"group": "Offline", "topic": "T"}))
        (producer,) = body_of(await desk.ask(328))["data"]["PG"]
        assert (producer["clientId"], producer["language"], producer["version"]) == ("p1", "JAVA", 479)
        assert producer["remoteIP"].startswith("/127.0.0.1:")

    broker(main)


def test_groups_and_topics_find_each_other_online_and_by_offset(broker):
    async def main(desk):
        await desk.send("T")
        await desk.heartbeat("Online", "T")
        await desk.peer().heartbeat("Other", "U", client_id="c2")
        await desk.ask(200, None, dumps({"groupName": "Offline"}))
        await desk.ask(15, {"consumerGroup": "Offline", "topic": "T", "queueId": "0", "commitOffset": "1"})
        assert body_of(await desk.ask(300, {"topic": "T"})) == {"groupList": ["Online", "Offline"]}
        assert body_of(await desk.ask(343, {"group": "Offline"}))["topicList"] == ["T"]
        assert body_of(await desk.ask(343, {"group": "Online"}))["topicList"] == ["T"]
        assert body_of(await desk.ask(300, {"topic": "Unknown"})) == {"groupList": []}

    broker(main)


def test_system_topics_are_listed_those_of_switched_off_parts_too(broker):
    async def main(desk):
        listed = body_of(await desk.ask(305))["topicList"]
        assert set(listed) >= names.SYSTEM_TOPICS | {"DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"}
        assert len(listed) == len(set(listed))
        assert "T" not in listed

    broker(main)


@pytest.mark.parametrize("code", SLICED)
def test_an_answer_has_the_bytes_of_one_piece_and_is_made_in_slices(broker, monkeypatch, code):
    broker(lambda desk: answer_made_in_slices(desk, monkeypatch, code, *SLICED[code]))
