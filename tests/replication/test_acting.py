"""A slave acts for its missing master: what waits is delivered by another broker name, once, also after the return.

One seed of random kills by default, ``GANTRYMQ_REPLICATION_SEEDS=1000`` for the long run.
"""

import os
import random
from collections import Counter

import pytest
from acting_groups import delayed, simulate_group, timed
from ha_pairs import service

from gantrymq.client import Client
from gantrymq.errors import ServiceNotAvailable
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.names import HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq_replication.acting.acting_service import ActingService
from gantrymq_replication.acting.policy import RETURN_S, START_S, ActingPolicy

SEEDS = range(int(os.environ.get("GANTRYMQ_REPLICATION_SEEDS", "1")))


def test_what_waits_is_delivered_by_others_once_and_also_after_the_return():
    async def main(group):
        clock, due = group.clock, {}
        for number in range(10):
            body = b"delayed %d" % number
            await group.master.send(body, UNIQ_KEY=f"d{number}", **delayed(2))
            due[body] = clock.now_ms() + 5000
        for number in range(10):
            body, seconds = b"timed %d" % number, 5 + number * 3
            await group.master.send(body, UNIQ_KEY=f"t{number}", **timed(clock, seconds))
            due[body] = clock.now_ms() + 1000 * seconds
        await group.master.send(b"late", UNIQ_KEY="late", **delayed(3))
        due[b"late"] = clock.now_ms() + 30_000
        await group.copied()
        await clock.sleep(1)
        assert group.slave.role is Role.REPLICA
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 2)
        await clock.sleep(11)
        found = dict(await group.other.received())
        assert {body for body, at in due.items() if at <= clock.now_ms() - 1500} <= found.keys() < due.keys()
        for body, at in found.items():
            assert -1000 < at - due[body] < 1500, body
        with pytest.raises(ServiceNotAvailable):
            await group.slave.send(b"refused")

        await group.master.start()
        await group.until(lambda: group.slave.role is Role.REPLICA, "the return", 2)
        await group.copied()
        await clock.sleep(30)
        assert group.slave.role is Role.REPLICA
        both = [*await group.other.received(), *await group.master.received()]
        counts = Counter(body for body, _ in both)
        assert counts == Counter(due.keys()), "each once"
        for body, at in both:
            assert at - due[body] < 3000, body

    simulate_group(main)


def test_the_slave_acts_twice_and_sends_nothing_again():
    async def main(group):
        clock = group.clock
        for number, seconds in enumerate((3, 3, 20, 60)):
            await group.master.send(b"timed %d" % number, UNIQ_KEY=f"t{number}", **timed(clock, seconds))
        await group.copied()
        for _ in range(2):
            group.master.process.kill()
            await clock.sleep(10)
            await group.master.start()
            await group.copied()
            await clock.sleep(3)
        await clock.sleep(60)
        both = [*await group.other.received(), *await group.master.received()]
        assert Counter(body for body, _ in both) == Counter(b"timed %d" % number for number in range(4))

    simulate_group(main)


def test_half_messages_are_handed_over_once_and_their_producers_asked():
    async def main(group):
        for number in range(5):
            await group.master.send(b"half %d" % number, UNIQ_KEY=f"h{number}", TRAN_MSG="true", PGROUP="p")
        await group.copied()
        await group.clock.sleep(3)  # the offsets of the half queue are copied
        group.master.process.kill()
        await group.clock.sleep(20)
        assert group.slave.role is Role.ACTING_MASTER
        halves = group.other.cluster.store.bounds(Queue(HALF_TOPIC, 0)).max_offset
        assert halves == 5
        record = next(
            iter_records(
                (await group.other.cluster.broker.messages.get(Queue(HALF_TOPIC, 0), 0, GetLimit(1))).buffers[0]
            )
        )
        assert (record.properties["REAL_TOPIC"], record.properties["PGROUP"], bytes(record.body)) == (
            "T",
            "p",
            b"half 0",
        )
        await group.master.start()
        await group.copied()
        assert group.master.cluster.broker.offsets.committed("CID_RMQ_SYS_TRANS", Queue(HALF_TOPIC, 0)) == 5
        await group.clock.sleep(20)
        assert group.other.cluster.store.bounds(Queue(HALF_TOPIC, 0)).max_offset == halves

    simulate_group(main, transactionCheckInterval=2000, transactionTimeOut=3000)


