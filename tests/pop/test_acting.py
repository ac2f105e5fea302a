"""Pops of a slave that acts for its missing master: nothing is lost, and what is acknowledged holds if it can.

A few seeds of random kills by default, ``GANTRYMQ_POP_SEEDS=1000`` for the long run.
"""

import os
import random
from types import SimpleNamespace

import pytest

pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_nameserver")
pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_transaction")

from acting_groups import MASTER, SLAVE, Group
from ha_pairs import simulate_pair
from pop_client import PopClient

from gantrymq.client import Client
from gantrymq.errors import GantryError
from gantrymq.loose_json import dumps, loads
from gantrymq.model.role import Role

PORT = 10911
SEEDS = range(int(os.environ.get("GANTRYMQ_POP_SEEDS", "3")))


class PopGroup(Group):
    """A master and its slave with clients that pop; the queues of T are read one message at a time."""

    async def start(self):
        for each in (self.master, self.slave, self.other):
            each.settings["listenPort"] = PORT
        await super().start()
        self.at_master, self.at_slave = self.client(MASTER), self.client(SLAVE)

    def client(self, host):
        return PopClient(SimpleNamespace(world=self.pair.world, broker_address=f"{host}:{PORT}"))

    async def stop(self):
        await self.at_master.remoting.close()
        await self.at_slave.remoting.close()
        await super().stop()

    async def act(self):
        """Kill the master, and wait for its slave to act."""
        await self.copied()
        await self.clock.sleep(2)  # the offsets of groups are copied every second
        self.master.process.kill()
        await self.until(lambda: self.slave.role is Role.ACTING_MASTER, "acting", 2)

    async def back(self):
        await self.master.start()
        await self.until(lambda: self.slave.role is Role.REPLICA, "the return", 2)


def simulate_pops(main, seed=1, **settings):
    async def run(pair):
        group = PopGroup(pair, **settings)
        await group.start()
        await main(group)

    simulate_pair(run, seed)


async def pop_one(client, **more):
    answer = await client.pop(**{"most": 1, "invisible": 20_000, **more})
    assert answer.code in (0, 210), answer.remark
    return answer.messages[0] if answer.code == 0 else None


async def all_of(client, seconds, acknowledge=True):
    """Pop for some time, and return the bodies in the order in which they came."""
    found, began = [], client.clock.monotonic()
    while client.clock.monotonic() - began < seconds:
        message = await pop_one(client, poll=1000)
        if message is not None:
            found.append(message.body)
            if acknowledge:
                assert (await client.ack(message)).code == 0
    return found


def test_an_acting_master_serves_pops_and_what_is_acknowledged_there_holds():
    async def main(group):
        for number in range(6):
            await group.master.send(b"%d" % number)
        popped = [await pop_one(group.at_master) for _ in range(2)]
        assert (await group.at_master.ack(popped[0])).code == 0
        await group.act()
        began = group.clock.monotonic()
        rest = [await pop_one(group.at_slave) for _ in range(4)]
        assert group.clock.monotonic() - began < 1
        bodies = {each.body for each in (*popped, *rest)}
        assert bodies == {b"%d" % number for number in range(6)}
        for each in rest:
            assert (await group.at_slave.ack(each)).code == 0
        assert (await group.at_slave.ack(popped[1])).code == 0
        assert await all_of(group.at_slave, 40) == []
        await group.back()
        again = await all_of(group.at_master, 60)
        assert set(again) <= {popped[1].body}  # popped from the master, whose log has no acknowledgement of it

    simulate_pops(main)


def test_what_is_not_acknowledged_comes_again_from_the_acting_master_and_then_from_the_master():
    async def main(group):
        for number in range(5):
            await group.master.send(b"%d" % number)
        early = await pop_one(group.at_master, invisible=8000)
        await group.act()
        first = [await pop_one(group.at_slave, invisible=5000) for _ in range(4)]
        kept, soon, lost, fine = first
        assert (await group.at_slave.ack(fine)).code == 0
        assert (await group.at_slave.change(soon, 1000)).code == 0
        began = group.clock.monotonic()
        again = await pop_one(group.at_slave, poll=10_000, invisible=60_000)
        assert (again.body, group.clock.monotonic() - began) == (soon.body, pytest.approx(1, abs=0.2))
        assert (await group.at_slave.ack(again)).code == 0
        left = []
        while len(left) < 3:
            left.append(await pop_one(group.at_slave, poll=10_000, invisible=60_000))
        assert {each.body for each in left} == {early.body, kept.body, lost.body}
        assert [each.times for each in (*first, again, *left)] == [0] * 4 + [1] * 4
        for each in left:
            if each.body != lost.body:
                assert (await group.at_slave.ack(each)).code == 0
        assert await all_of(group.at_slave, 10) == []
        await group.back()
        assert lost.body in await all_of(group.at_master, 60)

    simulate_pops(main)


