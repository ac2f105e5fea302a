"""A broker with the plugin, and clients with configurable responses."""

import json

import pytest

from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.send import SendMessageRequest

TOPIC = "DefaultCluster_REPLY_TOPIC"
ASKED_FOR_MS = 1_700_000_000_000


class Peer:
    """One connection: sends requests, records received ones, and answers them by code from `answers`."""

    def __init__(self, cluster):
        self.cluster, self.asked, self.answers = cluster, [], {326: Command(0)}
        self.client = RemotingClient(cluster.world, handler=self)

    def requests(self, connection, commands):
        self.asked += commands
        for command in commands:
            if command.code in self.answers:
                answer = self.answers[command.code]
                connection.reply(command, Command(answer.code, remark=answer.remark))

    async def ask(self, code, ext=None, body=None):
        connection = await self.client.connect(self.cluster.broker_address)
        return await connection.call(request(code, ext, body), 600)

    async def produce(self, client_id, group="PG"):
        body = json.dumps({"clientID": client_id, "producerDataSet": [{"groupName": group}]}).encode()
        assert (await self.ask(34, None, body)).code == 0

    async def reply(self, properties, body=b"the reply", code=325, **fields):
        """Reply with these properties, a mapping."""
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        values = {
            "producer_group": "PG_reply",
            "topic": TOPIC,
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 0,
            "sys_flag": 0,
            "born_timestamp": ASKED_FOR_MS,
            "flag": 0,
            "properties": text,
        }
        header = SendMessageRequest(**{**values, **fields})
        return await self.ask(code, header.to_ext() if code == 324 else header.to_ext_v2(), body)


@pytest.fixture
def replying(gantrymq_simulation):
    """``replying(main, key=value)`` runs ``await main(cluster, peer)``; ``peer()`` is one more client."""
    pytest.importorskip("gantrymq_storage_memory")

    def run(main, **settings):
        async def work(cluster):
            peers = []

            def peer():
                peers.append(Peer(cluster))
                return peers[-1]

            try:
                return await main(cluster, peer)
            finally:
                for each in peers:
                    await each.client.close()

        return gantrymq_simulation(work, settings=settings)

    return run
