"""What the engine on etcd makes of lost answers, damaged keys, copied identities and odd names."""

import asyncio
import json
from types import SimpleNamespace

import pytest

pytest.importorskip("gantrymq_replication")

from test_etcd import BASE, LEASE_S, simulate

from gantrymq_replication.election.broker_id import IdentityFiles
from gantrymq_replication.election.engine import EngineError, EngineRefused, EngineUnreachable, Progress
from gantrymq_replication.election.etcd_client import EtcdClient, EtcdClientSettings
from gantrymq_replication.election.sync_set import Alter

NOTHING = Progress(-1, 0, 0)


async def opened(brokers, name, address="127.0.0.1:1", **rules):
    engine = brokers.engine(name, address, **rules)
    await engine.open(lambda _: None, lambda _: None)
    return engine


def lose(client, name):
    """Let the answer of the next call *name* be lost, after it had its effect."""
    call = getattr(client, name)

    async def lost(*args):
        setattr(client, name, call)
        await call(*args)
        raise EngineUnreachable("the answer is lost")

    setattr(client, name, lost)


@pytest.mark.parametrize("name", ["commit", "read"])
def test_a_lease_counts_from_its_renewal(name):
    """A broker is elected and does not learn it; the answer of its next attempt promises no more than etcd does."""

    async def main(brokers):
        engine, clock = await opened(brokers, "one"), brokers.world.clock
        await engine.renew(NOTHING)
        commit = engine._etcd.commit

        async def lost(txn):
            done = await commit(txn)
            if name == "commit":
                raise EngineUnreachable("the answer is lost")
            lose(engine._etcd, "read")
            return done

        engine._etcd.commit = lost
        with pytest.raises(EngineUnreachable):
            await engine.elect(NOTHING)
        engine._etcd.commit = commit
        await clock.sleep(4)
        answer = await engine.elect(NOTHING)
        assert answer.standing.master == 1
        (ends,) = [end for lease, (_, end) in brokers.etcd.leases.items() if lease == engine._lease]
        assert answer.asked_at + LEASE_S <= ends
        await engine.close()

    simulate(main)


def test_an_election_that_a_stop_interrupts_leaves_no_lease():
    async def main(brokers):
        broker = await brokers.start("one")
        await brokers.until(lambda: broker.machine is not None, "machine")
        lose(broker.engine._etcd, "commit")  # the member's record
        await brokers.until(lambda: BASE + "master" in brokers.etcd.keys, "master")
        assert not broker.serving
        await broker.stop(resign=True)
        brokers.brokers.clear()
        assert BASE + "master" not in brokers.etcd.keys
        assert brokers.etcd.leases == {}

    simulate(main)


DAMAGES = [
    ("state", b"{"),
    ("state", b"[]"),
    ("state", b'{"epoch": 1}'),
    ("state", b'{"epoch": 1, "setEpoch": 1, "set": ["1"]}'),
    ("master", b"1"),
    ("master", b'{"epoch": 1}'),
    ("master", b"\xff"),
    ("members/two", b"{}"),
    ("members/2", b"{}"),
    ("members/2", b'{"address": 1, "haAddress": "", "epoch": 1, "end": 1, "priority": 1}'),
]


@pytest.mark.parametrize(("key", "value"), DAMAGES)
def test_damaged_keys_are_told_and_the_watch_goes_on(key, value, caplog):
    async def main(brokers):
        broker = await brokers.start("one")
        await brokers.until(lambda: broker.serving, "master")
        before = brokers.etcd.keys.get(BASE + key)
        brokers.etcd.write({BASE + key: (value, 0 if before is None else before.lease)}, [])
        with pytest.raises(EngineRefused, match=f"the keys below {BASE} in etcd are damaged"):
            await broker.engine.renew(NOTHING)
        await brokers.world.clock.sleep(1)
        assert not broker.engine._watching.done()
        if before is None:
            brokers.etcd.write({}, [BASE + key])
        else:
            brokers.etcd.write({BASE + key: (before.value, before.lease)}, [])
        await brokers.until(lambda: broker.serving, "master")

    simulate(main)
    assert [each for each in caplog.records if each.exc_info] == []


