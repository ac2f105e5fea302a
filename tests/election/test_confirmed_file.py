"""The confirm offset of a broker that was the master, and of one whose log was lost in part."""

from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import LEASE_S, clear, elected, leads, members, send, simulate_brokers, two_in_sync
from elected_group import simulate_group
from ha_pairs import end, put

CONFIRMED = "store/plugins/replication/confirmed"


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main, seed=1: simulate_brokers(main, monkeypatch, seed)


def test_a_master_that_is_replaced_knows_what_it_has_acknowledged(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 3)
        await brokers.pair.world.clock.sleep(1.5)
        for _ in range(5):  # within the second after the confirm offset was kept
            assert await send(one) == 0
        await elected(one).election.hand_over()
        await brokers.until(lambda: leads(two), "successor", 0.5)
        assert elected(one).log.confirmed == end(one)

    run(main)


def lose_tail(files, size, root="/one"):
    """Zero the last bytes of the log of a broker, as a disk that lost them."""
    path = Path(root, "store/commitlog/00000000000000000000")
    content, confirmed = files.read(path), int(files.read(Path(root, CONFIRMED)))
    files.replace(path, content[: confirmed - size] + bytes(len(content) - confirmed + size))
    for folder in ("store/consumequeue", "store/index"):
        clear(files, Path(root, folder))
    files.remove(Path(root, "store/checkpoint"))


def test_a_log_that_lacks_what_was_confirmed_is_not_elected(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        await put(one, 10)
        await one.stop()
        lose_tail(brokers.pair.world.files, 100)
        one = await brokers.start("one")
        await brokers.pair.world.clock.sleep(2 * LEASE_S)
        problem = elected(one).machine.problem(elected(one).now)
        assert not leads(one) and "it lacks acknowledged messages" in problem
        await one.stop()
        brokers.pair.world.files.remove(Path("/one", CONFIRMED))
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")

    run(main)


def test_such_a_log_is_completed_by_a_master(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        lose_tail(brokers.pair.world.files, 100)
        one = await brokers.start("one")
        await brokers.until(lambda: members(two) == {1, 2} and end(one) == end(two), "set of two")
        assert not elected(one).machine.unelectable
        await two.stop()
        await brokers.until(lambda: leads(one), "successor")

    run(main)


NEEDED = {"minInSyncReplicas": 2, "flushDiskType": "ASYNC_FLUSH"}


async def power_cut(group, *lost, knows=True):
    """End all members at once; each loses as many bytes of its log, and if not *knows* its last confirm offset."""
    await group.until(lambda: all(each.elected.log._kept == end(each.cluster) for each in group.all), "kept offsets")
    for each in group.all:
        each.process.kill()
    for each, size in zip(group.all, lost, strict=True):
        if size:
            lose_tail(group.pair.world.files, size, f"/{each.host}")
        if size or not knows:
            group.pair.world.files.replace(Path(f"/{each.host}", CONFIRMED), b"1000")


async def sent(group, count):
    master = await group.next_master()
    for number in range(count):
        assert (await master.send(b"%d" % number)).unconfirmed is None


@pytest.mark.parametrize(("lost", "best"), [((4000, 2000, 0), 2), ((4000, 0, 2000), 1), ((4000, 2000, 2000), 1)])
def test_after_a_power_cut_the_first_member_waits_and_the_longest_log_is_elected(lost, best, monkeypatch):
    async def main(group):
        await sent(group, 50)
        whole = end(group.all[0].cluster)
        await power_cut(group, *lost, knows=False)
        first = group.all[0]
        await first.start()
        await group.clock.sleep(10 * LEASE_S)
        problem = first.elected.machine.problem(group.clock.monotonic())
        assert not first.leads and "broker id 1 did not stop cleanly" in problem and "for broker id 2, 3," in problem
        await group.all[best].start()
        assert await group.next_master() is group.all[best]
        await group.all[3 - best].start()
        await group.complete()
        assert end(group.all[best].cluster) >= whole - min(lost) - 200  # whole records only
        assert [await each.bodies("T") for each in group.all].count(await first.bodies("T")) == 3
        if not min(lost):
            assert len(await first.bodies("T")) == 50
        assert all(each.elected.log.whole for each in group.all)
        await sent(group, 1)

    simulate_group(main, monkeypatch, count=3, **NEEDED)


def test_a_member_with_more_of_what_was_confirmed_takes_over_from_a_master_that_accepts_nothing(monkeypatch):
    async def main(group):
        await sent(group, 50)
        await power_cut(group, 4000, 0, 0)
        first, second, third = group.all
        await first.start()
        first.elected.log.whole = True  # as in a version that does not look at it
        await group.until(lambda: first.elected.leads, "lonely master")
        await second.start()
        await group.until(lambda: second.leads, "master with all", 20)
        await third.start()
        await group.complete()
        assert [len(await each.bodies("T")) for each in group.all] == [50, 50, 50]
        assert second.elected.machine.epoch == 3

    simulate_group(main, monkeypatch, count=3, **NEEDED)


def test_a_master_that_acknowledges_does_not_give_way(monkeypatch):
    async def main(group):
        await sent(group, 50)
        await power_cut(group, 4000, 4000, 0)
        first, second, third = group.all
        for each in (first, second):
            await each.start()
        await group.complete()
        await sent(group, 1)
        await third.start()
        await group.until(lambda: "the master lacks acknowledged messages" in third.elected.copy.problem, "refusal")
        await group.clock.sleep(20)
        assert first.leads or second.leads
        assert not third.elected.copy.followed and first.elected.machine.epoch == 2

    simulate_group(main, monkeypatch, count=3, **NEEDED)
