"""Operators change the master of a set of brokers in a simulated world, by request 65031."""

import asyncio
import json

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import LEASE_S, elected, leads, members, send, simulate_brokers, two_in_sync
from ha_pairs import end, log_of, put, service

from gantrymq.errors import RequestRefused, ServiceNotAvailable
from gantrymq.remoting.command import request
from gantrymq_replication.election.engine import EngineUnreachable
from gantrymq_replication.election.requests import CHANGE_MASTER, ElectionRequests
from gantrymq_replication.election.service import ElectionService
from gantrymq_replication.state import election_members, epoch_cache


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main: simulate_brokers(main, monkeypatch)


async def ask(cluster, act, **more):
    """Send the request to a broker; return the members of its response."""
    asked = request(CHANGE_MASTER, {"act": act, **{key: str(value) for key, value in more.items()}})
    answer = await ElectionRequests(service(cluster, ElectionService)).change_master(asked, None)
    return json.loads(answer.payload)


@pytest.mark.parametrize("act", ["handover", "demote"])
def test_the_best_slave_takes_over(run, act):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 50)
        log = await log_of(one)
        answer = await ask(one, act)
        assert (answer["brokerId"], answer["epoch"]) == (2, 2)
        assert answer["refusedMillis"] < 500
        assert await brokers.until(lambda: leads(two), "successor") < 0.5
        assert await log_of(two) == log
        await brokers.until(lambda: members(two) == {1, 2}, "set of two")
        assert await send(two) == 0
        state = election_members(elected(one))
        assert (state["master"], state["syncStateSet"], state["epoch"]) == (2, [1, 2], 2)
        back = await ask(two, act, brokerId=1)
        assert (back["brokerId"], back["epoch"]) == (1, 3)
        await brokers.until(lambda: leads(one) and members(one) == {1, 2}, "the first one again")

    run(main)


