"""Brokers go from fixed roles to elected ones, and back, and keep their data."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import ELECTED, Brokers, elected, leads, members, send
from ha_pairs import SETTINGS, end, log_of, put, simulate_pair

from gantrymq.interfaces import LogRange
from gantrymq.model.role import Role
from gantrymq.model.topic import TopicConfig
from gantrymq_replication.election.epochs import Epoch, EpochList
from gantrymq_replication.log_comparison import elected_comparison
from gantrymq_testing.cluster import Cluster


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main: simulate_pair(lambda pair: main(Brokers(pair, monkeypatch)))


def epochs(cluster):
    return [tuple(each) for each in elected(cluster).log.epochs.entries]


def epoch_file(brokers, name):
    path, files = Path(f"/{name}/store/epochFileCheckpoint"), brokers.pair.world.files
    return files.read(path) if files.stat(path) is not None else None


async def fixed_pair(brokers, behind=0):
    """Fill a master and a slave of fixed roles, and stop them; the slave lacks the last *behind* messages."""
    master = await brokers.pair.master("one")
    master.broker.topics.put(TopicConfig("Orders", 4, 4))
    slave = await brokers.pair.slave(master, "two")
    await put(master, 40, 3000)
    await brokers.pair.equal(master, slave)
    if behind:
        await slave.stop()
        await put(master, behind, 3000)
    log = await log_of(master)
    await slave.stop()
    await master.stop()
    return log


async def fixed_master(brokers, name, count):
    """Let a broker be the master with fixed roles for *count* messages."""
    fixed = await brokers.pair.master(name)
    assert epoch_file(brokers, name) is None
    await put(fixed, count)
    await fixed.stop()


async def master(brokers, name="one"):
    one = await brokers.start(name)
    await brokers.until(lambda: leads(one), "master")
    return one


async def both_elected(brokers):
    one = await master(brokers)
    two = await brokers.start("two")
    await brokers.until(lambda: members(one) == {1, 2}, "set of two")
    return one, two


async def stopped_set(brokers):
    """Elect two brokers, fill them and stop them."""
    one, two = await both_elected(brokers)
    await put(one, 20)
    await brokers.until(lambda: end(two) == end(one), "copy")
    await two.stop()
    await one.stop()
    assert epoch_file(brokers, "one") == epoch_file(brokers, "two") != None  # noqa: E711 (a chain)


@pytest.mark.parametrize("behind", [0, 25])
def test_a_slave_keeps_its_log(run, behind):
    async def main(brokers):
        log = await fixed_pair(brokers, behind)
        length = len(log[1])
        one = await master(brokers)
        assert epochs(one) == [(0, 0), (1, length)] and await log_of(one) == log
        two = await brokers.start("two")
        before, appended = end(two), []
        assert 65536 < before <= length
        two.store.raw_log.on_appended(appended.append)
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        assert await log_of(two) == log and (not behind or min(appended) > before)
        await put(one, 1)
        await brokers.until(lambda: end(two) == end(one), "copy")
        assert epoch_file(brokers, "one") == epoch_file(brokers, "two")
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        assert await send(two) == 0

    run(main)


def test_a_former_slave_waits_for_its_master(run):
    async def main(brokers):
        log = await fixed_pair(brokers, behind=5)
        two = await brokers.start("two")
        await brokers.pair.world.clock.sleep(5)
        assert two.broker.role.current is Role.REPLICA
        assert "copied as a slave of fixed roles" in elected(two).machine.problem(elected(two).now)
        one = await master(brokers)
        await brokers.until(lambda: len(members(one)) == 2, "set of two")
        assert await log_of(two) == log
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")

    run(main)


def test_a_former_slave_is_elected_after_a_start_as_the_master(run):
    async def main(brokers):
        log = await fixed_pair(brokers)
        await fixed_master(brokers, "two", 0)
        two = await master(brokers, "two")
        assert await log_of(two) == log

    run(main)


def test_records_before_the_first_epoch_are_sent_too(run):
    async def main(brokers):
        log = await fixed_pair(brokers)
        one = await master(brokers)
        await one.stop()
        text = b"1\n0\n1-%d\n" % len(log[1])  # as a RocketMQ master of fixed roles writes it when it is elected
        brokers.pair.world.files.replace(Path("/one/store/epochFileCheckpoint"), text)
        one = await master(brokers)
        assert [each[0] for each in epochs(one)] == [0, 1, 2]
        three = await brokers.start("three")
        await brokers.until(lambda: len(members(one)) == 2, "set of two")
        assert await log_of(three) == log

    run(main)


async def refused(brokers, says):
    """Elect broker one and start broker two, which refuses with a sentence and changes nothing."""
    one = await master(brokers)
    two = await brokers.start("two")
    before = await log_of(two)
    await brokers.until(lambda: elected(two).copy.problem.startswith("master "), "problem")
    assert says in elected(two).copy.problem
    await brokers.pair.world.clock.sleep(6)
    assert says in elected(two).copy.problem and await log_of(two) == before and members(one) == {1}
    assert epoch_file(brokers, "two") is None


def test_a_slave_with_more_than_the_master_is_not_changed(run):
    async def main(brokers):
        await fixed_pair(brokers)
        await fixed_master(brokers, "two", 1)
        await refused(brokers, "after the end")

    run(main)


def test_a_slave_with_another_log_is_not_changed(run):
    async def main(brokers):
        await fixed_pair(brokers)
        await fixed_master(brokers, "one", 9)
        await fixed_master(brokers, "two", 5)
        await refused(brokers, "it was written by another master. They may be the last copies")

    run(main)


def test_a_damaged_slave_is_called_damaged(run):
    async def main(brokers):
        await fixed_pair(brokers)
        files = brokers.pair.world.files
        path = Path("/two/store/commitlog/00000000000000065536")
        data = bytearray(files.read(path))
        data[3000:5000] = bytes(2000)
        files.replace(path, bytes(data))
        await refused(brokers, "and has no record. Start this broker with brokerRole=SLAVE first")

    run(main)


def test_back_to_fixed_roles_and_elected_again(run):
    async def main(brokers):
        await stopped_set(brokers)
        fixed = await brokers.pair.master("one")
        slave = await brokers.pair.slave(fixed, "two")
        assert epoch_file(brokers, "one") is None and epoch_file(brokers, "two") is None
        await put(fixed, 10)
        await brokers.pair.equal(fixed, slave)
        log = await log_of(fixed)
        await slave.stop()
        await fixed.stop()

        one, two = await both_elected(brokers)
        assert await log_of(one) == await log_of(two) == log
        epoch = elected(one).machine.epoch
        assert epochs(one) == [(0, 0), (epoch, len(log[1]))] and epoch > 1
        await put(one, 1)
        await brokers.until(lambda: end(two) == end(one), "copy")
        assert epoch_file(brokers, "one") == epoch_file(brokers, "two")

    run(main)


def test_epochs_do_not_hide_what_differs_since_fixed_roles(run):
    async def main(brokers):
        await stopped_set(brokers)
        await fixed_master(brokers, "one", 10)
        await fixed_master(brokers, "two", 10)
        await refused(brokers, "it was written by another master")

    run(main)


def test_a_member_that_was_away_meanwhile_is_compared(run):
    async def main(brokers):
        await stopped_set(brokers)
        await fixed_master(brokers, "one", 10)
        one = await master(brokers)
        two = await brokers.start("two")
        assert [each[0] for each in epochs(two)] == [1] and epochs(one)[0] == (0, 0)
        await brokers.until(lambda: epochs(two) == epochs(one), "the epochs of the master")
        assert await log_of(two) == await log_of(one)

    run(main)


def test_what_the_set_has_not_confirmed_is_cut(run):
    async def main(brokers):
        log = await fixed_pair(brokers)
        one, two = await both_elected(brokers)
        brokers.clients["one"].down = True
        await elected(one).port.close()
        await elected(one).port.end_all("the test")
        assert await send(one) == 12 and end(one) > end(two)
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        one = await brokers.start("one")
        assert epochs(one) == [(0, 0), (1, len(log[1]))] and end(one) > end(two)
        await brokers.until(lambda: members(two) == {1, 2}, "set of two")
        assert await log_of(one) == await log_of(two)
        await put(two, 1)
        await brokers.until(lambda: end(one) == end(two), "copy")
        assert epochs(one) == epochs(two) and elected(two).machine.epoch == 2
        assert epochs(one) == [(0, 0), (1, len(log[1])), (2, len(log[1]))]

    run(main)


def files_below(files, folder):
    found = {}
    for name in files.list(folder):
        path = folder / name
        below = files.stat(path).is_dir
        found |= files_below(files, path) if below else {path: files.read(path)}
    return found


async def joins_after_a_kill(brokers, one, store, number):
    """Start broker two on the files *store*, kill it at a call, and start it again; return whether it was killed."""
    pair, files = brokers.pair, brokers.pair.world.files
    for path in files_below(files, Path("/two")).keys() - store.keys():
        files.remove(path)
    for path, data in store.items():
        files.replace(path, data)
    process = pair.process("10.0.0.9")
    two = Cluster(process.world, Path("/two"), {**SETTINGS, **ELECTED})
    starting = process.run(two.start())
    process.kill_at_file_call(number)
    until = pair.world.clock.monotonic() + 3
    while process.alive and pair.world.clock.monotonic() < until:
        await pair.world.clock.sleep(0.01)
    killed = not process.alive
    process.kill()
    starting.cancel()  # a start that waits for its id waits for ever in a killed process
    await asyncio.gather(starting, return_exceptions=True)
    await brokers.until(lambda: members(one) == {1}, "set of one")
    two = await brokers.start("two")
    await brokers.until(lambda: len(members(one)) == 2 and elected(two).copy.followed, f"set after call {number}")
    await brokers.until(lambda: epochs(two) == epochs(one), f"epochs after call {number}")
    assert await log_of(two) == await log_of(one), number
    await two.stop()
    await brokers.until(lambda: members(one) == {1}, "set of one")
    return killed


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.slow)])
def test_a_kill_at_any_step_loses_nothing(run, step):
    async def main(brokers):
        log = await fixed_pair(brokers, behind=3)
        store = files_below(brokers.pair.world.files, Path("/two"))
        one = await master(brokers)
        number = 1
        while await joins_after_a_kill(brokers, one, store, number):
            number += step
        print(f"killed at {number // step} of {number} calls")
        assert number > 30 and await log_of(one) == log

    run(main)


def sides(own, master_list, **more):
    given = {"log": LogRange(0, 200_000), "master_end": 300_000, "kept": 0, "durable": None, **more}
    own, master_list = EpochList(Epoch(*each) for each in own), [Epoch(*each) for each in master_list]
    return elected_comparison(given["log"], own, master_list, given["master_end"], given["kept"], given["durable"])


ELECTED_SINCE = [(0, 0), (5, 250_000)]


@pytest.mark.parametrize(
    ("own", "more", "least"),
    [
        ([], {}, 200_000),
        ([(0, 0)], {}, 200_000),
        ([(0, 0), (1, 150_000)], {}, 150_000),
        ([(0, 0), (1, 150_000)], {"kept": 180_000}, 180_000),
        ([(0, 0), (1, 150_000)], {"log": LogRange(160_000, 200_000)}, 200_000),  # fixed roles are deleted
        ([(1, 0), (2, 100_000)], {}, 200_000),  # of elected roles, before the master had fixed ones
    ],
)
def test_what_is_compared(own, more, least):
    found = sides(own, ELECTED_SINCE, **more)
    low = more.get("log", LogRange(0, 0)).min_offset
    assert (found.start, found.least, found.end) == (max(least - 65536, low), least, 200_000)


def test_where_a_comparison_begins_and_ends():
    assert sides([], ELECTED_SINCE, durable=1000).start == 1000
    assert sides([(0, 0)], ELECTED_SINCE, durable=1000).start == 200_000 - 65536
    assert sides([], ELECTED_SINCE, log=LogRange(0, 500)).start == 1
    found = sides([], ELECTED_SINCE, master_end=150_000)
    assert found.end == 150_000 and found.open and not found.fails
    assert found.compare(b"x" * (150_000 - found.start), b"x" * (150_000 - found.start))
    assert found.fails and not found.differs


@pytest.mark.parametrize(
    ("own", "master_list", "more"),
    [
        ([], ELECTED_SINCE, {"log": LogRange(0, 0)}),
        ([(0, 0), (5, 250_000)], ELECTED_SINCE, {"log": LogRange(0, 260_000)}),
        ([(1, 0)], [(1, 0), (2, 9)], {}),
        ([(1, 0)], [(2, 0)], {}),
        ([(1, 0)], [], {}),
    ],
)
def test_epochs_decide_where_they_can(own, master_list, more):
    assert sides(own, master_list, **more) is None
