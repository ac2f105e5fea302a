"""Brokers whose roles are elected by an etcd in memory, in a simulated world."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import LEASE_S, clear, elected, leads, members, send, simulate_brokers, two_in_sync
from ha_pairs import end, ha_address, log_of, put, service

from gantrymq.errors import RequestRefused, ServiceNotAvailable
from gantrymq.interfaces import Cleaning
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq_replication.election.auto_switch import SlaveHandshake, SlaveSide
from gantrymq_replication.election.broker_id import IdentityFiles
from gantrymq_replication.election.engine import EngineRefused
from gantrymq_replication.ha_port import MOST_SLAVES
from gantrymq_replication.master_broker import MasterBroker
from gantrymq_replication.state import election_members
from gantrymq_replication.status import StatusService


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main, seed=1: simulate_brokers(main, monkeypatch, seed)


def test_a_record_is_sent_and_reported_in_the_step_that_takes_it(run, monkeypatch):
    seen = []

    class Poll:
        def __init__(self, world, window_s):
            pass

        def happened(self, peer, began_s, ended_s, *, alone):
            seen.append((type(peer).__name__, alone))

    monkeypatch.setattr("gantrymq_replication.election.serving.BusyPoll", Poll)
    monkeypatch.setattr("gantrymq_replication.appending.BusyPoll", Poll)

    async def main(brokers):
        one, _ = await two_in_sync(brokers, flushDiskType="ASYNC_FLUSH")
        assert await send(one) == 0  # creates the topic
        await brokers.pair.world.clock.sleep(0.1)
        seen.clear()
        assert await send(one) == 0
        assert seen[:2] == [("LogSending", True), ("LogAppending", True)]

    run(main)


def test_both_disks_sync_at_the_same_time_and_both_are_waited_for(run, monkeypatch):
    store = pytest.importorskip("gantrymq_storage_mmap.store").MmapStore
    flushed, slow = store.flushed, {}  # by the folder of the store: what its syncs wait for

    async def late(self, log_offset):
        await slow[self._root].wait()
        await flushed(self, log_offset)

    monkeypatch.setattr(store, "flushed", lambda self, end: (late if self._root in slow else flushed)(self, end))

    async def main(brokers):
        one, two = await two_in_sync(brokers, flushDiskType="SYNC_FLUSH")
        assert await send(one) == 0
        for each in (one, two):
            synced = slow[each.store._root] = asyncio.Event()
            sending = asyncio.ensure_future(send(one))
            await brokers.pair.world.clock.sleep(0.5)
            assert end(one) == end(two)
            assert elected(one).confirmed < end(one) and not sending.done()
            synced.set()
            assert await sending == 0

    run(main)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_planned_stop_hands_all_over(run, flush):
    async def main(brokers):
        one, two = await two_in_sync(brokers, flushDiskType=flush)
        await put(one, 100)
        log = await log_of(one)
        await one.stop()
        assert await brokers.until(lambda: leads(two), "successor") < 1
        assert await log_of(two) == log
        assert two.broker.role.current is Role.MASTER
        assert two.broker.registration.broker_id == 0
        await put(two, 10)

    run(main)


def test_name_servers_always_name_a_master_during_a_planned_stop(run):
    async def main(brokers):
        names = await brokers.pair.start("names", brokerName="another")
        one, two = await two_in_sync(brokers, namesrv=names.namesrv)
        await brokers.pair.world.clock.sleep(1)
        three = await brokers.start("three", namesrv=names.namesrv)
        await brokers.until(lambda: members(one) == {1, 2, 3}, "set of three")
        stopping = asyncio.ensure_future(one.stop())
        sets = set()
        while not stopping.done():
            sets.add(tuple(max(members(two), members(three), key=len)))
            assert [int(each) for each in await brokers.registered(names)].count(0) == 2  # with that of `another`
        assert leads(two)
        assert sets - {()} == {(2, 3)}  # nobody waits for a broker that stops
        assert sorted(int(each) for each in await brokers.registered(names)) == [0, 0, 3]

    run(main)


def test_a_master_without_etcd_fences_itself_before_another_is_elected(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        brokers.clients["one"].down = True
        await brokers.until(lambda: not leads(one), "fence", LEASE_S)
        assert not leads(two)
        with pytest.raises(ServiceNotAvailable, match="this master is fenced"):
            await send(one)
        await brokers.until(lambda: leads(two), "successor", LEASE_S + 4)
        assert end(two) == end(one)
        brokers.clients["one"].down = False
        await brokers.until(lambda: elected(one).copy.followed and members(two) == {1, 2}, "set of two")
        assert await send(two) == 0
        assert await log_of(one) == await log_of(two)

    run(main)


def test_what_a_fenced_master_stored_is_not_acknowledged(run):
    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        machine = elected(one).machine
        machine._deadline = float("-inf")  # as after a suspension: no tick has run
        elected(one).broker.role.guard(None)  # it was accepted before
        assert await send(one) == 12

    run(main)


def test_a_lonely_master_refuses_messages_with_min_in_sync_replicas(run):
    async def main(brokers):
        one = await brokers.start("one", minInSyncReplicas=2)
        await brokers.until(lambda: elected(one).leads, "master")
        await brokers.pair.world.clock.sleep(0.5)
        with pytest.raises(ServiceNotAvailable, match="in-sync replicas not enough"):  # clients wait for slaves
            await send(one)
        await brokers.pair.world.clock.sleep(2)
        with pytest.raises(RequestRefused, match="in-sync replicas not enough: 1 in sync, minInSyncReplicas=2"):
            await send(one)
        await brokers.start("two", minInSyncReplicas=2)
        await brokers.until(lambda: leads(one), "two copies")
        assert await send(one) == 0

    run(main)


def test_a_broker_without_an_id_tells_the_same_members_as_others(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        brokers.etcd.down = True
        two = await brokers.start("two")
        await brokers.until(lambda: elected(two).election.problem, "reason")
        known, unknown = election_members(elected(one)), election_members(elected(two))
        assert [*known] == [*unknown]
        assert (unknown["ownId"], unknown["epoch"], unknown["master"], unknown["syncStateSet"]) == (0, 0, None, [])
        assert unknown["problem"] == unknown["apart"] == elected(two).election.problem

    run(main)


def test_an_elected_master_counts_connections_that_it_refuses(run, monkeypatch, caplog):
    monkeypatch.setattr("gantrymq_replication.ha_port.MOST_SLAVES", 1)

    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        host, port = ha_address(one).rsplit(":", 1)
        before = elected(one).port.refusals.count
        for _ in range(3):
            with contextlib.suppress(ConnectionResetError):  # while it connects or after that
                transport, _ = await brokers.pair.world.network.connect(host, int(port), asyncio.Protocol)
                transport.abort()
        await brokers.until(lambda: elected(one).port.refusals.count == before + 3, "three refusals")
        assert members(one) == {1, 2}

    run(main)
    refused = [each for each in caplog.records if "1 slaves are connected" in each.getMessage()]
    assert len(refused) == 1


@pytest.fixture
def killed(monkeypatch):
    """Let brokers that are stopped end without a word, as if they were killed."""

    async def stops(self, address, broker_id):
        pass

    monkeypatch.setattr(MasterBroker, "stops", stops)


def away(cluster):
    """The ids of the brokers that a master misses."""
    return [each["brokerId"] for each in election_members(elected(cluster))["away"]]


def test_a_broker_that_is_stopped_is_not_missed(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await two.stop()
        await brokers.until(lambda: members(one) == {1}, "set of one")
        assert away(one) == []
        two = await brokers.start("two")
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        await brokers.pair.world.clock.sleep(5)
        assert away(two) == []
        one = await brokers.start("one")
        await brokers.until(lambda: members(two) == {1, 2}, "set of two")
        await elected(two).port.end_all("the test")
        assert away(two) == [1]  # it has not said that it stops since it came back

    run(main)


def test_a_broker_that_is_gone_for_good_is_forgotten(run, killed):
    async def main(brokers):
        one, two = await two_in_sync(brokers)

        async def refusal(broker_id, master=one):
            with pytest.raises(EngineRefused) as refused:
                await elected(master).forget(broker_id)
            return str(refused.value)

        assert "broker id 2 is in the in-sync set 1, 2, which needs it" in await refusal(2)
        assert "broker id 1 is in the in-sync set" in await refusal(1)
        assert "no broker of this set has the id 3" in await refusal(3)
        assert "this broker is not the master" in await refusal(1, two)
        learner = await brokers.start("learner", asyncLearner=True)
        await brokers.until(lambda: 3 in elected(one).machine.set.followers, "learner")
        assert "broker id 3 is connected to this master: stop it first" in await refusal(3)
        brokers.clients["learner"].down = True  # so that its record stays
        await learner.stop()
        await brokers.until(lambda: away(one) == [3], "loss")
        assert "broker id 3 is alive in etcd: stop it, and try again 10 s later" in await refusal(3)
        await brokers.pair.world.clock.sleep(10)
        await elected(one).forget(3)
        assert away(one) == []

    run(main)


def test_a_master_tells_which_slaves_it_misses(run, killed):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        assert election_members(elected(one))["away"] == []
        await two.stop()
        await brokers.until(lambda: members(one) == {1}, "set of one")
        [missed] = election_members(elected(one))["away"]
        assert missed == {"brokerId": 2, "timestamp": pytest.approx(one.world.clock.now_ms(), abs=30_000)}
        two = await brokers.start("two")
        await brokers.until(lambda: members(one) == {1, 2}, "set of two")
        assert election_members(elected(one))["away"] == []
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        assert away(two) == [1]

    run(main)


def follow_problem(cluster):
    """Why a broker does not follow a master, as request 907 says it."""
    asked = Command(RequestCode.GET_BROKER_HA_STATUS)
    found = json.loads(service(cluster, StatusService).status(asked, None).payload)
    return found["haClientRuntimeInfo"]["problem"]


def test_a_broker_without_a_master_does_not_say_that_it_follows(run):
    async def main(brokers):
        learner = await brokers.start("learner", asyncLearner=True)
        await brokers.until(lambda: elected(learner).machine is not None, "id")
        assert "this broker is a learner" in follow_problem(learner)
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one) and elected(learner).copy.followed is not None, "master")
        assert follow_problem(one) == follow_problem(learner) == ""

    run(main)


def test_a_learner_is_never_elected_nor_waited_for(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        learner = await brokers.start("learner", asyncLearner=True)
        await put(one, 10)
        await brokers.until(lambda: end(learner) == end(one), "copy")
        await brokers.pair.world.clock.sleep(5)
        assert members(one) == {1}
        await one.stop()
        await brokers.pair.world.clock.sleep(LEASE_S + 3)
        assert learner.broker.role.current is Role.REPLICA

    run(main)


@pytest.mark.parametrize("asks", [True, False])
def test_a_slave_that_is_older_than_the_first_file_says_so_and_asks_seldom(run, caplog, monkeypatch, asks):
    """*asks*: the master answers where its log begins; else only the master's log has the reason."""
    if not asks:
        monkeypatch.setattr(MasterBroker, "first_offset", lambda *_: asyncio.sleep(0))

    async def main(brokers):
        one, two = await two_in_sync(brokers, fileReservedTime=0)
        await put(one, 20)
        await brokers.until(lambda: end(one) == end(two), "equal ends")
        await two.stop()
        old = end(one)
        await put(one, 600)
        await one.store.clean(Cleaning.EXPIRED_LOG)
        first = end(one) // 65536 * 65536
        await brokers.until(lambda: one.store.raw_log.log_range().min_offset == first > old, "deleted files")
        two = await brokers.start("two", fileReservedTime=0)
        said = f"this log ends at {old}, and the master has deleted what follows: its log begins at {first}."
        said = said if asks else "connection reset by peer"
        await brokers.until(lambda: said in elected(two).copy.problem, "reason")
        before = elected(one).port.refusals.count
        await brokers.pair.world.clock.sleep(60)
        await put(one, 20)
        await brokers.pair.world.clock.sleep(60)
        assert elected(one).port.refusals.count - before < (10 if asks else 60)
        assert said in elected(two).copy.problem and elected(two).election.problem == ""
        gone = [each for each in caplog.messages if each.startswith("slave ") and "is gone" in each]
        assert len([each for each in gone if "broker id" not in each]) == 1
        if asks:
            assert "move everything but brokerIdentity out of its store folder" in elected(two).copy.problem
            await two.stop()
            files, identity = brokers.pair.world.files, Path("/two/store/brokerIdentity")
            kept = files.read(identity)
            clear(files, Path("/two/store"))
            files.replace(identity, kept)
            two = await brokers.start("two", fileReservedTime=0)
            await brokers.until(lambda: members(one) == {1, 2} and end(one) == end(two), "set of two")
            assert two.store.raw_log.log_range().min_offset == first

    run(main)


