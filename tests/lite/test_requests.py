"""Requests about lite topics over remoting, as RocketMQ's proxy 5.5.0 and mqadmin send them."""

import asyncio
import json

import pytest

pytest.importorskip("gantrymq_pop")

from gantrymq.formats.record import iter_records
from gantrymq.loose_json import loads
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request


class Proxy:
    """A connection of a proxy."""

    def __init__(self, served):
        self.served = served
        self.asked = []
        self.remoting = RemotingClient(served.cluster.world, handler=self)

    def requests(self, connection, commands):
        self.asked += commands

    async def ask(self, code, body=None, **ext):
        encoded = None if body is None else json.dumps(body).encode()
        asked = request(code, {key: str(value) for key, value in ext.items()}, encoded)
        return await self.remoting.call(self.served.cluster.broker_address, asked, timeout_s=100.0)

    async def subscribe(self, *lite_topics, action="PARTIAL_ADD", client_id="c1", group="G", **more):
        change = {
            "action": action,
            "clientId": client_id,
            "group": group,
            "topic": "P",
            "liteTopicSet": lite_topics,
            "version": 1,
            **more,
        }
        return await self.ask(200071, {"subscriptionSet": [change]})

    async def receive(self, poll_ms=0, client_id="c1", group="G", **more):
        fields = {"maxMsgNum": 32, "invisibleTime": 30000, "pollTime": poll_ms, "bornTime": 0, **more}
        return await self.ask(200070, clientId=client_id, consumerGroup=group, topic="P", **fields)

    async def answered(self, code, **ext):
        answer = await self.ask(code, **ext)
        assert answer.code == 0, answer.remark
        return loads(answer.payload)


@pytest.fixture
def proxied(lite):
    """Run ``work(served, proxy)``."""

    def run(work, **more):
        async def main(served):
            proxy = Proxy(served)
            try:
                return await work(served, proxy)
            finally:
                await proxy.remoting.close()

        return lite(main, **more)

    return run


def test_a_proxy_subscribes_receives_acknowledges_and_changes(proxied):
    async def work(served, proxy):
        assert (await proxy.subscribe("a", "b")).code == 0
        await served.send("a", b"1")
        await served.send("b", b"2")
        answer = await proxy.receive()
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert (answer.ext["reviveQid"], answer.ext["orderCountInfo"]) == ("999", "0;0")
        assert [bytes(each.body) for each in iter_records(answer.payload)] == [b"1", b"2"]
        handle = f"0 {answer.ext['popTime']} {answer.ext['invisibleTime']} 999 0 broker-a 0 0"
        named = {"consumerGroup": "G", "topic": "P", "queueId": 0, "extraInfo": handle, "offset": 0}
        assert (await proxy.ask(200051, **named, liteTopic="a")).code == 0
        assert served.broker.offsets.of_group("%LMQ%$P$a", "G") == {0: 1}
        changed = await proxy.ask(200053, **named, liteTopic="b", invisibleTime=1000)
        assert (changed.code, changed.ext["reviveQid"]) == (0, "999")
        again = await proxy.receive(poll_ms=5000)
        assert ([bytes(each.body) for each in iter_records(again.payload)], again.ext["orderCountInfo"]) == (
            [b"2"],
            "1",
        )
        gone = await proxy.ask(200051, **{**named, "offset": 7}, liteTopic="a")
        assert gone.code == 208

    proxied(work)


def test_a_receive_without_messages_ends_with_its_time(proxied):
    async def work(served, proxy):
        begun = served.clock.monotonic()
        answer = await proxy.receive(poll_ms=5000)
        assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
        assert 4.9 < served.clock.monotonic() - begun < 5.2
        await proxy.subscribe("a")
        waiting = asyncio.ensure_future(proxy.receive(poll_ms=20_000))
        await served.clock.sleep(1.0)
        await served.send("a", b"1")
        assert (await waiting).code == 0

    proxied(work)


