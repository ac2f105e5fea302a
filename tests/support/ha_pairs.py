"""A master and slaves of one broker name, each with a name server, in a simulated world."""

import asyncio
from contextlib import AsyncExitStack
from inspect import isawaitable
from pathlib import Path

import pytest

from gantrymq.broker import BrokerServer
from gantrymq_replication.master import MasterService
from gantrymq_replication.slave import SlaveService
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import SimulatedProcess, simulate

SETTINGS = {
    "store": "mmap",
    "brokerName": "broker-a",
    "mappedFileSizeCommitLog": 65536,
    "metricsExporterType": "DISABLE",
}
SECONDS = 20


class Pair:
    """What a test starts; everything is stopped at its end."""

    def __init__(self, world, stack):
        self.world, self._stack, self._count = world, stack, 0
        self.plugins = ()  # of brokers that start later, besides the installed ones

    async def start(self, root, namesrv="", **settings):
        """Start a broker on the folder *root*, with a name server of its own unless *namesrv* is one."""
        cluster = Cluster(self.world, Path(f"/{root}"), {**SETTINGS, **settings}, self.plugins)
        if namesrv:
            cluster.settings.set("namesrvAddr", namesrv, "the test")
            cluster._broker = BrokerServer(self.world, cluster.settings, cluster.plugins)
            await cluster.server.start()
        else:
            await cluster.start()
        self._stack.push_async_callback(cluster.stop)
        return cluster

    async def master(self, root="master", **settings):
        """Start a master."""
        return await self.start(root, **settings)

    async def slave(self, master, root="slave", **settings):
        """Start a slave of *master*."""
        return await self.start(root, **{**slave_of(master), **settings})

    def process(self, host):
        """A process that can be killed."""
        return SimulatedProcess(self.world, asyncio.get_running_loop(), host, 2)

    async def connect(self, master):
        """Streams to the HA port of *master*."""
        host, port = ha_address(master).rsplit(":", 1)
        reader = asyncio.StreamReader()
        transport, protocol = await self.world.network.connect(
            host, int(port), lambda: asyncio.StreamReaderProtocol(reader)
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())

    async def until(self, condition, what, seconds=SECONDS):
        """Wait until *condition* holds; return the seconds that took."""
        began = self.world.clock.monotonic()
        while not condition():
            assert self.world.clock.monotonic() < began + seconds, f"no {what} within {seconds} s"
            await self.world.clock.sleep(0.01)
        return self.world.clock.monotonic() - began

    async def equal(self, one, other, seconds=SECONDS):
        """Wait until both logs end at the same place, and compare them."""
        await self.until(lambda: end(one) == end(other) and following(other), "equal ends", seconds)
        assert await log_of(one) == await log_of(other)


def slave_of(master):
    """The settings of a slave of *master*, a cluster or an address."""
    address = master if isinstance(master, str) else ha_address(master)
    return {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": address}


def ha_address(cluster):
    return cluster.broker.registration.ha_address


def end(cluster):
    return cluster.store.raw_log.log_range().max_offset


def service(cluster, kind):
    return next(each for each in cluster.plugins.services if isinstance(each, kind))


def following(cluster):
    return service(cluster, SlaveService).following


def problem(cluster):
    """Why a slave does not follow."""
    return service(cluster, SlaveService).problem


def replicas(cluster):
    """The slaves that a master knows."""
    return list(service(cluster, MasterService).replicas.all)


async def log_of(cluster, start=None):
    """The start and the bytes of a log."""
    log, parts = cluster.store.raw_log, []
    low, last = log.log_range()
    place = start = low if start is None else start
    while place < last:
        data = log.read_log(place, 1 << 20)
        parts.append(await data if isawaitable(data) else data)
        place += len(parts[-1])
    return start, b"".join(parts)


async def put(cluster, count, size=500, topic="Orders"):
    for number in range(count):
        await cluster.put(topic, b"%d" % number + bytes(size), queue_id=number % 4)


def simulate_pair(main, seed=1, **more):
    """Run ``main(pair)``; skip without the plugins that a pair consists of."""
    for needed in ("gantrymq_storage_mmap", "gantrymq_metrics", "gantrymq_nameserver"):
        pytest.importorskip(needed)

    async def run(world):
        try:
            async with AsyncExitStack() as stack:
                return await main(Pair(world, stack))
        finally:
            await world.workers.close()

    return simulate(seed, run, limit_s=3600, **more)
