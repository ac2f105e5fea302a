"""The gate of a SYNC_MASTER: waits end in the order of the log, by what slaves acknowledge, and in time."""

import asyncio

from gantrymq.config import Settings
from gantrymq.errors import FlushSlaveTimeout, SlaveNotAvailable, Unconfirmed
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.settings import SCHEMA, HaSettings
from gantrymq_testing.simulated import simulate

LATE_S = 3.0


class Offset(int):
    """A log offset that counts how often it is compared."""

    compared = 0

    def _count(self, name, other):
        Offset.compared += 1
        return getattr(int, name)(self, other)

    def __lt__(self, other):
        return self._count("__lt__", other)

    def __le__(self, other):
        return self._count("__le__", other)

    def __gt__(self, other):
        return self._count("__gt__", other)

    def __ge__(self, other):
        return self._count("__ge__", other)

    def __eq__(self, other):
        return self._count("__eq__", other)

    __hash__ = int.__hash__


class GateRig:
    """A gate whose master has one slave, at the start of an endless log."""

    def __init__(self, world):
        rules = HaSettings.of(Settings(SCHEMA, {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}))
        self.world, self.replicas, self.gate = world, Replicas(rules), ReplicaGate()
        self.slave = Replica("10.0.0.2:1", 0, world.clock.monotonic())
        self.replicas.add(self.slave, 0)
        self.gate.open(self.replicas, LATE_S, lambda: 1 << 20, world.clock)

    async def wait_for(self, *offsets):
        """Start a wait for each of *offsets*, in this order."""
        tasks = [asyncio.ensure_future(self.gate.passed(each)) for each in offsets]
        await asyncio.sleep(0)
        return tasks

    async def acknowledge(self, offset):
        """Let the slave report *offset*."""
        self.slave.acknowledge(offset, 1 << 20, self.world.clock.monotonic())
        self.gate.acknowledged()
        await asyncio.sleep(0)


def code(task):
    """The code with which a wait ended; 0 if it passed."""
    error = task.exception()
    assert error is None or isinstance(error, Unconfirmed)
    return error.response_code if error else 0


def test_waits_end_with_what_is_acknowledged_in_any_order_of_the_calls():
    async def run(world):
        rig = GateRig(world)
        tasks = await rig.wait_for(300, 100, 200, 100)
        await rig.acknowledge(99)
        assert not any(task.done() for task in tasks)
        await rig.acknowledge(200)
        assert [task.done() for task in tasks] == [False, True, True, True]
        await rig.acknowledge(300)
        assert [code(task) for task in tasks] == [0, 0, 0, 0]

    simulate(1, run)


def test_a_wait_that_is_late_or_cancelled_leaves_the_others():
    async def run(world):
        rig = GateRig(world)
        early, cancelled = await rig.wait_for(100, 200)
        cancelled.cancel()
        await world.clock.sleep(LATE_S / 2)
        (last,) = await rig.wait_for(300)
        await world.clock.sleep(LATE_S / 2 + 0.1)
        assert code(early) == FlushSlaveTimeout.response_code and not last.done()
        await rig.acknowledge(300)
        assert code(last) == 0

    simulate(1, run)


def test_the_end_of_the_master_ends_all_waits():
    async def run(world):
        rig = GateRig(world)
        tasks = await rig.wait_for(100, 200)
        rig.gate.close()
        await asyncio.wait(tasks)
        assert {code(task) for task in tasks} == {SlaveNotAvailable.response_code}

    simulate(1, run)


def test_an_acknowledgement_does_not_look_at_every_wait():
    waits = 2000

    async def run(world):
        rig = GateRig(world)
        tasks = await rig.wait_for(*(Offset(each + 1) for each in range(waits)))
        Offset.compared = 0
        for each in range(waits):
            await rig.acknowledge(each + 1)
            assert tasks[each].done() and (each + 1 == waits or not tasks[each + 1].done())
        assert Offset.compared < 40 * waits

    simulate(1, run)