def test_a_broker_without_an_id_is_not_registered(run):
    async def main(brokers):
        brokers.etcd.down = True
        one = await brokers.start("one")
        states = one.broker.registration.states
        await brokers.until(lambda: "has an id in its set: etcd does not answer" in str(states()), "reason")
        assert await brokers.registered(one) == []
        brokers.etcd.down = False
        await brokers.until(lambda: leads(one), "master")
        await brokers.until(lambda: [*states().values()] == [None], "registration")
        assert await brokers.registered(one) == [0]

        # After a restart it has its id, and registers as a slave while the engine is gone.
        brokers.etcd.down = True
        await one.restart()
        assert [*one.broker.registration.states().values()] == [None]  # when its start ends
        assert await brokers.registered(one) == [1]

    run(main)


async def copy_of_two(brokers):
    """Start a broker with the identity of broker id 2."""
    two, files = brokers.all["two"], brokers.pair.world.files
    names = two.broker.registration
    path = Path("/copy") / elected(two).rules.identity.relative_to("/two")
    files.make_dirs(path.parent)
    IdentityFiles(files, path, names.cluster, names.broker_name).grant(2)
    return await brokers.start("copy", namesrv=two.settings.text("namesrvAddr"))


def test_a_copy_of_a_living_slave_takes_no_place_in_the_route(run):
    async def main(brokers):
        names = await brokers.pair.start("names", brokerName="another")
        _, two = await two_in_sync(brokers, namesrv=names.namesrv)
        found = await brokers.addresses(names)
        assert (2, two.broker.registration.address) in found
        copied = await copy_of_two(brokers)
        await brokers.until(lambda: elected(copied).election.refused, "refusal")
        states = copied.broker.registration.states
        await brokers.until(lambda: "broker id 2 is alive at" in str(states()), "reason")
        await brokers.pair.world.clock.sleep(5)
        assert await brokers.addresses(names) == found
        brokers.clients["copy"].down = True  # it cannot ask any more, and knows
        await brokers.pair.world.clock.sleep(5)
        assert await brokers.addresses(names) == found

    run(main)