def test_what_is_accepted_before_a_handover_is_acknowledged_and_kept(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        assert await send(one) == 0  # creates the topic
        sends = [asyncio.create_task(send(one)) for _ in range(40)]
        await brokers.pair.world.clock.sleep(0.001)
        late = asyncio.create_task(ask(one, "handover"))
        await asyncio.sleep(0)
        refused = [asyncio.create_task(send(one)) for _ in range(40)]
        answer = await late
        assert set(await asyncio.gather(*sends)) == {0}
        assert {type(each) for each in await asyncio.gather(*refused, return_exceptions=True)} == {ServiceNotAvailable}
        with pytest.raises(ServiceNotAvailable):
            await send(one)
        assert answer["brokerId"] == 2
        await brokers.until(lambda: leads(two), "successor")
        assert await log_of(one) == await log_of(two)

    run(main)


def test_a_handover_that_cannot_be_is_refused_and_the_master_goes_on(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        for act, more, sentence in (
            ("handover", {}, "no other member of the in-sync set is connected"),
            ("demote", {}, "no other member of the in-sync set is connected"),
            ("handover", {"brokerId": 1}, "broker id 1 is the master already"),
            (
                "handover",
                {"brokerId": 7},
                "broker id 7 is not a connected member of the in-sync set; able to take over: none",
            ),
            ("promote", {"brokerId": 1}, "broker id 1 is the master in etcd"),
            ("promote", {}, "act is handover or demote, or promote or forget with a brokerId"),
        ):
            with pytest.raises(RequestRefused, match=sentence):
                await ask(one, act, **more)
        assert await send(one) == 0
        learner = await brokers.start("learner", asyncLearner=True)
        await brokers.until(lambda: elected(learner).copy.followed, "learner")
        with pytest.raises(RequestRefused, match="broker id 2 is not a connected member"):
            await ask(one, "handover", brokerId=2)
        with pytest.raises(RequestRefused, match="this broker is not the master"):
            await ask(learner, "handover")
        fixed = await brokers.pair.master("fixed")
        with pytest.raises(RequestRefused, match="fixed role"):
            await ask(fixed, "handover")

    run(main)


def test_a_set_with_too_few_copies_hands_over_without_waiting_for_those_that_are_away(run):
    async def main(brokers):
        rules = {"minInSyncReplicas": 3}
        one = await brokers.start("one", **rules)
        await brokers.until(lambda: elected(one).leads, "master")
        two, three = await brokers.start("two", **rules), await brokers.start("three", **rules)
        await brokers.until(lambda: members(one) == {1, 2, 3} and leads(one), "set of three")
        await put(one, 10)
        stored = asyncio.create_task(send(one))
        held = elected(one).machine.set
        while held.confirmed >= end(one):
            await brokers.pair.world.clock.sleep(0.0001)
        await elected(three).copy.end()  # it is cut off before it has the message
        await brokers.until(lambda: not held.enough and held.followers[2].acked == end(one), "too few copies")
        assert held.confirmed < end(one)
        answer = await ask(one, "handover")
        assert (answer["brokerId"], answer["epoch"]) == (2, 2)
        assert answer["refusedMillis"] < 500
        assert await stored == 12
        await brokers.until(lambda: elected(one).copy.followed, "the old master as a slave")
        assert await log_of(two) == await log_of(one)

    run(main)


def test_members_that_could_take_over_are_named_in_plain_words(run):
    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        await brokers.start("three")
        await brokers.until(lambda: members(one) == {1, 2, 3}, "set of three")
        with pytest.raises(RequestRefused, match="able to take over: 2, 3$"):
            await ask(one, "handover", brokerId=7)

    run(main)


def test_a_master_whose_handover_has_no_answer_is_fenced_until_it_knows(run, monkeypatch):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        engine = elected(one).engine
        done = engine.hand_over

        async def unanswered(epoch, broker_id, *, leaves):
            await done(epoch, broker_id)
            raise EngineUnreachable("etcd does not answer")

        monkeypatch.setattr(engine, "hand_over", unanswered)
        with pytest.raises(RequestRefused, match="etcd does not answer"):
            await ask(one, "handover")
        assert not leads(one)
        await brokers.until(lambda: leads(two), "successor")

        engine = elected(two).engine

        async def lost(epoch, broker_id, *, leaves):
            raise EngineUnreachable("etcd does not answer")

        await brokers.until(lambda: elected(one).copy.followed and elected(two).machine.set.present == 2, "set of two")
        monkeypatch.setattr(engine, "hand_over", lost)
        with pytest.raises(RequestRefused, match="etcd does not answer"):
            await ask(two, "handover")
        assert not leads(two)
        assert await brokers.until(lambda: leads(two), "the same master") < 1

    run(main)


def test_the_old_master_takes_over_again_if_its_successor_is_dead(run):
    async def main(brokers):
        one, _ = await two_in_sync(brokers)
        await put(one, 10)
        brokers.clients["two"].down = True  # it follows, but cannot be elected
        assert (await ask(one, "handover"))["brokerId"] == 1
        await brokers.until(lambda: leads(one), "master", LEASE_S)

    run(main)


def test_a_slave_tells_the_epochs_of_its_master(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await brokers.until(lambda: epoch_cache(elected(two))["epochList"], "epoch of an empty log")
        await put(one, 3)
        await brokers.until(lambda: epoch_cache(elected(two)) == {**epoch_cache(elected(one)), "brokerId": 2}, "epochs")
        [entry] = epoch_cache(elected(two))["epochList"]
        assert entry == {"endOffset": 2**63 - 1, "epoch": 1, "startOffset": 0}

    run(main)


def test_promote_elects_a_broker_that_did_not_stop_cleanly_only_if_told_so(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        await put(one, 10)
        # The set shrinks to the first one, which goes away for good.
        await two.stop()
        await brokers.until(lambda: members(one) == {1}, "set of one")
        await put(one, 5)
        await one.stop()
        two = await brokers.start("two")
        await brokers.until(lambda: "is not in the in-sync set 1:" in election_members(elected(two))["problem"], "no")
        with pytest.raises(RequestRefused, match=r"broker id 2 is not in the in-sync set 1:"):
            await ask(two, "promote", brokerId=2)
        with pytest.raises(RequestRefused, match="broker id 1 is not connected to etcd"):
            await ask(two, "promote", brokerId=1)
        answer = await ask(two, "promote", brokerId=2, unclean=True)
        assert (answer["brokerId"], answer["epoch"]) == (2, 2)
        await brokers.until(lambda: leads(two), "master")
        assert await send(two) == 0

    run(main)


def test_a_broker_is_forgotten_by_request(run, monkeypatch):
    async def main(brokers):
        one, two = await two_in_sync(brokers)
        with pytest.raises(RequestRefused, match="broker id 2 is in the in-sync set 1, 2, which needs it") as refused:
            await ask(one, "forget", brokerId=2)
        assert refused.value.response_code == 1
        elected(two).copy.stops = lambda *_: asyncio.sleep(0)  # as if it was killed
        await two.stop()
        await brokers.until(lambda: members(one) == {1}, "set of one")
        assert [each["brokerId"] for each in election_members(elected(one))["away"]] == [2]
        assert await ask(one, "forget", brokerId=2) == {"brokerId": 2, "epoch": 1}
        assert election_members(elected(one))["away"] == []

    run(main)