def test_the_old_consumer_of_an_exclusive_group_is_told_with_request_200073(proxied):
    async def work(served, proxy):
        served.group("E", lite_sub_model="Exclusive")
        await proxy.subscribe("a", group="E")
        await proxy.subscribe("a", group="E", client_id="c2")
        await served.clock.sleep(0.1)
        (told,) = proxy.asked
        assert (told.code, told.ext) == (200073, {"liteTopic": "a", "consumerGroup": "E", "clientId": "c1"})

    proxied(work)


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (None, 604, "subscriptionSet is empty"),
        ({"subscriptionSet": []}, 604, "subscriptionSet is empty"),
        ({"subscriptionSet": [{"action": "ADD"}]}, 29, "cannot be read"),
        ({"subscriptionSet": [{"action": "PARTIAL_ADD", "clientId": "c"}]}, 29, "clientId, group or topic is missing"),
    ],
)
def test_changes_that_cannot_be_read_are_refused(proxied, body, code, text):
    async def work(served, proxy):
        answer = await proxy.ask(200071, body)
        assert answer.code == code
        assert text in answer.remark

    proxied(work)


def test_refusals_have_rocketmq_s_codes(proxied):
    async def work(served, proxy):
        assert (await proxy.subscribe("a", group="none")).code == 26
        assert (await proxy.subscribe("bad name")).code == 29
        assert (await proxy.subscribe("a")).code == 0
        assert (await proxy.subscribe("b")).code == 2018
        assert (
            await proxy.subscribe("c", action="COMPLETE_ADD", offsetOption={"type": "POLICY", "value": 1})
        ).code == 0
        assert (await proxy.receive(maxMsgNum=33)).code == 29

    proxied(work, settings={"maxLiteSubscriptionCount": 1})


def test_mqadmin_sees_topics_groups_and_clients(proxied):
    async def work(served, proxy):
        await proxy.subscribe("a", "b")
        for lite_topic in ("a", "a", "b"):
            await served.send(lite_topic, b"1")
        broker = await proxy.answered(200074)
        assert broker["groupMeta"] == {"P": ["G"]}
        assert (broker["liteSubscriptionCount"], broker["currentLmqNum"], broker["topicMeta"]) == (2, 2, {"P": -1})
        parent = await proxy.answered(200075, topic="P")
        assert parent == {"groups": ["G"], "liteTopicCount": 2, "lmqNum": 2, "topic": "P", "ttl": -1}
        topic = await proxy.answered(200076, parentTopic="P", liteTopic="a")
        assert topic["subscriber"] == [{"clientId": "c1", "group": "G"}]
        assert (topic["topicOffset"]["maxOffset"], topic["shardingToBroker"]) == (2, True)
        client = await proxy.answered(200077, parentTopic="P", group="G", clientId="c1", maxCount=1)
        assert (client["liteTopicCount"], len(client["liteTopicSet"])) == (2, 1)
        assert (await proxy.answered(200077, parentTopic="P", group="G", clientId="c9", maxCount=1))[
            "liteTopicCount"
        ] == -1
        group = await proxy.answered(200078, group="G", topK=1)
        assert group["totalLagCount"] == 3
        (most,) = group["lagCountTopK"]
        assert (most["liteTopic"], most["lagCount"]) == ("a", 2)
        assert most["earliestUnconsumedTimestamp"] == group["earliestUnconsumedTimestamp"] > 0
        one = await proxy.answered(200078, group="G", liteTopic="a", topK=1)
        assert (one["totalLagCount"], one["liteTopicOffsetWrapper"]["brokerOffset"]) == (2, 2)
        assert (await proxy.ask(200079, group="G")).code == 0
        for code, ext in ((200075, {"topic": "none"}), (200078, {"group": "none", "topK": 1})):
            assert (await proxy.ask(code, **ext)).code in (17, 26)

    proxied(work)


def test_lite_topics_of_a_deleted_topic_are_removed(proxied):
    async def work(served, proxy):
        await served.send("a", b"1")
        assert (await proxy.ask(215, topic="P")).code == 0
        await served.clock.sleep(1.0)
        assert served.lite._topics.counts() == {}

    proxied(work)
