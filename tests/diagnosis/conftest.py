"""Clients of a simulated broker that send the requests and heartbeats of a test."""

import json
import sys
from pathlib import Path

import pytest

if (folder := str(Path(__file__).parent.parent / "core" / "broker")) not in sys.path:
    sys.path.insert(0, folder)

from broker_desk import run_broker

from gantrymq.hooks import hookimpl
from gantrymq.loose_json import dumps
from gantrymq.plugins.load import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_diagnosis import plugin

ANSWER_S = 60.0


class Client:
    """One connection with a client id."""

    def __init__(self, cluster, client_id):
        self.cluster, self.client_id = cluster, client_id
        self.remoting = RemotingClient(cluster.world, handler=self)

    def requests(self, connection, commands):
        """Leave requests of the broker unanswered."""

    async def ask(self, code, ext=None, body=None):
        connection = await self.remoting.connect(self.cluster.broker_address)
        return await connection.call(request(code, ext, body), ANSWER_S)

    async def join(self, *groups, topic="T", expression="*", kind="TAG", **fields):
        """A heartbeat; the answer."""
        subscription = {"topic": topic, "subString": expression, "subVersion": 1, "expressionType": kind}
        consumers = [
            {
                "groupName": group,
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
                "subscriptionDataSet": [subscription],
                **fields,
            }
            for group in groups or ("CG",)
        ]
        return await self.ask(34, None, dumps({"clientID": self.client_id, "consumerDataSet": consumers}))

    async def pull(self, queue_id=0, offset=0, *, topic="T", group="CG", expression="*", wait_ms=0, commit=None):
        """One pull; the answer."""
        flags = 4 | (2 if wait_ms else 0) | (1 if commit is not None else 0)
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": str(flags),
            "commitOffset": str(commit or 0),
            "suspendTimeoutMillis": str(wait_ms),
            "subscription": expression,
            "subVersion": "0",
            "expressionType": "TAG",
        }
        return await self.ask(11, ext)

    async def explain(self, group="CG", **fields):
        """Request 65021: the broker's report on a group, and its queues by topic and id."""
        answer = await self.ask(65021, {"consumerGroup": group, **fields})
        assert answer.code == 0, answer.remark
        found = json.loads(bytes(answer.payload))
        return found, {(each["topic"], each["queue"]): each for each in found["queues"]}


@pytest.fixture
def beside(gantrymq_simulation):
    """Run ``work(cluster, client_of)`` with a simulated broker; ``client_of(client_id)`` makes clients."""
    pytest.importorskip("gantrymq_storage_memory")
    pytest.importorskip("gantrymq_filter_tag")

    def run(work, **settings):
        async def main(cluster):
            made = []

            def client_of(client_id):
                made.append(Client(cluster, client_id))
                return made[-1]

            try:
                return await work(cluster, client_of)
            finally:
                for each in made:
                    await each.remoting.close()

        return gantrymq_simulation(main, settings=settings)

    return run


class Told:
    """A plugin with a service that keeps the broker for the test."""

    name = "told"

    async def start(self, broker):
        self.broker = broker

    async def stop(self):
        """Do nothing."""

    @hookimpl
    def gantry_register_services(self, registry):
        registry.add(self)


@pytest.fixture
def broker():
    """``broker(main, key=value)`` runs ``await main(desk)`` against a broker with this plugin; `desk.broker` is it."""
    memory = pytest.importorskip("gantrymq_storage_memory.plugin")

    def run(main, *, plugins=(), **values):
        told = Told()
        given = [("storage-memory", memory), ("diagnosis", plugin), ("told", told), *plugins]

        async def work(desk):
            desk.broker = told.broker
            return await main(desk)

        return run_broker(load_plugins(installed=False, extra=given), work, **values)

    return run


@pytest.fixture
def bare_store():
    """A plugin with the memory store under the name ``bare``, without the capabilities that a store may lack."""
    memory = pytest.importorskip("gantrymq_storage_memory.store")

    class Bare(memory.MemoryStore):
        clean = offset_at = None

    class Plugin:
        @hookimpl
        def gantry_register_stores(self, registry):
            registry.add("bare", Bare)

    return "bare", Plugin()
