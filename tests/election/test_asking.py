"""What a slave asks its master's broker port, and what it refuses then."""

import asyncio
from contextlib import suppress

import attrs
import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import Brokers, elected, leads, members
from ha_pairs import end, put, simulate_pair

from gantrymq_replication.election.elected_log import _whole
from gantrymq_replication.election.machine import Follow
from gantrymq_replication.master_broker import MasterBroker
from gantrymq_replication.slave_log import last_message


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main: simulate_pair(lambda pair: main(Brokers(pair, monkeypatch)))


def test_which_brokers_are_ours(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        await put(one, 3)
        fixed = await brokers.pair.master("fixed", brokerName="broker-b")
        questions = MasterBroker(one.broker)
        address = one.broker.registration.address
        assert await questions.is_ours(address) and not await questions.is_ours(fixed.broker.registration.address)
        place, record = await last_message(one.store.raw_log, end(one), one.world.clock)
        assert await questions.message_at(address, place) == record
        assert await questions.message_at(address, end(one)) is None
        for asked in (questions.is_ours("127.0.0.1:1"), questions.message_at("127.0.0.1:1", 0)):
            with pytest.raises(ConnectionError, match="does not answer at its broker port"):
                await asked
        await questions.close()

    run(main)


@pytest.mark.parametrize("engine", ["etcd", "controller"])
def test_a_master_of_ours_with_an_older_epoch_is_refused(run, engine):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        two = await brokers.start("two")
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        service, registration = elected(two), one.broker.registration
        service.rules = attrs.evolve(service.rules, engine=engine)
        await service.follow(Follow(1, 5, registration.address, registration.ha_address))
        await brokers.until(
            lambda: "epoch 1, and the master of epoch 5 is known already" in service.copy.problem, "refusal"
        )

    run(main)


def test_a_truncation_is_not_interrupted():
    async def main():
        steps = []

        async def truncate():
            for _ in range(3):
                await asyncio.sleep(0)
            steps.append("truncated")

        task = asyncio.ensure_future(_whole(truncate()))
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert steps == ["truncated"] and task.cancelled()

    asyncio.run(main())
