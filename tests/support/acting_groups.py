"""A broker name with master and slave, another broker name and a name server, for tests of acting masters."""

from pathlib import Path

import pytest
from ha_pairs import SETTINGS, end, following, simulate_pair

from gantrymq.broker import BrokerServer
from gantrymq.config import Settings
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, SendRequest
from gantrymq.model import properties as props
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.cluster import Cluster

MASTER, SLAVE, OTHER = "10.0.0.1", "10.0.0.2", "10.0.0.3"
ACTING = {"enableSlaveActingMaster": True, "enableRemoteEscape": True, "messageDelayLevel": "1s 5s 30s"}


class Member:
    """A broker in a process of its own."""

    def __init__(self, group, host, root, **settings):
        self.group, self.host, self.root, self.process = group, host, root, None
        self.settings = {**SETTINGS, **ACTING, "bindAddress": host, "brokerIP1": host, **settings}

    async def start(self):
        self.process = self.group.pair.process(self.host)
        self.cluster = Cluster(self.process.world, Path(f"/{self.root}"), self.settings, self.group.pair.plugins)
        await self.process.run(self._start())

    async def _start(self):
        self.cluster.settings.set("namesrvAddr", self.group.namesrv, "the test")
        self.cluster._broker = BrokerServer(self.cluster.world, self.cluster.settings, self.cluster.plugins)
        await self.cluster.server.start()

    @property
    def role(self):
        return self.cluster.broker.role.current

    async def send(self, body, topic="T", **more):
        text = props.encode_text(more)
        sent = SendRequest("p", topic, body, properties=text)
        return await self.process.run(self.cluster.broker.messages.send(sent))

    async def received(self, topic="T"):
        """Bodies of the topic, with the time at which each was stored."""
        found, messages = [], self.cluster.broker.messages
        for queue in (Queue(topic, queue_id) for queue_id in range(4)):
            at, end = self.cluster.store.bounds(queue)
            while at < end:
                result = await messages.get(queue, at, GetLimit(256))
                at = result.next_offset
                for buffer in result.buffers:
                    found += [(bytes(each.body), each.store_timestamp) for each in iter_records(buffer)]
        return found


class Group:
    """A name server, a master, its slave and another broker name."""

    def __init__(self, pair, **settings):
        self.pair, self.clock = pair, pair.world.clock
        self.of_both = {key: settings[key] for key in ("innerClientAuthenticationCredentials",) if key in settings}
        self.master = Member(self, MASTER, "master", **settings)
        self.slave = Member(self, SLAVE, "slave", brokerRole="SLAVE", brokerId=1, **settings)
        self.other = Member(self, OTHER, "other", brokerName="broker-b", **settings)
        self.until = pair.until

    async def start(self):
        world, folder = self.pair.world, Path("/names")
        world.files.make_dirs(folder)
        values = {
            "bindAddress": "127.0.0.1",
            "listenPort": 0,
            "supportActingMaster": True,
            "notifyMinBrokerIdChanged": True,
            **self.of_both,
        }
        self.names = NameServer(world, Settings(name_server_settings(folder), values))
        host, port = await self.names.start()
        self.namesrv = f"{host}:{port}"
        self.pair._stack.push_async_callback(self.stop)
        for each in (self.other, self.master, self.slave):
            await each.start()
        for each in (self.other, self.master):
            each.cluster.broker.topics.put(TopicConfig("T", read_queues=4, write_queues=4))
        await self.copied()
        await self.until(lambda: self.slave.cluster.broker.topics.get("T"), "the topic")

    async def copied(self):
        await self.until(
            lambda: following(self.slave.cluster) and end(self.slave.cluster) == end(self.master.cluster), "the copy"
        )

    async def stop(self):
        for each in (self.slave, self.master, self.other):
            if each.process is not None and each.process.alive:
                await each.process.run(each.cluster.server.stop())
        await self.names.stop()


def delayed(level):
    return {"DELAY": str(level)}


def timed(clock, seconds):
    return {"TIMER_DELIVER_MS": str(clock.now_ms() + round(1000 * seconds))}


def simulate_group(main, seed=1, delivery=None, plugins=(), **settings):
    for needed in ("gantrymq_schedule", "gantrymq_transaction"):
        pytest.importorskip(needed)

    async def run(pair):
        pair.plugins = plugins
        group = Group(pair, **settings)
        await group.start()
        await main(group)

    simulate_pair(run, seed, delivery=delivery)
