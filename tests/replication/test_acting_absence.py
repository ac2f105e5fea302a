"""When a slave acts, and when not: a master that is frozen, does not start, or is cut off from name servers."""

import asyncio
import logging
import random

import pytest
from acting_groups import delayed, simulate_group, timed
from ha_pairs import service

from gantrymq.client import Client
from gantrymq.errors import GantryError, RequestRefused, ServiceNotAvailable
from gantrymq.interfaces import PullRequest, PutResult, PutStatus
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq_replication.slave import SlaveService
from gantrymq_testing.simulated import FaultyDelivery


def test_a_slave_acts_for_a_frozen_master_whose_system_accepts_connections():
    async def main(group):
        clock = group.clock
        for number in range(10):
            await group.master.send(b"%d" % number, UNIQ_KEY=f"t{number}", **timed(clock, 30 + 5 * number))
        await group.copied()
        group.master.process.pause()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 25)
        for _ in range(60):
            assert group.slave.role is Role.ACTING_MASTER
            await clock.sleep(1)
        problem = service(group.slave.cluster, SlaveService).problem
        assert "sent nothing" in problem
        assert "is this the address of its HA port?" not in problem
        assert len(await group.other.received()) == 10
        group.master.process.resume()
        await group.until(lambda: group.slave.role is Role.REPLICA, "the return", 5)

    simulate_group(main)


def test_a_slave_acts_between_the_starts_of_a_master_that_fails_to_start():
    async def main(group):
        clock = group.clock
        for number in range(10):
            await group.master.send(b"%d" % number, UNIQ_KEY=f"t{number}", **timed(clock, 20 + 4 * number))
        await group.copied()
        group.master.process.kill()
        await group.until(lambda: group.slave.role is Role.ACTING_MASTER, "acting", 2)
        group.master.settings["haListenPort"] = int(group.namesrv.rpartition(":")[2])
        group.master.settings["bindAddress"] = "127.0.0.1"
        acted = 0
        for _ in range(9):
            with pytest.raises(GantryError, match="HA port"):
                await group.master.start()
            group.master.process.kill()
            for _ in range(7):
                await clock.sleep(1)
                acted += group.slave.role is Role.ACTING_MASTER
        assert acted > 50
        assert len(await group.other.received()) == 10

    simulate_group(main)


def test_a_slave_that_starts_before_its_master_does_not_act(caplog):
    async def main(group):
        await group.master.send(b"later", UNIQ_KEY="t", **delayed(2))
        await group.copied()
        for each in (group.master, group.slave):
            await each.process.run(each.cluster.server.stop())
            each.process.kill()
        await group.clock.sleep(15)
        caplog.clear()
        caplog.set_level(logging.INFO)
        await group.slave.start()
        await group.clock.sleep(2)
        await group.master.start()
        await group.copied()
        await group.clock.sleep(10)
        assert "acts for it" not in caplog.text
        assert [body for body, _ in await group.master.received()] == [b"later"]
        assert await group.other.received() == []

    simulate_group(main)


def test_consumers_are_served_while_only_name_servers_lose_the_master():
    faults = FaultyDelivery(random.Random(1), late=0)

    async def main(group):
        clock, master, slave = group.clock, group.master, group.slave
        faults.attach(group.pair.world.network, clock.monotonic)
        master.cluster.broker.groups.put(GroupConfig("g"))
        await clock.sleep(2)
        host, got = group.namesrv.rpartition(":")[0], []
        faults.part(master.host, host, 60)
        await clock.sleep(15)
        assert slave.role is Role.REPLICA, "its master lives, and delivers"
        client = Client(group.namesrv, world=group.pair.world)
        async with client, client.consumer("g", "T", consume_from="first") as consumer:
            for number in range(20):
                await master.send(b"%d" % number)
            async for message in consumer:
                got.append(message.body)
                if len(got) == 20:
                    break
        assert clock.monotonic() < 40
        assert sorted(got) == sorted(b"%d" % number for number in range(20))
        await clock.sleep(60)
        assert sum(master.cluster.broker.offsets.committed("g", Queue("T", each)) or 0 for each in range(4)) == 19
        with pytest.raises(RequestRefused, match="slaveReadEnable"):
            await slave.process.run(slave.cluster.broker.messages.pull(PullRequest("g", "T", 0, 0, 32)))

    simulate_group(main, delivery=faults)


def test_a_master_says_what_it_waits_for(caplog):
    async def main(group):
        await group.master.process.run(group.master.cluster.server.stop())
        group.master.process.kill()
        await group.names.stop()
        starting = asyncio.ensure_future(group.master.start())
        await group.clock.sleep(3)
        assert "serves no clients yet; it waits, up to 30 s after its start: no name server answers" in caplog.text
        group.master.process.kill()
        await asyncio.wait([starting])

    simulate_group(main)


def test_log_lines_of_an_outage_are_true(caplog):
    async def main(group):
        clock, slave, seconds = group.clock, group.slave, 5
        caplog.set_level(logging.INFO)
        for number in range(2):
            await group.master.send(b"%d" % number, UNIQ_KEY=f"t{number}", **timed(clock, seconds))
        await group.copied()
        await clock.sleep(2)
        await group.master.process.run(group.master.cluster.server.stop())
        group.master.process.kill()
        await group.until(lambda: slave.role is Role.ACTING_MASTER, "acting", 2)
        outlet, refused = slave.cluster.broker.role.outlet, []

        async def refuses_one(messages, *, skip_interceptors=False):
            if refused or len(messages) < 2:
                return await outlet(messages, skip_interceptors=skip_interceptors)
            refused.append(messages[0])
            stored = await outlet(messages[1:], skip_interceptors=skip_interceptors)
            return [PutResult(PutStatus.SERVICE_NOT_AVAILABLE, -1, -1, 0, 0, "not now"), *stored]

        slave.cluster.broker.role.store_elsewhere(refuses_one)
        await clock.sleep(10)
        assert "1 timed messages wait for the store: not now" in caplog.text
        assert len(await group.other.received()) == 2
        with pytest.raises(ServiceNotAvailable, match="send to another broker name"):
            await slave.send(b"refused")
        await group.master.start()
        await group.copied()
        assert "a slave acting as master" in caplog.text
        assert "this broker has taken over tables of another one; the timer wheel" in caplog.text
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING and "rebuilt" in each.message]
        with pytest.raises(ServiceNotAvailable, match=f"the master is {group.master.host}"):
            await slave.send(b"refused")

    simulate_group(main)
