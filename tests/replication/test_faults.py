"""Masters and slaves on bad networks and disks, in a simulated world, judged by the history of their clients.

With SYNC_MASTER and two copies, a slave alone has what was acknowledged, at any moment, and serves it as a master. With
ASYNC_MASTER it lacks at most what the master told as its lag.

A few seeds by default, ``GANTRYMQ_REPLICATION_SEEDS=1000`` for the long run.
"""

import asyncio
import os
import random

import pytest
from ha_pairs import end, following, replicas, simulate_pair

from gantrymq_testing.simulated import FaultyDelivery

pytest.importorskip("gantrymq_storage_faults")

from ha_hosts import BROKER, PORT, QUEUES, TOPIC, Hosts
from message_history import Place, body_of

SEEDS = int(os.environ.get("GANTRYMQ_REPLICATION_SEEDS", "4"))
FIRST = int(os.environ.get("GANTRYMQ_REPLICATION_FIRST_SEED", "0"))
TROUBLES = 12
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
KINDS = [  # slaves, settings of the master
    (1, SYNC),
    (2, SYNC),
    (2, {**SYNC, "allAckInSyncStateSet": True}),
    (1, {"brokerRole": "ASYNC_MASTER"}),
]


async def promote(hosts, new, topic=TOPIC):
    """Start the slave *new* as a master, without the old one, and return what a consumer reads from it."""
    new.settings = {"brokerRole": "ASYNC_MASTER", "brokerId": 0}
    await new.start()

    async def read():
        await new.cluster.create_topic(topic, QUEUES)
        return await new.cluster.pull(topic)

    found = await new.process.run(read())
    return {Place(BROKER, each.queue_id, each.queue_offset): body_of(each.body) for each in found}


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_what_was_acknowledged_is_on_the_copy(seed):
    delivery = FaultyDelivery(random.Random(seed))
    slaves, settings = KINDS[seed % len(KINDS)]

    async def main(pair):
        clock = pair.world.clock
        delivery.attach(pair.world.network, asyncio.get_running_loop().time)
        pair.chance = chance = random.Random(f"{seed}/troubles")
        hosts = Hosts(pair, delivery, seed, slaves, settings)
        await hosts.start()
        for _ in range(TROUBLES):
            await clock.sleep(chance.uniform(0.1, 3))
            await hosts.trouble()
            hosts.judge()
        if chance.random() < 0.5:
            delivery.heal()
            await clock.sleep(9)  # every trouble is over by then
            for slave in hosts.slaves:
                await pair.until(lambda slave=slave: following(slave.cluster), "a slave that follows", 60)
            hosts.judge()
            assert len(hosts.history.acknowledged) > 20

        # The master is gone for good; the slaves may lose their power as well.
        copies = replicas(hosts.master.cluster) if hosts.master.runs else []
        told = max((each.acked for each in copies), default=0)  # the end of its log without the lag
        for host in hosts.all:
            host.kill(power=chance.random() < 0.5)
        await hosts.stop_clients()
        delivery.heal()
        new = hosts.longest()
        served = await promote(hosts, new)
        assert served == new.log().messages
        if hosts.sync:
            hosts.history.judge(served, hosts.master.log().messages)
        else:
            hosts.history.judge_seen(served, hosts.master.log().messages)
            assert [each for each in hosts.history.lost(served) if each.log_offset < told] == []
        for other in hosts.slaves:
            if other is not new:
                other.settings = {"brokerRole": "SLAVE", "brokerId": 2, "haMasterAddress": f"{new.name}:{PORT}"}
                await other.start()
                await pair.until(lambda other=other: following(other.cluster), "a slave of the new master", 60)
                await pair.until(lambda other=other: end(other.cluster) == end(new.cluster), "equal ends", 60)
        for host in hosts.slaves:
            host.kill()

    simulate_pair(main, seed, delivery=delivery)
