"""A SYNC_MASTER and a slave on a bad network, killed at random moments: a copy alone has what was acknowledged.

A few seeds by default, ``GANTRYMQ_REPLICATION_SEEDS=1000`` for the long run.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest
from ha_pairs import SETTINGS, end, following, log_of, simulate_pair

from gantrymq.errors import GantryError
from gantrymq.interfaces import SendRequest
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import FaultyDelivery, ProcessKilled

SEEDS = int(os.environ.get("GANTRYMQ_REPLICATION_SEEDS", "3"))
MASTER, SLAVE, PORT = "10.0.0.1", "10.0.0.2", 20000
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "haListenPort": PORT, "haHousekeepingInterval": 4000}
COPY = {"brokerRole": "SLAVE", "brokerId": 1, "haMasterAddress": f"{MASTER}:{PORT}", "haHousekeepingInterval": 4000}
TROUBLES = 12


class Host:
    """A host whose broker is killed and started again."""

    def __init__(self, pair, host, root, settings):
        self._pair, self._host, self._root = pair, host, root
        self._settings = {**SETTINGS, **settings, "bindAddress": host, "haSendHeartbeatInterval": 1000}
        self.cluster = self.process = None

    async def start(self):
        self.process = self._pair.process(self._host)
        self.cluster = Cluster(self.process.world, Path(f"/{self._root}"), self._settings)
        await self.process.run(self.cluster.start())

    async def again(self):
        self.process.kill()
        await self._pair.world.clock.sleep(self._pair.chance.uniform(0, 3))
        await self.start()


async def send_always(pair, host, acknowledged):
    """Send, and note the bodies that are acknowledged without reserve."""
    number = 0
    while True:
        await pair.world.clock.sleep(0.02)
        if not host.process.alive:
            continue
        number += 1
        body = b"<%06d>" % number
        request = SendRequest("p", "Orders", body + bytes(number * 37 % 3000))
        try:
            answer = await host.process.run(host.cluster.broker.messages.send(request))
            if answer.unconfirmed is None:
                acknowledged.append(body)
        except (GantryError, AssertionError, ProcessKilled, asyncio.CancelledError):
            if asyncio.current_task().cancelling():
                raise


async def trouble(pair, delivery, master, slave):
    """Let something go wrong."""
    kind = pair.chance.choice(("cut", "part", "slow", "slave", "master", "refuse"))
    if kind == "cut":
        delivery.cut_some(0.7)
    elif kind == "part":
        delivery.part(MASTER, SLAVE, pair.chance.uniform(0.5, 8))
    elif kind == "slow":
        delivery.slow_down(pair.chance.choice((MASTER, SLAVE)), pair.chance.uniform(0.5, 5))
    elif kind == "refuse":
        delivery.refuse(MASTER, pair.chance.uniform(0.5, 3))
    else:
        await (slave if kind == "slave" else master).again()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_was_acknowledged_is_on_the_copy(seed):
    delivery = FaultyDelivery(random.Random(seed))

    async def main(pair):
        delivery.attach(pair.world.network, asyncio.get_running_loop().time)
        pair.chance = random.Random(seed)
        master, slave = Host(pair, MASTER, "master", SYNC), Host(pair, SLAVE, "slave", COPY)
        await master.start()
        await slave.start()
        acknowledged = []
        sending = asyncio.ensure_future(send_always(pair, master, acknowledged))
        for _ in range(TROUBLES):
            await pair.world.clock.sleep(pair.chance.uniform(0.1, 3))
            await trouble(pair, delivery, master, slave)
            _, copied = await log_of(slave.cluster)
            assert [body for body in acknowledged if body not in copied] == []
        delivery.heal()
        await pair.until(lambda: following(slave.cluster), "a slave that follows", 60)
        await pair.world.clock.sleep(2)
        sending.cancel()
        await asyncio.wait([sending])
        await pair.equal(master.cluster, slave.cluster)
        assert len(acknowledged) > 20 and end(slave.cluster) > 0
        for host in (slave, master):
            await host.process.run(host.cluster.stop())

    simulate_pair(main, seed, delivery=delivery)