def test_messages_in_order_stay_in_order():
    async def main(group):
        for number in range(6):
            await group.master.send(b"%d" % number)
        order = {"order": "true", "most": 32, "invisible": 5000}
        queue = {each: [] for each in range(4)}

        async def read(client, acknowledge):
            answer = await client.pop(**order, poll=6000)
            for each in answer.messages:
                queue[each.queue_id].append(each.body)
                if acknowledge:
                    assert (await client.ack(each)).code == 0

        await read(group.at_master, False)
        before = {each: list(found) for each, found in queue.items()}
        await group.act()
        for each in queue:
            queue[each].clear()
        for _ in range(4):
            await read(group.at_slave, True)
        for each, found in queue.items():
            assert found == sorted(before[each])
        await group.back()
        assert (await group.at_master.pop(**order)).code == 210

    simulate_pops(main)


def test_pops_without_room_in_memory_are_refused_and_can_be_repeated():
    async def main(group):
        for number in range(6):
            await group.master.send(b"%d" % number)
        await pop_one(group.at_master)
        await group.act()
        found = []
        while (answer := await group.at_slave.pop(most=1, invisible=60_000)).code == 0:
            found += answer.messages
        assert (answer.code, "popCkMaxBufferSize" in answer.remark, len(found)) == (14, True, 2)
        for each in found:
            assert (await group.at_slave.ack(each)).code == 0
        rest = await all_of(group.at_slave, 50)
        assert len({*rest, *(each.body for each in found)}) == 6

    simulate_pops(main, popCkMaxBufferSize=3)


def test_an_acting_master_knows_the_modes_of_groups_and_changes_none():
    async def main(group):
        mode = {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 0}
        assert (await group.at_master.ask(401, None, dumps(mode))).code == 0
        await group.act()
        listed = loads((await group.at_slave.ask(402)).payload)
        assert listed["messageRequestModeMap"]["T"]["CG"]["mode"] == "POP"
        refused = await group.at_slave.ask(401, None, dumps({**mode, "mode": "PULL"}))
        assert (refused.code, "when the master is back" in refused.remark) == (1, True)

    simulate_pops(main)


def test_a_consumer_goes_to_the_acting_master_and_back_by_itself():
    async def main(group):
        client = Client(group.namesrv, world=group.pair.world)
        async with client, client.pop_consumer("G", "T", consume_from="first", poll_s=5) as consumer:

            async def read(count):
                found, began = set(), group.clock.monotonic()
                while len(found) < count and group.clock.monotonic() - began < 60:
                    try:
                        for message in await consumer.pop():
                            found.add(message.body)
                            await consumer.ack(message)
                    except GantryError:  # the broker that was asked is gone
                        await group.clock.sleep(1)
                return found

            for number in range(4):
                await group.master.send(b"%d" % number)
            assert len(await read(4)) == 4
            for number in range(4, 8):
                await group.master.send(b"%d" % number)
            await group.act()
            assert await read(4) == {b"4", b"5", b"6", b"7"}
            await group.back()
            await group.master.send(b"8")
            assert b"8" in await read(1)

    simulate_pops(main)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_over_kills_and_returns(seed):
    """Each message comes until it is acknowledged, at whichever broker serves; consumers stop working at random."""

    async def main(group):
        chance, sent, done = random.Random(seed), set(), set()
        client = group.at_master

        async def work(times):
            for _ in range(times):
                message = await pop_one(client, invisible=chance.choice([1000, 5000, 15_000]), poll=500)
                if message is None:
                    continue
                what = chance.random()
                if what < 0.6:
                    done.add(message.body)
                    assert (await client.ack(message)).code == 0
                elif what < 0.8:
                    assert (await client.change(message, chance.randrange(1000, 8000))).code == 0
                await group.clock.sleep(chance.random())

        for turn in range(3):
            for number in range(chance.randrange(4, 12)):
                body = b"%d-%d" % (turn, number)
                sent.add(body)
                await group.master.send(body)
            await work(chance.randrange(3, 12))
            await group.act()
            client = group.at_slave
            await work(chance.randrange(5, 25))
            await group.back()
            await group.copied()
            client = group.at_master
            await group.clock.sleep(3)
        began = group.clock.monotonic()
        while group.clock.monotonic() - began < 40:
            message = await pop_one(client, poll=1000)
            if message is not None:
                done.add(message.body)
                assert (await client.ack(message)).code == 0
                began = group.clock.monotonic()
        assert done == sent

    simulate_pops(main, seed)
