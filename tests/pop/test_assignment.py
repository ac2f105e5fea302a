"""Queues handed out to groups that pull and pop: 400, and the modes 401 and 402 with their file."""

import json
from types import SimpleNamespace

import pytest

from gantrymq.loose_json import dumps
from gantrymq.model.queue import MessageQueue
from gantrymq_pop.assignment import RequestMode, RequestModes, shares


class Averagely:
    """Contiguous shares, like RocketMQ's AVG."""

    name = "AVG"

    def allocate(self, group, client_id, queues, members):
        at, count = members.index(client_id), len(members)
        return list(queues[at * len(queues) // count : (at + 1) * len(queues) // count])


QUEUES = [MessageQueue("T", "b", each) for each in range(6)]


def ids(queues):
    return [each.queue_id for each in queues]


@pytest.mark.parametrize(
    ("members", "share", "found"),
    [("abc", 0, [-1] * 6), ("abc", 2, [-1] * 6), ("abc", 1, [2, 3, 4, 5]), ("abcdefgh", 2, [1])],
)
def test_members_that_pop_share_queues(members, share, found):
    assert ids(shares(Averagely(), "CG", "b", QUEUES, list(members), share)) == found


def test_a_client_outside_the_group_gets_no_queues():
    assert shares(Averagely(), "CG", "z", QUEUES, list("abcd"), 1) == []


def test_what_is_kept_of_modes_is_read_again():
    modes = RequestModes()
    modes.set("T", "CG", RequestMode("POP", 8))
    again = RequestModes()
    again.load(modes.to_json())
    assert again.get("T", "CG") == RequestMode("POP", 8)
    assert again.get("T", "other") is None


def heartbeat(client_id, model="CLUSTERING"):
    subscription = {"topic": "T", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
    group = {"groupName": "CG", "consumeType": "CONSUME_PASSIVELY", "messageModel": model, "unitMode": False}
    group |= {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription]}
    return dumps({"clientID": client_id, "consumerDataSet": [group]})


async def assigned(client, **more):
    body = {"topic": "T", "consumerGroup": "CG", "clientId": "c1", "messageModel": "CLUSTERING", "strategyName": "AVG"}
    answer = await client.ask(400, None, dumps({**body, **more}))
    if answer.code != 0:
        return answer.code
    found = json.loads(answer.payload)["messageQueueAssignments"]
    return sorted((each["messageQueue"]["queueId"], each["mode"]) for each in found)


async def set_mode(client, mode, topic="T", group="CG"):
    body = {"topic": topic, "consumerGroup": group, "mode": mode, "popShareQueueNum": 0}
    return (await client.ask(401, None, dumps(body))).code


def test_a_group_pulls_until_it_is_told_to_pop_and_that_outlives_a_restart(popped):
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(client):
        assert await assigned(client) == 1  # no member is online
        assert (await client.ask(34, None, heartbeat("c1"))).code == 0
        assert await assigned(client) == [(0, "PULL"), (1, "PULL")]
        assert await set_mode(client, "POP") == 0
        assert await assigned(client) == [(-1, "POP")]
        assert await assigned(client, topic="%RETRY%CG") == [(0, "PULL")]
        await client.cluster.restart()
        assert (await client.ask(34, None, heartbeat("c1"))).code == 0
        assert await assigned(client) == [(-1, "POP")]
        modes = json.loads((await client.ask(402)).payload)["messageRequestModeMap"]
        assert modes == {"T": {"CG": {"consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 0, "topic": "T"}}}
        assert await set_mode(client, "PULL") == 0
        assert await assigned(client) == [(0, "PULL"), (1, "PULL")]

    popped(main, settings={"store": "mmap"})


@pytest.mark.parametrize("topic", [True, False], ids=["topic", "group"])
def test_the_mode_of_a_deleted_group_or_topic_is_deleted_even_after_a_restart(popped, topic):
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(client):
        assert await set_mode(client, "POP") == 0
        assert await set_mode(client, "POP", group="Other") == 0
        if topic:
            await client.ask(215, {"topic": "T"})
        else:
            await client.ask(207, {"groupName": "CG", "cleanOffset": "true"})
        await client.clock.sleep(61)
        await client.cluster.restart()
        modes = json.loads((await client.ask(402)).payload)["messageRequestModeMap"]
        assert list(modes.get("T", {})) == ([] if topic else ["Other"])

    popped(main, settings={"store": "mmap"})


def test_modes_of_unknown_groups_and_topics_are_refused(popped):
    async def main(client):
        refused = (("POP", "%RETRY%CG"), ("POP", "Nope"), ("PUSH",), ("POP", "T", "no/group"))
        assert [await set_mode(client, *each) for each in refused] == [16, 17, 29, 26]
        assert (await client.ask(352, {"group": "CG"})).code == 26  # a request that is refused creates no group

    popped(main)


def test_setting_a_mode_creates_the_group(popped):
    async def main(client):
        assert await set_mode(client, "POP") == 0
        assert json.loads((await client.ask(352, {"group": "CG"})).payload)["groupName"] == "CG"

    popped(main)


def test_setting_a_mode_creates_no_group_where_groups_are_not_created_automatically(popped):
    async def main(client):
        assert await set_mode(client, "POP") == 26

    popped(main, settings={"autoCreateSubscriptionGroup": "false"})


def test_settings_say_how_groups_read_for_which_nothing_was_set(popped):
    async def main(client):
        await client.ask(34, None, heartbeat("c1"))
        await client.ask(34, None, heartbeat("c2"))
        assert await assigned(client) == [(-1, "POP")]
        client.cluster.settings.set("serverLoadBalancerEnable", False, "a test")
        assert await assigned(client) == [(0, "POP"), (1, "POP")]
        return SimpleNamespace()

    popped(main, settings={"defaultMessageRequestMode": "POP"})


def test_without_a_route_a_member_is_given_no_list(popped):
    """An empty one would take its queues from it."""

    async def main(client):
        body = dumps({"topic": "Gone", "consumerGroup": "CG", "clientId": "a", "messageModel": "CLUSTERING"})
        answer = await client.ask(400, None, body)
        assert (answer.code, bytes(answer.payload)) == (0, b"{}")

    popped(main)


@pytest.mark.parametrize("share", ["two", "1_0", 2**31, -(2**40), 1.5, True, [2]])
def test_a_share_that_is_no_number_is_refused(popped, share):
    async def main(client):
        await client.pop()
        body = {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": share}
        answer = await client.ask(401, None, dumps(body))
        assert "popShareQueueNum" in answer.remark
        assert (await client.ask(401, None, dumps({**body, "popShareQueueNum": 2}))).code == 0

    popped(main)
