"""What a returning master gets of its slaves, if one of them does not answer, or comes later than the master."""

import logging
from collections import Counter

import pytest
from acting_groups import Member, delayed, simulate_group, timed

from gantrymq.model.group import GroupConfig
from gantrymq.model.names import HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role

QUEUE, HALVES = Queue("T", 0), Queue(HALF_TOPIC, 0)


def warnings(caplog):
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


async def with_group(group):
    """Store something to consume on the master, and the group."""
    for number in range(20):
        await group.master.send(b"%d" % number)
    group.master.cluster.broker.groups.put(GroupConfig("g"))
    await group.copied()
    await group.until(lambda: group.slave.cluster.broker.groups.get("g"), "the group")


async def act(group):
    await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 15)


def committed(member):
    return member.cluster.broker.offsets.committed("g", QUEUE)


def test_progress_of_slaves_that_answer_is_taken_without_those_that_do_not(caplog):
    async def main(group):
        silent = Member(
            group, "10.0.0.4", "silent", brokerRole="SLAVE", brokerId=2, brokerNotActiveTimeoutMillis=600_000
        )
        await silent.start()
        await with_group(group)
        for number in range(10):
            await group.master.send(b"delayed %d" % number, UNIQ_KEY=f"d{number}", **delayed(1))
        await group.copied()
        silent.process.pause()
        group.master.process.kill()
        await act(group)
        group.slave.cluster.broker.offsets.commit_of_client("g", QUEUE, 3)
        await group.clock.sleep(3)
        began = group.clock.monotonic()
        await group.master.start()
        assert 10 < group.clock.monotonic() - began <= 31
        assert committed(group.master) == 3
        await group.clock.sleep(5)
        counts = Counter(body for body, _ in [*await group.other.received(), *await group.master.received()])
        assert [counts[b"delayed %d" % number] for number in range(10)] == [1] * 10
        assert any("without the progress" in each and "10.0.0.4" in each for each in warnings(caplog))
        silent.process.kill()

    simulate_group(main)


def test_a_master_that_returns_while_no_slave_is_there_says_so(caplog):
    async def main(group):
        assert not any("progress" in each for each in warnings(caplog)), "of a new master"
        await with_group(group)
        group.master.process.kill()
        group.slave.process.kill()
        await group.master.start()
        assert any("no slave is registered" in each for each in warnings(caplog))

    simulate_group(main)


def test_a_slave_that_comes_later_hands_over_what_was_committed_there():
    async def main(group):
        await with_group(group)
        group.master.process.kill()
        await act(group)
        group.slave.cluster.broker.offsets.commit_of_client("g", QUEUE, 3)
        await group.slave.process.run(group.slave.cluster.server.stop())
        group.slave.process.kill()
        await group.master.start()
        assert committed(group.master) is None
        await group.slave.start()
        await group.until(lambda: committed(group.master) == 3, "the handover", 5)
        assert committed(group.slave) == 3
        group.master.cluster.broker.offsets.commit("g", QUEUE, 2)  # it is handed over once
        await group.slave.process.run(group.slave.cluster.server.stop())
        await group.slave.start()
        await group.until(lambda: committed(group.slave) == 2, "the copy", 5)
        assert committed(group.master) == 2

    simulate_group(main)


def test_a_slave_that_was_killed_hands_over_what_was_committed_some_seconds_before():
    async def main(group):
        await with_group(group)
        group.master.process.kill()
        await act(group)
        group.slave.cluster.broker.offsets.commit_of_client("g", QUEUE, 3)
        await group.clock.sleep(6)
        group.slave.process.kill()
        await group.master.start()
        await group.slave.start()
        await group.until(lambda: committed(group.master) == 3, "the handover", 5)

    simulate_group(main)


def test_a_master_that_was_frozen_gets_what_was_committed_meanwhile():
    async def main(group):
        await with_group(group)
        group.master.process.pause()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 60)
        group.slave.cluster.broker.offsets.commit_of_client("g", QUEUE, 3)
        group.master.process.resume()
        await group.until(lambda: committed(group.master) == 3, "the handover", 15)

    simulate_group(main)


@pytest.mark.parametrize("seconds", [15.05, 47.3])
def test_what_came_due_while_a_master_was_frozen_is_delivered_once(seconds):
    async def main(group):
        clock, sent = group.clock, []
        for number in range(20):
            for body, waits in ((b"d%d", delayed(1 + number % 3)), (b"t%d", timed(clock, 2 + 5 * number))):
                sent.append(body % number)
                await group.master.send(sent[-1], UNIQ_KEY=sent[-1].decode(), **waits)
            await clock.sleep(0.05)
        await group.copied()
        for _ in range(2):
            group.master.process.pause()
            await clock.sleep(seconds)
            if seconds > 40:
                assert group.slave.role is Role.ACTING_MASTER
            group.master.process.resume()
            await group.until(lambda: group.slave.role is Role.REPLICA, "the return", 5)
            await group.until(lambda: group.master.role is Role.MASTER, "the takeover", 15)
            await clock.sleep(5)
            await group.copied()
        await clock.sleep(60)
        assert group.master.role is Role.MASTER
        both = [*await group.other.received(), *await group.master.received()]
        assert Counter(body for body, _ in both) == Counter(sent)
        await group.master.send(b"taken")

    simulate_group(main, haListenPort=40500)


def test_half_messages_that_a_slave_handed_over_while_a_master_was_frozen():
    async def main(group):
        for number in range(5):
            await group.master.send(b"half %d" % number, UNIQ_KEY=f"h{number}", TRAN_MSG="true", PGROUP="p")
        await group.copied()
        await group.clock.sleep(3)
        group.master.process.pause()
        await group.clock.sleep(50)
        assert group.other.cluster.store.bounds(HALVES).max_offset == 5
        group.master.process.resume()
        await group.clock.sleep(15)
        assert group.master.role is Role.MASTER
        assert group.master.cluster.broker.offsets.committed("CID_RMQ_SYS_TRANS", HALVES) == 5
        assert group.master.cluster.store.bounds(HALVES).max_offset == 5, "none is renewed"

    simulate_group(main, haListenPort=40500, transactionCheckInterval=2000, transactionTimeOut=25_000)


def test_a_master_that_did_not_stand_still_takes_nothing_over(caplog):
    async def main(group):
        group.master.process.pause()
        await group.clock.sleep(4)
        group.master.process.resume()
        await group.clock.sleep(30)
        assert not any("stood still" in each for each in warnings(caplog))

    simulate_group(main)
