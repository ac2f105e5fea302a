"""The confirm offset of a broker that was the master, and of one whose log was lost in part."""

from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import LEASE_S, elected, leads, members, send, simulate_brokers, two_in_sync
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


def lose_tail(files, size):
    """Zero the last bytes of the log of broker one, as a disk that lost them."""
    path = Path("/one/store/commitlog/00000000000000000000")
    content, confirmed = files.read(path), int(files.read(Path("/one", CONFIRMED)))
    files.replace(path, content[: confirmed - size] + bytes(len(content) - confirmed + size))
    for folder in ("/one/store/consumequeue", "/one/store/index"):
        clear(files, Path(folder))
    files.remove(Path("/one/store/checkpoint"))


def clear(files, folder):
    for name in files.list(folder):
        if files.stat(folder / name).is_dir:
            clear(files, folder / name)
        else:
            files.remove(folder / name)


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
