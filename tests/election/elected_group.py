"""Brokers of one name that etcd elects, each in a process that can be killed, with a name server and clients."""

import asyncio
from pathlib import Path

import pytest
from ha_pairs import SETTINGS, end, service, simulate_pair
from memory_etcd import MemoryEtcd

from gantrymq.broker import BrokerServer
from gantrymq.client import Client
from gantrymq.config import Settings
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, SendRequest
from gantrymq.model import properties as props
from gantrymq.model.queue import Queue
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_replication.election import elected_broker as service_module
from gantrymq_replication.election.service import ElectionService
from gantrymq_testing.cluster import Cluster

LEASE_S = 3
ELECTED = {
    "enableControllerMode": True,
    "electionEngine": "etcd",
    "etcdEndpoints": "etcd:2379",
    "etcdLeaseSeconds": LEASE_S,
    "slaveTimeout": 1000,
    "messageDelayLevel": "1s 5s 30s",
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}


class Member:
    """A broker on a host of its own."""

    def __init__(self, group, number, settings):
        self.host, self._group = f"10.0.0.{number}", group
        self._settings = {**SETTINGS, **ELECTED, "bindAddress": self.host, "brokerIP1": self.host, **settings}
        self.process = self.cluster = None

    async def start(self):
        self.process = self._group.pair.process(self.host)
        self.cluster = Cluster(self.process.world, Path(f"/{self.host}"), self._settings)
        await self.process.run(self._start())
        client = self._group.newest_client
        self.process.on_kill = lambda: setattr(client, "down", True)  # what it asked for has no effect any more

    async def _start(self):
        self.cluster.settings.set("namesrvAddr", self._group.namesrv, "the test")
        self.cluster._broker = BrokerServer(self.cluster.world, self.cluster.settings, self.cluster.plugins)
        await self.cluster.server.start()

    async def stop(self):
        """Stop it as by SIGTERM."""
        await self.process.run(self.cluster.server.stop())
        self.process.kill()

    @property
    def runs(self):
        return self.process is not None and self.process.alive

    @property
    def elected(self):
        found = service(self.cluster, ElectionService)
        return found.elected or found

    @property
    def broker(self):
        return self.cluster.broker

    @property
    def address(self):
        return self.broker.registration.address

    @property
    def leads(self):
        machine = self.elected.machine if self.runs else None
        return machine is not None and machine.may_accept(self._group.clock.monotonic())

    @property
    def members(self):
        machine = self.elected.machine
        return set(machine.set.members) if machine is not None and machine.set is not None else set()

    async def do(self, call):
        """Run *call*, which returns an awaitable, as code of the broker."""

        async def run():
            return await call()

        return await self.process.run(run())

    async def send(self, body, topic="T", **more):
        sent = SendRequest("p", topic, body, properties=props.encode_text(more))
        return await self.process.run(self.broker.messages.send(sent))

    async def bodies(self, topic, queues=8):
        """Bodies of the messages of a topic that consumers may see, in the order of its queues."""
        found = []
        for queue in (Queue(topic, queue_id) for queue_id in range(queues)):
            at, last = self.cluster.store.bounds(queue)
            while at < last:
                result = await self.broker.messages.get(queue, at, GetLimit(256))
                at = result.next_offset
                found += [bytes(each.body) for buffer in result.buffers for each in iter_records(buffer)]
        return found


class Group:
    """The brokers, their name server and one client's process."""

    def __init__(self, pair, count, settings):
        self.pair, self.clock, self.until = pair, pair.world.clock, pair.until
        self.etcd = MemoryEtcd(pair.world.clock)
        self.all = [Member(self, number, settings) for number in range(1, count + 1)]
        self.newest_client, self._closing = None, []

    def etcd_client(self, clock, rules):
        self.newest_client = self.etcd.client()
        return self.newest_client

    async def start(self):
        world, folder = self.pair.world, Path("/names")
        world.files.make_dirs(folder)
        values = {"bindAddress": "127.0.0.1", "listenPort": 0}
        self.names = NameServer(world, Settings(name_server_settings(folder), values))
        host, port = await self.names.start()
        self.namesrv = f"{host}:{port}"
        self.pair._stack.push_async_callback(self.stop)
        for each in self.all:
            await each.start()
        await self.complete()

    async def complete(self):
        """Wait until every running broker is in sync; return the master."""

        def whole():
            master = self.master
            running = [each for each in self.all if each.runs]
            return (
                master is not None
                and len(master.members) == len(running)
                and master.elected.tables_everywhere >= master.elected.copies.number  # none is a learner
                and all(
                    each is master or (each.elected.copy.followed and end(each.cluster) == end(master.cluster))
                    for each in running
                )
            )

        try:
            await self.until(whole, "whole set", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.explain()}") from error
        return self.master

    def explain(self):
        """Say how each running broker stands."""
        now = self.clock.monotonic()
        return "; ".join(
            f"{each.host}: epoch {each.elected.machine.epoch}, {each.elected.machine.standing}, "
            f"{each.elected.machine.problem(now)!r}, {each.elected.copy.problem!r}"
            for each in self.all
            if each.runs and each.elected.machine is not None
        )

    @property
    def master(self):
        """The broker that accepts messages; None without one."""
        return next((each for each in self.all if each.leads), None)

    async def next_master(self):
        """Wait until a broker accepts messages, and return it."""
        try:
            await self.until(lambda: self.master is not None, "master", 20)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.explain()}") from error
        return self.master

    async def client(self):
        """A client on a host of its own, closed at the end."""
        process = self.pair.process(f"10.0.1.{len(self._closing) + 1}")
        client = Client(self.namesrv, world=process.world)
        await process.run(client.start())
        self._closing.append(lambda: process.run(client.close()))
        return process, client

    async def call(self, member, code, ext=None, body=None):
        """Send a request to a broker, and return its answer."""
        client = RemotingClient(self.pair.world)
        try:
            return await client.call(member.address, request(code, ext, body), 5.0)
        finally:
            await client.close()

    async def stop(self):
        for close in self._closing:
            await close()
        for each in self.all:
            if each.runs:
                await each.process.run(each.cluster.server.stop())
        await self.names.stop()


def simulate_group(main, monkeypatch, seed=1, count=2, **settings):
    """Run ``main(group)`` with *count* brokers in sync."""
    for needed in ("gantrymq_schedule", "gantrymq_transaction", "gantrymq_pop"):
        pytest.importorskip(needed)

    async def run(pair):
        group = Group(pair, count, settings)
        monkeypatch.setattr(service_module, "EtcdClient", group.etcd_client)
        await group.start()
        await main(group)

    simulate_pair(run, seed)


async def gather_done(tasks):
    """Wait until *tasks* have ended, whatever their results are."""
    if tasks:
        await asyncio.wait(tasks)