async def strangers(pair, cluster, count):
    """Open connections of another host that say nothing; return how many are open."""
    process, ends = pair.process("10.9.9.9"), []
    host, port = ha_address(cluster).rsplit(":", 1)

    class Stranger(asyncio.Protocol):
        def connection_made(self, transport):
            ends.append(self)

        def connection_lost(self, exc):
            ends.remove(self)

    for _ in range(count):
        await process.run(process.world.network.connect(host, int(port), Stranger))
    await pair.world.clock.sleep(0.1)
    return len(ends)


def test_a_slave_gets_a_place_among_silent_connections(run, caplog):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        assert await strangers(brokers.pair, one, 3 * MOST_SLAVES) == MOST_SLAVES
        await brokers.start("two")
        await brokers.until(lambda: members(one) == {1, 2}, "set of two", 2)
        await strangers(brokers.pair, one, 3 * MOST_SLAVES)
        assert members(one) == {1, 2} and await send(one) == 0

    run(main)
    gone = [each.getMessage() for each in caplog.records if "10.9.9.9" in each.getMessage()]
    assert len(gone) == 1 and "it reported nothing within 10 s" in gone[0]


def test_an_http_request_counts_as_no_slave(run, caplog):
    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        reader, writer = await brokers.pair.connect(one)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await brokers.until(lambda: "sent an HTTP request; it is closed" in caplog.text, "closed connection")
        assert elected(one).port.refusals.count == 0 and election_members(elected(one))["away"] == []

    caplog.set_level("INFO")
    run(main)


