"""Checks count when they are sent: a broker killed between the two steps, and a producer that has just disconnected."""

import asyncio

import pytest

pytest.importorskip("gantrymq_storage_mmap")

from broker_desk import Peer, settings_for
from desk import half, join

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.interfaces import Bounds, GetLimit
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.plugins import load_plugins
from gantrymq_testing.simulated import SimulatedProcess, simulate
from gantrymq_transaction.half_checker import HalfChecker
from gantrymq_transaction.rules import checks_of

START_MS = 1_700_000_000_000
CHECK_S = 30
MOST_CHECKS = 3
GIVEN_UP = Queue(CHECK_MAX_TIME_TOPIC, 0)


class Rig:
    """A broker on its own host, and one producer."""

    def __init__(self, world):
        self.world, self.clock, self.starts, self.peer = world, world.clock, 0, None
        self.plugins = load_plugins("storage_mmap,transaction", reserved=SCHEMA)
        self.asked = []

    async def start(self):
        self.starts += 1
        self.process = SimulatedProcess(self.world, asyncio.get_running_loop(), "10.0.0.1", self.starts)
        values = {
            "store": "mmap",
            "mappedFileSizeCommitLog": 256 * 1024,
            "transactionCheckInterval": CHECK_S * 1000,
            "transactionCheckMax": MOST_CHECKS,
            "brokerName": "broker-a",
            "channelExpiredTimeout": 10**9,
        }
        self.server = BrokerServer(self.process.world, settings_for(self.plugins, **values), self.plugins)
        await self.process.run(self.server.start())

    async def restart(self, *, kill):
        if not kill:
            await asyncio.wait([self.process.run(self.server.stop())])
        self.process.kill()
        await self.clock.sleep(0.5)
        await self.start()

    async def connect(self):
        self.peer = Peer(self.world)
        self.peer.clock = self.clock
        self.peer.asked = self.asked  # over all connections
        await join(self.peer)

    async def given_up(self):
        """Discarded half messages."""
        store = self.server.store
        if store.bounds(GIVEN_UP) == Bounds(0, 0):
            return []
        found = store.get(GIVEN_UP, 0, GetLimit(32, 1 << 20), None)
        return found.buffers


def run(main):
    async def in_world(world):
        rig = Rig(world)
        await rig.start()
        await rig.connect()
        await half(rig.peer)
        await main(rig)
        await asyncio.wait([rig.process.run(rig.server.stop())])

    simulate(3, in_world, start_ms=START_MS, limit_s=7200)


@pytest.fixture
def before_asking(monkeypatch):
    """Call the function that is set here once, instead of sending the check."""
    asks, instead = HalfChecker._ask, []

    def ask(self, half, own, copy):
        return instead.pop()(self, half, own, copy) if instead else asks(self, half, own, copy)

    monkeypatch.setattr(HalfChecker, "_ask", ask)
    return instead


@pytest.mark.parametrize("sent_before", [0, 1, 2])
def test_a_check_that_a_killed_broker_did_not_send_does_not_count(before_asking, sent_before):
    async def main(rig):
        await rig.clock.sleep(CHECK_S * sent_before + 8)
        assert len(rig.asked) == sent_before
        before_asking.append(lambda *_: rig.process.kill() or True)
        await rig.clock.sleep(CHECK_S)
        assert not rig.process.alive
        assert not before_asking
        await rig.restart(kill=True)
        await rig.connect()
        await rig.clock.sleep(CHECK_S * 10)
        assert [counted(each) for each in rig.asked] == list(range(1, MOST_CHECKS + 1))
        assert len(await rig.given_up()) == 1

    run(main)


@pytest.mark.parametrize("kill", [False, True])
def test_checks_that_were_sent_count_after_a_restart(kill):
    async def main(rig):
        await rig.clock.sleep(CHECK_S + 8)
        await half(rig.peer, 2)
        await rig.clock.sleep(CHECK_S / 2)  # the newest half message was stored long after the check
        assert len(rig.asked) == 1
        await rig.restart(kill=kill)
        await rig.connect()
        await rig.clock.sleep(CHECK_S * 10)
        assert len(rig.asked) == 2 * MOST_CHECKS

    run(main)


def test_a_stopped_broker_counts_the_last_check_although_it_was_just_sent():
    async def main(rig):
        while not rig.asked:
            await rig.clock.sleep(0.5)
        await rig.restart(kill=False)
        await rig.connect()
        await rig.clock.sleep(CHECK_S * 10)
        assert len(rig.asked) == MOST_CHECKS

    run(main)


@pytest.mark.parametrize("kill", [False, True])
def test_a_check_of_a_producer_that_had_just_left_does_not_count_after_a_restart(before_asking, kill):
    async def main(rig):
        before_asking.append(lambda *_: False)
        await rig.clock.sleep(CHECK_S + 8)
        assert not rig.asked
        assert not before_asking
        await rig.clock.sleep(10)
        await rig.restart(kill=kill)
        await rig.connect()
        await rig.clock.sleep(CHECK_S * 10)
        assert [counted(each) for each in rig.asked] == list(range(1, MOST_CHECKS + 1))

    run(main)


def counted(asked):
    """The checks that the half message of a check counts."""
    from gantrymq.formats.record import read_record
    from gantrymq.model import properties as props

    return checks_of(props.decode(read_record(asked.payload).properties_bytes))