@pytest.mark.parametrize("at", [9.99, 10.0, 10.003])
def test_a_master_that_returns_while_the_slave_delivers(at):
    async def main(group):
        clock = group.clock
        due_ms = (clock.now_ms() // 1000 + 10) * 1000
        for number in range(1200):
            await group.master.send(b"%d" % number, UNIQ_KEY=f"t{number}", TIMER_DELIVER_MS=str(due_ms))
        await group.copied()
        group.master.process.kill()
        await clock.sleep(due_ms / 1000 - 10 + at - clock.now_ms() / 1000)
        await group.master.start()
        await group.copied()
        await clock.sleep(20)
        counts = Counter(body for body, _ in [*await group.other.received(), *await group.master.received()])
        assert len(counts) == 1200
        assert max(counts.values()) == 1

    simulate_group(main)


def test_messages_that_wait_longer_than_a_round_of_the_wheel():
    async def main(group):
        clock, due = group.clock, {}
        for number, seconds in enumerate((15, 33, 70)):
            body = b"timed %d" % number
            await group.master.send(body, UNIQ_KEY=f"t{number}", **timed(clock, seconds))
            due[body] = clock.now_ms() + 1000 * seconds
        await group.copied()
        group.master.process.kill()
        await clock.sleep(50)
        found = dict(await group.other.received())
        assert found.keys() == {b"timed 0", b"timed 1"}
        await group.master.start()
        await group.copied()
        await clock.sleep(30)
        both = [*await group.other.received(), *await group.master.received()]
        assert Counter(body for body, _ in both) == Counter(due.keys())
        for body, at in both:
            assert -1000 <= at - due[body] < 2000, body

    simulate_group(main, timerRollWindowSlot=10)


def test_without_another_broker_messages_wait_and_come_when_there_is_one():
    async def main(group):
        for number in range(3):
            await group.master.send(b"delayed %d" % number, UNIQ_KEY=f"d{number}", **delayed(1))
            await group.master.send(b"timed %d" % number, UNIQ_KEY=f"t{number}", **timed(group.clock, 12))
        await group.copied()
        group.master.process.kill()
        group.other.process.kill()
        acting = service(group.slave.cluster, ActingService)
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 2)
        await group.clock.sleep(15)
        assert "10.0.0.3" in acting.problem or "no other broker name" in acting.problem
        await group.other.start()
        await group.clock.sleep(15)
        assert acting.problem == ""
        counts = Counter(body for body, _ in await group.other.received())
        delayed_too = {b"%s %d" % (what, number) for what in (b"delayed", b"timed") for number in range(3)}
        assert counts.keys() | {body for body, _ in await group.slave.received()} == delayed_too
        assert max(counts.values()) == 1

    simulate_group(main)


def test_without_escape_everything_waits_for_the_master():
    async def main(group):
        await group.master.send(b"delayed", UNIQ_KEY="d", **delayed(2))
        await group.copied()
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 2)
        await group.clock.sleep(10)
        assert await group.other.received() == []
        assert "enableRemoteEscape=false" in service(group.slave.cluster, ActingService).problem
        await group.master.start()
        await group.until(lambda: group.slave.role is Role.REPLICA, "the return", 2)
        await group.clock.sleep(3)
        assert [body for body, _ in await group.master.received()] == [b"delayed"]

    simulate_group(main, enableRemoteEscape=False)


