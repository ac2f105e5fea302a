"""A consumer that filters by SQL92, over bare requests in the form of RocketMQ's client."""

from gantrymq.formats.record import iter_records
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request


class SqlClient:
    """One connection of one client."""

    def __init__(self, cluster, client_id="127.0.0.1@1"):
        self.cluster, self.client_id = cluster, client_id
        self.remoting = RemotingClient(cluster.world)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.remoting.close()

    async def ask(self, code, ext=None, body=None, timeout_s=100.0):
        return await self.remoting.call(self.cluster.broker_address, request(code, ext, body), timeout_s=timeout_s)

    async def subscribe(self, group, *wanted):
        """34, with ``(topic, expression, version)`` for each topic, and perhaps a type."""
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription(*each) for each in wanted],
        }
        return await self.ask(34, {}, dumps({"clientID": self.client_id, "consumerDataSet": [consumer]}))

    async def leave(self, group):
        """35."""
        return await self.ask(35, {"clientID": self.client_id, "consumerGroup": group})

    async def check(self, group, topic, expression):
        """46."""
        body = {"clientId": self.client_id, "group": group, "subscriptionData": subscription(topic, expression)}
        return await self.ask(46, {}, dumps(body))

    async def pull(self, group, topic, queue_offset=0, **more):
        """Pull (request 11) with the subscription from the group's heartbeats."""
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "0",
            "queueOffset": str(queue_offset),
            "maxMsgNums": "32",
            "sysFlag": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
        }
        return await self.ask(11, {**ext, **more})

    async def bodies(self, group, topic, **more):
        """Bodies of all messages that the group gets from queue 0."""
        found, offset = [], 0
        while True:
            answer = await self.pull(group, topic, offset, **more)
            if answer.code == 19:
                return found
            assert answer.code in (0, 20), answer.remark
            if answer.code == 0:
                found += [bytes(record.body).decode() for record in iter_records(answer.payload)]
            offset = int(answer.ext["nextBeginOffset"])


def subscription(topic, expression, version=1, type_name="SQL92"):
    return {
        "topic": topic,
        "subString": expression,
        "subVersion": version,
        "expressionType": type_name,
        "classFilterMode": False,
        "tagsSet": [],
        "codeSet": [],
    }
