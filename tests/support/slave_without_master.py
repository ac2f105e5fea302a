"""A slave whose master is gone, in one process with its name server."""

from contextlib import contextmanager

from gantrymq.broker import BrokerServer
from gantrymq.world.real import real_world
from gantrymq_replication.slave import SlaveService
from gantrymq_testing.cluster import Cluster


@contextmanager
def slave_without_master(running, root, *, copied, settings=None):
    """Start a slave of the broker of *running*, and stop the master after ``copied(slave.broker)``. Provide the slave.

    *running* is a `RunningBroker` whose store has a raw log, *settings* are more of the slave.
    """
    master = running.cluster
    settings = {
        **(settings or {}),
        "store": "mmap",
        "brokerName": running.call(lambda: master.broker.registration.broker_name),
        "brokerRole": "SLAVE",
        "brokerId": 1,
        "slaveReadEnable": True,
        "haMasterAddress": running.call(lambda: master.broker.registration.ha_address),
    }
    slave = Cluster(real_world(), root, settings)
    slave.namesrv = running.namesrv
    slave.settings.set("namesrvAddr", running.namesrv, "the test")

    async def start():
        slave._broker = BrokerServer(slave.world, slave.settings, slave.plugins)
        await slave.server.start()
        service = next(each for each in slave.plugins.services if isinstance(each, SlaveService))
        clock = slave.world.clock
        until = clock.monotonic() + 30
        while not (service.following and _end(slave) == _end(master) and copied(slave.broker)):
            assert clock.monotonic() < until, "the slave does not copy"
            await clock.sleep(0.02)
        broker, master._broker = master._broker, None
        await broker.stop()

    running.run(start())
    try:
        yield slave
    finally:
        running.run(slave.stop())


def _end(cluster):
    return cluster.store.raw_log.log_range().max_offset