def test_consumers_of_an_acting_master_are_served_and_their_offsets_kept():
    async def main(group):
        for number in range(21):
            await group.master.send(b"%d" % number)
        await group.copied()
        await group.clock.sleep(2)
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 2)
        client = Client(group.namesrv, world=group.pair.world)
        async with client, client.consumer("g", "T", consume_from="first") as consumer:
            got = []
            async for message in consumer:
                got.append(message.body)
                if len(got) == 21:
                    break
        kept = group.slave.cluster.broker.offsets
        assert sum(kept.committed("g", Queue("T", each)) or 0 for each in range(4)) == 20
        await group.master.start()
        await group.copied()
        kept = group.master.cluster.broker.offsets
        assert sum(kept.committed("g", Queue("T", each)) or 0 for each in range(4)) == 20

    simulate_group(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_is_killed_nothing_is_lost_and_nothing_comes_twice(seed):
    """Masters are killed, and sometimes the slave is stopped or the other broker killed meanwhile."""

    async def main(group):
        clock, chance, sent = group.clock, random.Random(seed), []
        for _ in range(3):
            for _ in range(chance.randrange(5, 15)):
                body = b"message %d" % len(sent)
                waits = (
                    delayed(chance.randrange(1, 4)) if chance.random() < 0.5 else timed(clock, chance.uniform(1, 40))
                )
                await group.master.send(body, UNIQ_KEY=f"u{len(sent)}", **waits)
                sent.append(body)
                await clock.sleep(chance.uniform(0, 0.3))
            await group.copied()
            group.master.process.kill()
            await clock.sleep(chance.uniform(0, 20))
            if chance.random() < 0.3:
                await group.slave.process.run(group.slave.cluster.server.stop())
                group.slave.process.kill()
                await clock.sleep(chance.uniform(0, 3))
                await group.slave.start()
                await clock.sleep(chance.uniform(0, 10))
            if chance.random() < 0.3:
                group.other.process.kill()
                await clock.sleep(chance.uniform(0, 8))
                await group.other.start()
            await group.master.start()
            await group.copied()
            await clock.sleep(chance.uniform(0, 3))
        await clock.sleep(60)
        both = [*await group.other.received(), *await group.master.received()]
        assert Counter(body for body, _ in both) == Counter(sent)

    simulate_group(main, seed)


# --- policy ----------------------------------------------------------------------------------------------------------


def acts(policy, members, *, connected=False, now=START_S):
    policy.members_are(members)
    return policy.acts(connected=connected, now=now)


def test_only_the_smallest_registered_slave_without_a_living_master_acts():
    policy = ActingPolicy(2, 0.0)
    assert not acts(policy, None)
    assert not acts(policy, {})
    assert not acts(policy, {0: "m", 2: "s"})
    assert not acts(policy, {1: "s", 2: "s"})
    assert acts(policy, {2: "s", 3: "s"})
    assert acts(policy, None), "a name server that does not answer changes nothing"
    assert not acts(policy, {2: "s"}, connected=True)
    assert not ActingPolicy(0, 0.0).acts(connected=False, now=START_S)


def test_a_master_that_announced_its_return_is_waited_for_but_not_for_ever():
    policy = ActingPolicy(1, 0.0)
    assert acts(policy, {1: "s"})
    policy.master_returns(100)
    assert not acts(policy, {1: "s"}, now=100 + RETURN_S - 1)
    assert acts(policy, {1: "s"}, connected=True, now=100 + RETURN_S)
    assert not acts(policy, {0: "m", 1: "s"}, now=200)
    assert not acts(policy, {1: "s"}, connected=True, now=201)


def test_the_return_of_a_master_that_is_gone_again_is_not_waited_for():
    policy = ActingPolicy(1, 0.0)
    assert acts(policy, {1: "s"})
    assert not policy.return_failed()
    policy.master_returns(100)
    assert not acts(policy, {1: "s"}, now=101)
    assert policy.return_failed()
    assert acts(policy, {1: "s"}, now=101)


def test_a_slave_that_has_just_started_serves_consumers_and_waits_for_its_master():
    policy = ActingPolicy(1, 10.0)
    assert not acts(policy, {1: "s"}, now=9.9 + START_S)
    assert policy.serves_consumers
    assert acts(policy, {1: "s"}, now=10 + START_S)
    policy = ActingPolicy(1, 10.0)
    assert not acts(policy, {0: "m", 1: "s"}, now=11)
    assert acts(policy, {1: "s"}, now=12), "its master was there"
