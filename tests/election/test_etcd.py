"""Brokers without a log that are elected by an etcd in memory, on a virtual clock."""

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from fake_broker import FakeBroker
from memory_etcd import MemoryEtcd

from gantrymq_replication.election.engine import EngineRefused, Progress
from gantrymq_replication.election.epochs import Epoch, EpochList
from gantrymq_replication.election.etcd import EtcdEngine, EtcdEngineSettings
from gantrymq_replication.election.etcd_client import EtcdClientSettings
from gantrymq_replication.election.sync_set import Alter
from gantrymq_testing import simulated

BASE = "/gantry/DefaultCluster/broker-a/"
LEASE_S = 9


class Set:
    """The brokers of one name."""

    def __init__(self, world):
        self.world, self.etcd, self.brokers = world, MemoryEtcd(world.clock), []

    def engine(self, name, address="127.0.0.1:1", **rules):
        identity = Path(f"/{name}/brokerIdentity")
        self.world.files.make_dirs(identity.parent)
        client = self.etcd.client()
        names = {"cluster": "DefaultCluster", "broker": "broker-a", "address": address, "ha_address": address}
        return EtcdEngine(self.world, client, EtcdEngineSettings(**names, identity=identity, **rules))

    async def start(self, name, *, durable=True, priority=1 << 30, end=0, epochs=(), **more):
        broker = FakeBroker(
            self.world, lambda fake: self.engine(name, fake.address, durable=durable, priority=priority), **more
        )
        broker.end, broker.epochs = end, EpochList(Epoch(*each) for each in epochs)
        await broker.start()
        self.brokers.append(broker)
        return broker

    async def until(self, condition, what, seconds=30):
        began = self.world.clock.monotonic()
        while not condition():
            states = [(each.role, each.events, each.election.problem) for each in self.brokers]
            assert self.world.clock.monotonic() < began + seconds, f"no {what}: {states}"
            await self.world.clock.sleep(0.01)
        return self.world.clock.monotonic() - began

    async def joined(self, master, other):
        await self.until(lambda: other.role == "slave", "slave")
        master.copies(other)
        await self.until(lambda: len(master.machine.set.members) == 2, "set of two")

    def state(self):
        return json.loads(self.etcd.keys[BASE + "state"].value)


def simulate(main, seed=1):
    async def run(world):
        brokers = Set(world)
        try:
            await main(brokers)
        finally:
            for each in brokers.brokers:
                await each.stop()
            await world.workers.close()

    simulated.simulate(seed, run)


def test_a_death_and_a_handover():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        assert brokers.state() == {"master": 1, "epoch": 1, "set": [1], "setEpoch": 1, "clean": True}
        two = await brokers.start("two")
        await brokers.joined(one, two)
        assert brokers.state()["set"] == [1, 2]
        await one.stop()
        assert await brokers.until(lambda: two.serving, "new master") < LEASE_S + 1
        await brokers.until(lambda: two.machine.set.members == {2}, "smaller set")
        one = await brokers.start("one")
        await brokers.joined(two, one)
        await two.stop(resign=True)
        assert await brokers.until(lambda: one.serving, "successor") < 0.5
        assert one.machine.epoch == 3

    simulate(main)


def test_nobody_waits_for_a_master_that_died():
    async def main(brokers):
        one = await brokers.start("one", least_copies=2)
        others = [await brokers.start(name, least_copies=2) for name in ("two", "three")]
        for each in others:
            await brokers.until(lambda: each.role == "slave", "slave")  # noqa: B023
            one.copies(each)
        await brokers.until(lambda: len(one.machine.set.members) == 3, "set of three")
        await brokers.world.clock.sleep(1)
        for task in [*one.election._tasks]:  # as a crash: its leases end by themselves
            task.cancel()
        assert await brokers.until(lambda: any(each.serving for each in others), "new master") < LEASE_S + 0.1
        assert brokers.state()["set"] == [2, 3]
        new, other = sorted(others, key=lambda each: not each.serving)
        new.copies(other)
        await brokers.until(lambda: new.machine.may_accept(new.now), "acceptance", 0.1)

    simulate(main)


