"""Clients, topics and groups that appear and disappear: no round leaves anything that a request can find.

A round creates a topic and two groups, sends plain, delayed, timed and half messages, pulls through a filter, locks,
pops (some messages are acknowledged, some come back), sends back, resets offsets and disconnects without unregistering.
Then the groups and the topic are deleted while some of their messages still wait for their time.
"""

import json
from collections.abc import Mapping

from gantrymq.formats.record import iter_records
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode as Code
from gantrymq.remoting.command import Command, request
from gantrymq.world import World

CALL_S = 60.0
NO_MATCH = 20
DELAY_S, INVISIBLE_S = 3.0, 2.0  # messages still waiting when the topic is deleted
PRODUCERS, QUEUES = "churn-producers", 2


class Churn:
    """Rounds against one broker, each on its own connection."""

    def __init__(self, world: World, broker: str, name_server: str) -> None:
        """Addresses as host:port."""
        self.world = world
        self.broker = broker
        self.name_server = name_server
        self.wrong: list[str] = []

    async def round(self, number: int) -> None:
        """Run one round: connect, use everything, disconnect, delete."""
        client = RemotingClient(self.world)
        topic, group, popping = f"Churn-{number}", f"churn-{number}", f"churn-pop-{number}"
        try:
            await self._come(client, number, topic, group)
            await self._send(client, topic)
            await self._consume(client, topic, group)
            await self._pop(client, topic, popping)
        finally:
            await client.close()
        operator = RemotingClient(self.world)
        try:
            for name in (group, popping):
                gone = {"groupName": name, "cleanOffset": "true"}
                await self._ask(operator, Code.DELETE_SUBSCRIPTIONGROUP, gone)
            await self._ask(operator, Code.DELETE_TOPIC_IN_BROKER, {"topic": topic})
            for name in (topic, f"%RETRY%{group}", f"%RETRY%{popping}", f"%RETRY%{popping}_{topic}"):
                await self._ask(operator, Code.DELETE_TOPIC_IN_NAMESRV, {"topic": name}, to=self.name_server)
        finally:
            await operator.close()

    async def _come(self, client: RemotingClient, number: int, topic: str, group: str) -> None:
        fields = {"topic": topic, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        queues = {"readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "topicSysFlag": "0", "order": "false"}
        await self._ask(client, Code.UPDATE_AND_CREATE_TOPIC, fields | queues)
        expression = f"a > {number} or a is null"
        subscription = {"topic": topic, "subString": expression, "expressionType": "SQL92", "subVersion": 1}
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        said = {"clientID": f"client-{number}", "consumerDataSet": [consumer]}
        said["producerDataSet"] = [{"groupName": f"{PRODUCERS}-{number}"}]
        await self._ask(client, Code.HEART_BEAT, {}, json.dumps(said).encode())

    async def _send(self, client: RemotingClient, topic: str) -> None:
        soon_ms = self.world.clock.now_ms() + round(DELAY_S * 1000)
        for queue, properties in enumerate(({}, {"a": "1"}, {"DELAY": "2"}, {"TIMER_DELIVER_MS": str(soon_ms)})):
            own = {"UNIQ_KEY": f"{topic}-{queue}", "KEYS": topic, "TAGS": "A", **properties}
            await self._sent(client, topic, queue % QUEUES, own)

    async def _sent(self, client: RemotingClient, topic: str, queue: int, own: Mapping[str, str]) -> None:
        ext = {"a": PRODUCERS, "b": topic, "c": "TBW102", "d": str(QUEUES), "e": str(queue), "f": "0"}
        ext |= {"g": str(self.world.clock.now_ms()), "h": "0", "j": "0", "k": "false", "m": "false"}
        ext["i"] = "".join(f"{name}\x01{value}\x02" for name, value in own.items())
        await self._ask(client, Code.SEND_MESSAGE_V2, ext, b"body")

    async def _consume(self, client: RemotingClient, topic: str, group: str) -> None:
        offsets = []
        for queue in range(QUEUES):
            ext = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "queueOffset": "0"}
            ext |= {"maxMsgNums": "32", "sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0"}
            found = await self._ask(client, Code.PULL_MESSAGE, ext | {"subscription": "", "subVersion": "1"})
            offsets += [record.log_offset for record in iter_records(found.payload)]
            commit = {"consumerGroup": group, "topic": topic, "queueId": str(queue), "commitOffset": "1"}
            await self._ask(client, Code.UPDATE_CONSUMER_OFFSET, commit)
        back = {"offset": str(offsets[0]), "group": group, "delayLevel": "1", "originTopic": topic}
        await self._ask(client, Code.CONSUMER_SEND_MSG_BACK, back)
        mine = {"consumerGroup": group, "clientId": "me"}
        mine["mqSet"] = [{"topic": topic, "brokerName": "broker-a", "queueId": 0}]  # type: ignore[assignment]
        await self._ask(client, Code.LOCK_BATCH_MQ, {}, json.dumps(mine).encode())

    async def _pop(self, client: RemotingClient, topic: str, group: str) -> None:
        await self._ask(client, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": group}).encode())
        for order in ("true", "false"):
            ext = {"consumerGroup": group, "topic": topic, "queueId": "0" if order == "true" else "1"}
            ext |= {"maxMsgNums": "8", "invisibleTime": str(round(INVISIBLE_S * 1000)), "pollTime": "0"}
            ext |= {"bornTime": str(self.world.clock.now_ms()), "initMode": "0", "order": order}
            await self._ask(client, Code.POP_MESSAGE, ext)

    async def _ask(
        self, client: RemotingClient, code: int, ext: dict[str, str], body: bytes | None = None, *, to: str = ""
    ) -> Command:
        answer = await client.call(to or self.broker, request(code, ext, body), timeout_s=CALL_S)
        if answer.code not in (0, NO_MATCH):
            self.wrong.append(f"{code}: {answer.code} {answer.remark}")
        return answer
