"""Our engine in elections by Java's controllers 5.3.3 (DLedger, jRaft): brokers without a log are elected and replaced,
controllers die and come back."""

import asyncio
from contextlib import AsyncExitStack

import pytest

pytest.importorskip("gantrymq_replication")

from fake_broker import FakeBroker
from java_controllers import start_controllers, start_jraft_controllers
from polling import until

from gantrymq.remoting.client import RemotingClient
from gantrymq.world.real import real_world
from gantrymq_replication.election.controller import ControllerEngine, ControllerSettings
from gantrymq_replication.election.machine import Fencing

pytestmark = pytest.mark.interop


class Set:
    """The brokers of one name."""

    def __init__(self, world, stack, folder, controllers):
        self.world, self._stack, self._folder = world, stack, folder
        self.addresses = tuple(each.address for each in controllers)

    async def start(self, name, fencing=Fencing.STRICT, broker="broker-a", **rules):
        folder = self._folder / name
        folder.mkdir(exist_ok=True)

        def engine(fake):
            return ControllerEngine(
                self.world,
                ControllerSettings(
                    addresses=self.addresses,
                    cluster="DefaultCluster",
                    broker=broker,
                    address=fake.address,
                    identity=folder / "brokerIdentity",
                ),
                lambda: RemotingClient(self.world),
            )

        fake = FakeBroker(self.world, engine, fencing, **rules)
        await fake.start()
        self._stack.push_async_callback(fake.stop)
        return fake


def simulate(folder, controllers, main):
    async def run():
        world = real_world()
        async with AsyncExitStack() as stack:
            await main(Set(world, stack, folder, controllers))
        await world.workers.close()

    asyncio.run(run())


async def joined(master, other):
    """Wait until *other* follows, and is in the set."""
    await until(lambda: other.role == "slave", "slave")
    master.copies(other)
    await until(lambda: len(master.machine.set.members) == 2, "set of two", detail=lambda: str(other.events))


def test_elections_of_one_controller(running, tmp_path):
    controllers = start_controllers(running, tmp_path, 1)

    async def main(brokers):
        one = await brokers.start("one")
        await until(lambda: one.serving, "master", detail=lambda: f"{one.election.problem} {one.events}")
        # The controller may tell the broker of its election before it answers the broker's request.
        assert next(each for each in one.events if each != "told") == "master 1" and one.machine.epoch == 1
        assert (tmp_path / "one" / "brokerIdentity").read_text() == "DefaultCluster#broker-a#1"
        assert not (tmp_path / "one" / "brokerIdentity-temp").exists()
        two = await brokers.start("two")
        await joined(one, two)
        assert two.following.address == one.address and two.machine.standing.members == {1}
        one.append()
        assert not one.machine.may_acknowledge(one.end, one.now)
        one.copies(two)
        assert one.machine.may_acknowledge(one.end, one.now)

        # A planned change, and back.
        began = one.now
        await one.election.hand_over(2)
        await until(lambda: two.serving and one.role == "slave", "successor", detail=lambda: str(two.events))
        print(f"{one.now - began:.2f} s until the successor serves")
        assert one.now - began < 1 and two.machine.epoch == 2
        await joined(two, one)
        await two.election.hand_over(1)
        await joined(one, two)

        # The master dies: the controller tells the other one at once.
        began = two.now
        await one.stop()
        await until(lambda: two.serving, "new master", detail=lambda: str(two.events))
        assert "told" in two.events and two.machine.epoch == 4 and two.machine.set.members == {2}
        assert two.now - began < 2

        # It comes back with its id, and follows.
        one = await brokers.start("one")
        await joined(two, one)
        assert one.following.epoch == 4 and one.machine._rules.own_id == 1

        # A slave whose connection is lost leaves the set.
        two.lose(one)
        await until(lambda: two.machine.set.members == {2}, "shrunk set")
        assert two.serving

        # Nobody of the set is alive: the other broker says so, until one comes back.
        await until(lambda: one.role == "slave", "slave")
        await two.stop()
        await until(lambda: "none of its in-sync set is alive" in one.machine.problem(one.now), "sentence")
        assert one.machine.standing.master is None and not one.serving
        two = await brokers.start("two")
        await until(lambda: two.serving, "master")
        assert two.machine.epoch > 4

        # A broker with an identity of another set is refused in a sentence.
        three = await brokers.start("one", broker="broker-b")
        await until(lambda: "this store belongs to another set of brokers" in three.election.problem, "refusal")

        # An id that the controllers do not know, too.
        (tmp_path / "four").mkdir()
        (tmp_path / "four" / "brokerIdentity").write_text("DefaultCluster#broker-a#9")
        four = await brokers.start("four")
        await until(lambda: "does not know broker id 9" in four.election.problem, "refusal")

        # A master whose controller is gone accepts nothing, as soon as the connection breaks.
        controllers[0].kill()
        await until(lambda: not two.serving, "fenced master", 3)
        await until(lambda: two.fenced, "decision")
        assert "this master is fenced" in two.machine.problem(two.now) and two.role == "master"
        running(controllers[0].again())
        await until(lambda: two.serving, "serving master")

    simulate(tmp_path, controllers, main)


@pytest.mark.long
@pytest.mark.parametrize("start", [start_controllers, start_jraft_controllers], ids=["dledger", "jraft"])
def test_the_leader_of_three_controllers_dies(running, tmp_path, start):
    controllers = start(running, tmp_path, 3)

    async def main(brokers):
        master = await brokers.start("one", Fencing.FAILSAFE)
        await until(lambda: master.serving, "master")
        slave = await brokers.start("two")
        await joined(master, slave)
        leader = next(each for each in controllers if each.address == master.engine.leader)
        leader.kill()
        began, gap = master.now, 0.0
        while master.engine.leader in ("", leader.address):
            gap += 0.05 * (not master.serving)
            assert master.now < began + 60
            await asyncio.sleep(0.05)  # real time: what is measured
        print(f"{master.now - began:.1f} s without a leading controller, {gap:.1f} s without a master")
        assert gap < 0.5 and master.machine.epoch == 1

        # The new leader knows of both brokers, so the next death is noticed.
        await master.stop()
        await until(lambda: slave.serving, "new master", detail=lambda: str(slave.events))

    simulate(tmp_path, controllers, main)