def test_a_master_hands_over_to_the_broker_that_it_names():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        others = [await brokers.start(f"other{number}") for number in range(3)]
        for each in others:
            await brokers.until(lambda: each.role == "slave", "slave")  # noqa: B023
            one.copies(each)
        await brokers.until(lambda: len(one.machine.set.members) == 4, "set of four")
        one.append()
        with pytest.raises(EngineRefused, match="did not confirm the log within 3 s"):
            await one.election.hand_over(3)
        assert one.machine.may_accept(one.now)
        for each in others:
            one.copies(each)
        one.unflushed = 100  # it was appended, and is sent to slaves when it is on the disk
        with pytest.raises(EngineRefused, match="did not confirm the log within 3 s"):
            await one.election.hand_over(3)
        one.unflushed = 0
        with pytest.raises(EngineRefused, match="broker id 9 is not a connected .* take over: 2, 3, 4$"):
            await one.election.hand_over(9)
        await one.election.hand_over(3)
        (successor,) = [each for each in others if each.election.own_id == 3]
        assert await brokers.until(lambda: successor.serving, "successor") < 0.5
        await brokers.until(lambda: one.role == "slave", "slave")
        with pytest.raises(EngineRefused, match="this broker is not the master"):
            await one.election.hand_over(2)

    simulate(main)


def test_a_lonely_master_gives_way_to_a_broker_with_more():
    async def main(brokers):
        one = await brokers.start("one", least_copies=2)
        await brokers.until(lambda: one.role == "master", "master")
        two = await brokers.start("two", least_copies=2)
        await brokers.until(lambda: two.role == "slave", "slave")
        assert brokers.state()["set"] == [1], "as controllers have it after each election"
        one.election.give_way(2)
        assert not one.machine.may_accept(one.now)
        await brokers.until(lambda: two.role == "master" and one.role == "slave", "change")
        assert brokers.state()["epoch"] == 2 and brokers.state()["set"] == [1, 2]

    simulate(main)


def test_a_master_of_a_set_gives_way_to_members_only_and_never_while_it_acknowledges(caplog):
    async def main(brokers):
        one = await brokers.start("one", least_copies=2)
        await brokers.until(lambda: one.role == "master", "master")
        two = await brokers.start("two", least_copies=2)
        await brokers.joined(one, two)
        three = await brokers.start("three", least_copies=2)
        await brokers.until(lambda: three.role == "slave", "slave")
        one.append()
        one.election.give_way(3)
        await brokers.world.clock.sleep(1)
        assert one.machine.may_accept(one.now) and "takes over" not in caplog.text
        one.lose(two)
        one.election.give_way(3)
        await brokers.until(lambda: "it does not take over" in caplog.text, "refusal")
        assert "broker id 3 cannot be the master; members of the in-sync set are 2" in caplog.text
        assert one.role == "master" and not one.machine.held
        one.copies(two)
        assert one.machine.may_accept(one.now)

    simulate(main)


def test_the_longest_log_of_the_set_is_elected():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        others = [await brokers.start(f"other{number}") for number in range(3)]
        for each in others:
            await brokers.until(lambda: each.role == "slave", "slave")  # noqa: B023
            one.copies(each)
        await brokers.until(lambda: len(one.machine.set.members) == 4, "set of four")
        others[1].end = 500
        await brokers.world.clock.sleep(4)  # until it has told
        await one.stop()
        await brokers.until(lambda: others[1].serving, "master")

    simulate(main)


def test_a_master_without_etcd_is_fenced_before_its_lease_ends():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.joined(one, two)
        one.engine._etcd.down = True
        fenced = await brokers.until(lambda: not one.serving, "fenced master")
        took = await brokers.until(lambda: two.serving, "new master")
        assert 3 < fenced < 7.1 and took > 1  # 2 s of 9 are the margin
        assert one.role == "master" and "fenced: etcd does not answer" in one.machine.problem(one.now)
        one.engine._etcd.down = False
        await brokers.until(lambda: one.role == "slave" and one.following.master == 2, "slave")

    simulate(main)


def test_a_restarted_master_waits_for_the_lease_of_its_earlier_process():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        await one.stop()
        one = await brokers.start("one")
        assert await brokers.until(lambda: one.serving, "master") > 5
        assert one.machine.epoch == 2

    simulate(main)


def test_a_set_of_one_that_may_have_lost_messages_needs_a_person():
    async def main(brokers):
        one = await brokers.start("one", durable=False)
        await brokers.until(lambda: one.serving, "master")
        assert not brokers.state()["clean"]
        await one.stop()
        one = await brokers.start("one", durable=False)
        await brokers.until(
            lambda: one.machine and "a person must elect it" in one.machine.problem(one.now), "sentence"
        )
        assert not one.serving
        with pytest.raises(EngineRefused, match=r"broker id 7 is not connected to etcd; connected are 1"):
            await one.engine.admit(7, unclean=True)
        with pytest.raises(EngineRefused, match="did not stop cleanly"):
            await one.engine.admit(1, unclean=False)
        await one.engine.admit(1, unclean=True)
        await brokers.until(lambda: one.serving, "master")
        with pytest.raises(EngineRefused, match="broker id 1 is the master"):
            await one.engine.admit(1, unclean=True)

    simulate(main)