@pytest.mark.parametrize(
    ("broker_id", "problem"),
    [
        (99, "no broker of this set has the id 99"),
        (0, "it says that it is broker id 0, and ids in a set begin with 1"),
        (-1, "it says that it is broker id -1, and ids in a set begin with 1"),
    ],
)
def test_an_id_that_no_broker_has_is_not_served(run, caplog, broker_id, problem):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        asked = []
        has = elected(one).engine.has
        elected(one).engine.has = lambda each: asked.append(each) or has(each)
        for _ in range(8):
            reader, writer = await brokers.pair.connect(one)
            writer.write(SlaveSide(SlaveHandshake(broker_id, False, False)).handshake())
            writer.write(SlaveSide(SlaveHandshake(broker_id, False, False)).report(end(one)))
            with pytest.raises(ConnectionResetError):
                while True:
                    await reader.read(1000)
            writer.close()
            await brokers.pair.world.clock.sleep(1)
        assert len(asked) <= 1
        assert election_members(elected(one))["away"] == [] and members(one) == {1, 2}
        assert await send(one) == 0
        await two.restart()
        await brokers.until(lambda: members(one) == {1, 2} and elected(one).port.connections, "set of two")

    run(main)
    gone = [each.getMessage() for each in caplog.records if problem in each.getMessage()]
    assert len(gone) == 1


