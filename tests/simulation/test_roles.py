"""What waits on a master that becomes a replica goes on when it is a master again: delays, timers, transactions."""

import pytest

from gantrymq.client import Client, Message, TransactionState
from gantrymq.model.role import Role
from gantrymq_testing.simulation import simulate_cluster

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_transaction")
pytest.importorskip("gantrymq_storage_mmap")

DELAY_S = 10


@pytest.mark.parametrize("kind", ["level", "timer"])
def test_a_delayed_message_waits_for_the_next_master(kind):
    async def main(cluster):
        await cluster.create_topic("A", 1)
        async with cluster.producer() as producer:
            options = {"delay_level": 3} if kind == "level" else {"delay_ms": DELAY_S * 1000}
            await producer.send(Message("A", b"late", **options))
        await cluster.broker.role.change(Role.REPLICA, 1)
        await cluster.world.clock.sleep(10 * DELAY_S)
        assert await cluster.pull("A") == []
        end = cluster.store.state().max_log_offset
        await cluster.broker.role.change(Role.MASTER, 2)
        await cluster.world.clock.sleep(5)
        assert [each.body for each in await cluster.pull("A")] == [b"late"]
        assert cluster.store.state().max_log_offset > end
        await cluster.restart()
        assert [each.body for each in await cluster.pull("A")] == [b"late"]

    simulate_cluster(main, settings={"store": "mmap", "mappedFileSizeCommitLog": 1048576})


def test_a_half_message_is_checked_by_the_next_master():
    asked = []

    async def main(cluster):
        await cluster.create_topic("A", 1)

        async def check(message):
            asked.append(cluster.broker.role.epoch)
            return TransactionState.COMMIT

        async with Client(cluster.namesrv, world=cluster.world) as client:
            producer = client.transaction_producer("PG", check)
            async with producer.transaction(Message("A", b"half")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await cluster.broker.role.change(Role.REPLICA, 1)
            await cluster.world.clock.sleep(200)
            assert asked == []
            await cluster.broker.role.change(Role.MASTER, 2)
            await cluster.world.clock.sleep(100)
            assert asked == [2]
            assert [each.body for each in await cluster.pull("A")] == [b"half"]

    simulate_cluster(main, settings={"store": "memory"})