def test_two_brokers_with_one_identity(caplog):
    """A store folder was copied with its identity: the second broker is kept out, and says why."""

    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.joined(one, two)
        copied = brokers.world.files.read(brokers.engine("two")._rules.identity)
        third = brokers.engine("third")
        brokers.world.files.replace(third._rules.identity, copied)
        third = await brokers.start("third")
        await brokers.until(lambda: f"broker id 2 is alive at {two.address}" in third.election.problem, "reason")
        await brokers.world.clock.sleep(12)
        assert third.role == "none" and two.role == "slave"
        assert json.loads(brokers.etcd.keys[BASE + "members/2"].value)["address"] == two.address
        await two.stop()  # an earlier process, which had another address, is waited for
        await brokers.until(lambda: third.role == "slave", "slave")

    simulate(main)


def test_of_two_brokers_with_one_identity_that_start_together_one_takes_part():
    async def main(brokers):
        one = await opened(brokers, "one")
        await one.close()
        await brokers.world.clock.sleep(1)
        engines = [brokers.engine("one", f"10.0.0.{number}:1") for number in range(2)]
        opening = [each.open(lambda _: None, lambda _: None) for each in engines]
        results = await asyncio.gather(*opening, return_exceptions=True)
        assert sum(each == 1 for each in results) == 1 and sum(isinstance(each, EngineError) for each in results) == 1
        for each in engines:
            await each.close()

    simulate(main)


def test_an_id_is_not_given_twice_when_etcd_has_lost_its_data():
    async def main(brokers):
        one = await opened(brokers, "one")
        await one.close()
        brokers.etcd.keys.clear()
        one, other = await opened(brokers, "one"), await opened(brokers, "other")
        assert (one._id, other._id) == (1, 2)
        brokers.etcd.write({BASE + "ids/next": (b"two", 0)}, [])
        with pytest.raises(EngineRefused, match="ids/next in etcd is b'two', which is no number"):
            await brokers.engine("third").open(lambda _: None, lambda _: None)
        for each in (one, other):
            await each.close()

    simulate(main)


def test_a_person_lets_the_set_go_on_when_etcd_has_lost_its_data():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.joined(one, two)
        for each in (one, two):
            await each.stop()
        brokers.etcd.keys.clear()
        brokers.brokers.clear()
        one, two = [await brokers.start(name, epochs=[(1, 0), (4, 0)]) for name in ("one", "two")]
        await brokers.until(lambda: "the engine has lost its data" in str(one.machine and one.machine._problem), "why")
        await brokers.world.clock.sleep(15)
        assert not one.serving and not two.serving
        await two.engine.admit(2, unclean=True)
        await brokers.until(lambda: two.serving, "master")
        assert two.machine.epoch == 5
        await brokers.until(lambda: one.role == "slave", "slave")

    simulate(main)


@pytest.mark.parametrize("dies", [False, True])
def test_a_person_lets_a_running_set_go_on_when_etcd_has_lost_its_data(dies, caplog):
    """No broker is restarted; *dies*: the master is gone before the person decides."""

    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.joined(one, two)
        brokers.etcd.keys.clear()
        brokers.etcd.leases.clear()
        await brokers.until(lambda: one.machine.data_lost and two.machine.data_lost, "why", LEASE_S)
        assert not one.serving and "the engine has lost its data" in one.machine.problem(one.now)
        assert "the engine has lost its data: it knows epochs up to 0" in caplog.text
        for change in (one.election.hand_over(), one.election.hand_over(waits=False)):
            with pytest.raises(EngineRefused, match="the engine has lost its data"):
                await change
        three = await brokers.start("three")
        await brokers.world.clock.sleep(2 * LEASE_S)
        assert three.machine._rules.own_id == 3, "ids of brokers that run are not given again"
        assert not three.serving and "etcd has lost its data about broker-a" in three.machine.problem(three.now)
        if dies:
            await one.stop()
        await two.engine.admit(2, unclean=True, epoch=two.machine.epoch)
        await brokers.until(lambda: two.serving and three.role == "slave", "master")
        assert two.machine.epoch == 2 and not two.machine.data_lost
        assert "the engine has data of this set again" in caplog.text
        if not dies:
            await brokers.until(lambda: one.role == "slave" and one.machine.master == 2, "slave")

    simulate(main)


def test_a_broker_of_another_set_does_not_enter():
    async def main(brokers):
        one = await opened(brokers, "one")
        await one.elect(NOTHING)
        with pytest.raises(EngineRefused, match="broker ids 7 are not connected to etcd as members of broker-a"):
            await one.alter(1, Alter(1, 1, frozenset({1, 7})))
        two = await opened(brokers, "two")
        await two.renew(NOTHING)
        assert await one.alter(1, Alter(1, 1, frozenset({1, 2}))) == ({1, 2}, 2)
        await two.close()  # a member that is away stays
        await brokers.world.clock.sleep(1)
        assert await one.alter(1, Alter(2, 2, frozenset({1, 2}))) == ({1, 2}, 3)
        await one.close()

    simulate(main)