def shown(cluster):
    """The number of messages that consumers may see."""
    return sum(cluster.store.bounds(Queue("Orders", queue_id)).max_offset for queue_id in range(4))


def test_a_broker_shows_nothing_that_was_never_confirmed_after_a_restart(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, minInSyncReplicas=2, slaveTimeout=500)
        await elected(one).port.close()
        await elected(one).port.end_all("the test")
        await put(one, 3)
        await two.stop()
        await one.stop()
        brokers.etcd.down = True
        one = await brokers.start("one", minInSyncReplicas=2)
        assert (shown(one), end(one) > 0) == (0, True)

    run(main)


@pytest.mark.parametrize("follows", [False, True])
def test_a_restarted_broker_shows_what_the_set_has_confirmed_only(run, follows):
    async def main(brokers):
        one, two = await two_in_sync(brokers, minInSyncReplicas=2, slaveTimeout=500)
        await put(one, 5)
        await brokers.pair.world.clock.sleep(1.5)  # the confirm offset is kept
        await elected(one).port.close()
        await elected(one).port.end_all("the test")
        await put(one, 3)
        assert (shown(one), end(one) > end(two)) == (5, True)
        brokers.etcd.down = not follows
        if not follows:
            await two.stop()
        await one.stop()
        if follows:
            await brokers.until(lambda: elected(two).leads, "successor")
        brokers.etcd.down = True
        one = await brokers.start("one", minInSyncReplicas=2)
        assert shown(one) == 5
        brokers.etcd.down, brokers.clients["one"].down = False, True
        await brokers.pair.world.clock.sleep(3)
        assert shown(one) == 5
        brokers.clients["one"].down = False
        if follows:
            await brokers.until(lambda: members(two) == {1, 2} and leads(two), "set of two")
            assert (shown(one), end(one)) == (5, end(two))
            await put(two, 3)
            await brokers.until(lambda: shown(one) == 8, "new messages")
        else:
            await brokers.until(lambda: elected(one).leads, "master")
            assert shown(one) == 5
            two = await brokers.start("two", minInSyncReplicas=2)
            await brokers.until(lambda: shown(one) == shown(two) == 8, "the rest")

    run(main)


def test_steps_of_the_wall_clock_elect_nobody(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        for days in (1, -2):
            brokers.pair.world.clock._start_us += days * 86_400_000_000
            assert await send(one) == 0
            await brokers.pair.world.clock.sleep(2 * LEASE_S)
            assert await send(one) == 0
        assert leads(one) and elected(one).machine.epoch == 1 and members(one) == {1, 2}
        assert await log_of(one) == await log_of(two)

    run(main)