def test_a_broker_that_must_not_be_the_master_is_not_elected():
    async def main(brokers):
        one = await brokers.start("one", unelectable="its list of epochs is damaged")
        await brokers.until(lambda: one.machine is not None, "machine")
        await brokers.world.clock.sleep(20)
        assert one.role == "none" and one.machine.problem(one.now) == "its list of epochs is damaged"
        assert BASE + "master" not in brokers.etcd.keys

    simulate(main)


def test_a_broker_outside_the_set_says_who_must_come_back():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.until(lambda: two.role == "slave", "slave")
        await one.stop()
        await brokers.until(lambda: "is not in the in-sync set 1:" in two.machine.problem(two.now), "sentence")
        assert two.role == "slave"

    simulate(main)


def test_changes_of_others_are_refused():
    async def main(brokers):
        engine, other = brokers.engine("one"), brokers.engine("two")
        for each in (engine, other):
            await each.open(lambda _: None, lambda _: None)
        progress = Progress(-1, 0, 0)
        assert (await engine.elect(progress)).standing.master == 1
        assert (await other.elect(progress)).standing.master == 1
        with pytest.raises(EngineRefused, match="broker id 2 is not the master of epoch 1"):
            await other.alter(1, Alter(1, 1, frozenset({2})))
        with pytest.raises(EngineRefused, match="the in-sync set in etcd is number 1, not 0"):
            await engine.alter(1, Alter(1, 0, frozenset({1})))
        assert await engine.alter(1, Alter(1, 1, frozenset({1, 2}))) == ({1, 2}, 2)
        with pytest.raises(EngineRefused, match="not the master of epoch 2"):
            await engine.alter(2, Alter(1, 2, frozenset({1, 2})))
        await brokers.world.clock.sleep(LEASE_S + 1)
        with pytest.raises(EngineRefused, match="has changed, or the lease has ended"):
            await engine.alter(1, Alter(2, 2, frozenset({1})))
        assert (await engine.elect(progress)).standing.epoch == 2
        await other.resign()
        assert BASE + "master" in brokers.etcd.keys
        await engine.resign()
        assert BASE + "master" not in brokers.etcd.keys
        for each in (engine, other):
            await each.close()

    simulate(main)


def test_damaged_keys_are_told_in_a_sentence():
    async def main(brokers):
        engine = brokers.engine("one")
        await engine.open(lambda _: None, lambda _: None)
        brokers.etcd.write({BASE + "state": (b"{", 0)}, [])
        with pytest.raises(EngineRefused, match="the keys below /gantry/DefaultCluster/broker-a/ in etcd are damaged"):
            await engine.renew(Progress(-1, 0, 0))
        await engine.close()

    simulate(main)


@pytest.mark.parametrize("seed", range(4))
def test_lost_answers_and_deaths(seed):
    """At most one broker serves at a time, and there is one again when the trouble ends."""

    async def main(brokers):
        rng = brokers.etcd.random = random.Random(seed)
        names = ["one", "two", "three"]
        running = {name: await brokers.start(name) for name in names}
        epochs = {}
        for _ in range(2000):
            await brokers.world.clock.sleep(0.05)
            serving = [each for each in running.values() if each.serving]
            assert len(serving) <= 1
            for each in serving:
                assert epochs.setdefault(each.machine.epoch, each) is each
                for other in running.values():
                    if other.role == "slave" and other.following.epoch == each.machine.epoch:
                        each.copies(other)
            what, name = rng.random(), rng.choice(names)
            if what < 0.004 and name in running:
                await running.pop(name).stop()
            elif what < 0.02 and name not in running:
                running[name] = await brokers.start(name)
            elif what < 0.03 and name in running:
                client = running[name].engine._etcd
                client.down = not client.down
        brokers.etcd.random = None
        for name in names:
            if name not in running:
                running[name] = await brokers.start(name)
            running[name].engine._etcd.down = False
        await brokers.until(lambda: any(each.serving for each in running.values()), "master", 60)
        assert len(epochs) > 1

    simulate(main, seed)


def test_passwords_and_keys_are_not_shown():
    assert "word" not in repr(EtcdClientSettings(endpoints=("a:1",), user="u", password="word", key=b"word"))


def test_etcd_knows_the_ids_that_were_given():
    async def main(brokers):
        one = await brokers.start("one")
        two = await brokers.start("two")
        await brokers.until(lambda: one.serving and two.role == "slave", "a master and a slave")
        engine = brokers.engine("three")
        ids = (1, 2, 3, 0, -1)
        assert [await engine.has(each) for each in ids] == [True, True, False, False, False]
        await two.stop()
        assert await engine.has(2)

    simulate(main)