def test_a_newcomer_that_dies_while_its_entry_is_asked_for_holds_up_nothing():
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: one.serving, "master")
        two = await brokers.start("two")
        await brokers.until(lambda: two.role == "slave", "slave")

        async def lost(txn):
            one.engine._etcd.commit = commit
            raise EngineUnreachable("the request is lost")

        commit, one.engine._etcd.commit = one.engine._etcd.commit, lost
        one.copies(two)
        await brokers.world.clock.sleep(0.1)
        assert one.machine.set.counted == {1, 2}
        await two.stop()
        one.lose(two)
        one.append()
        assert not one.machine.may_acknowledge(one.end, one.now)
        await brokers.until(lambda: one.machine.may_acknowledge(one.end, one.now), "acknowledgement", 3)
        assert one.machine.set.members == {1}

    simulate(main)


def test_names_with_slashes_make_keys_of_their_own():
    async def main(brokers):
        names = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")]
        engines = []
        for number, (cluster, broker) in enumerate(names):
            engine = brokers.engine(f"host{number}")
            rules = engine._rules.__class__(
                cluster=cluster, broker=broker, address="h:1", ha_address="h:2", identity=engine._rules.identity
            )
            engines.append(type(engine)(brokers.world, brokers.etcd.client(), rules))
        for each in engines:
            assert await each.open(lambda _: None, lambda _: None) == 1
            assert (await each.elect(NOTHING)).standing.epoch == 1
        for each in engines:
            await each.close()

    simulate(main)


class CallError(Exception):
    def __init__(self, code):
        super().__init__(code)
        self._code = code

    def code(self):
        return SimpleNamespace(name=self._code)

    def details(self):
        return self._code


def test_a_watch_goes_on_after_each_kind_of_end():
    """Refused, ended, broken and failing watches are made again; a refused token is not used again."""

    async def main(brokers):
        clock = brokers.world.clock
        codes = {each: SimpleNamespace(name=each) for each in ("UNAUTHENTICATED", "PERMISSION_DENIED", "UNAVAILABLE")}
        others = ("NOT_FOUND", "INVALID_ARGUMENT", "FAILED_PRECONDITION")
        codes |= {each: SimpleNamespace(name=each) for each in others}
        errors = [CallError(each) for each in codes] + [asyncio.InvalidStateError("it is finished"), OSError("lost")]
        count, calls = len(errors), []

        class Stream:
            async def write(self, request):
                if errors:
                    raise errors.pop(0)

            async def __aiter__(self):
                yield SimpleNamespace(canceled=False, created=True, events=[])
                yield SimpleNamespace(canceled=True, created=False, events=[])

            def cancel(self):
                pass

        client = object.__new__(EtcdClient)
        client._clock, client._at, client._token = clock, 0, "old"
        client._rules, client._channels = EtcdClientSettings(endpoints=("e:1",)), [None]
        client._rpc = SimpleNamespace(
            WatchStub=lambda channel: SimpleNamespace(Watch=lambda metadata: calls.append(metadata) or Stream()),
            WatchRequest=lambda **more: None,
            WatchCreateRequest=lambda **more: None,
            AioRpcError=CallError,
            StatusCode=SimpleNamespace(**codes),
        )
        told = []

        async def changed():
            told.append(clock.monotonic())

        watching = asyncio.ensure_future(client.watch(["a"], changed))
        await clock.sleep(10)
        assert not watching.done() and len(told) > 5 and len(calls) > count
        assert ("token", "old") in calls[0] and ("token", "old") not in calls[1]
        watching.cancel()
        await asyncio.wait([watching])

    simulate(main)


def test_an_identity_file_that_a_person_edited(tmp_path):
    async def main(brokers):
        files = brokers.world.files
        engine = brokers.engine("one")
        path = engine._rules.identity
        names = IdentityFiles(files, path, "DefaultCluster", "broker-a")
        files.replace(path, b"DefaultCluster#broker-a#3\n")
        assert names.granted().broker_id == 3
        for damaged in (b"DefaultCluster#broker-a#0", "DefaultCluster#broker-a#\u00b2".encode(), b""):
            files.replace(path, damaged)
            with pytest.raises(Exception, match="is damaged"):
                names.granted()

    simulate(main)
