"""Running a machine: failures of the host and of the engine, and the end."""

import asyncio
import logging

import pytest

pytest.importorskip("gantrymq_replication")

from fake_broker import FakeBroker

from gantrymq.errors import StoreError
from gantrymq_replication.election.engine import Answer, EngineRefused, EngineUnreachable, Terms
from gantrymq_replication.election.machine import Standing
from gantrymq_testing import simulated


class ScriptedEngine:
    """An engine whose answers are attributes: a standing, or an error."""

    terms = Terms(9.0, 1.0, fences_on_loss=False)

    def __init__(self, world):
        self.clock, self.opened, self.ended = world.clock, [], []
        self.standing = Standing(1, 1, frozenset({1}), 1)
        self.failures = []  # raised by `open`, one after the other

    async def open(self, on_news, on_lost, progress):
        self.opened.append(self.clock.monotonic())
        if self.failures:
            raise self.failures.pop(0)
        return 1

    async def renew(self, progress):
        if isinstance(self.standing, Exception):
            raise self.standing
        return Answer(self.standing, self.clock.monotonic())

    elect = renew

    async def hand_over(self, epoch, broker_id, *, leaves=False):
        if broker_id != 3:
            raise EngineRefused("it is dead")
        self.standing = Standing(broker_id, epoch + 1, frozenset({1, 2, 3}), 2, "other:1")

    async def resign(self):
        self.ended.append("resign")
        raise EngineUnreachable("it does not answer")

    async def close(self):
        self.ended.append("close")


def simulate(main, **more):
    async def run(world):
        engine = ScriptedEngine(world)
        broker = FakeBroker(world, lambda _: engine, **more)

        async def until(condition, what, seconds=30):
            end = world.clock.monotonic() + seconds
            while not condition():
                assert world.clock.monotonic() < end, f"no {what}: {broker.events}"
                await world.clock.sleep(0.01)

        try:
            await main(broker, engine, until)
        finally:
            await world.workers.close()

    simulated.simulate(1, run)


def test_registering_is_tried_again(caplog):
    async def main(broker, engine, until):
        engine.failures = [EngineRefused("not yet"), EngineRefused("not yet"), RuntimeError("a bug")]
        await broker.start()
        await until(lambda: broker.election.problem == "not yet", "sentence")
        await until(lambda: broker.serving, "master")
        assert len(engine.opened) == 4 and broker.election.problem == ""
        await broker.stop()

    simulate(main)
    assert [each.getMessage() for each in caplog.records] == [
        "this broker takes no part in the election: not yet",
        "this broker takes no part in the election",
    ]


def test_a_role_that_cannot_be_taken_is_tried_again():
    async def main(broker, engine, until):
        failures, become = [StoreError("the disk is full")], broker.become_master

        async def fails(epoch):
            if failures:
                raise failures.pop()
            return await become(epoch)

        broker.become_master = fails
        await broker.start()
        await until(lambda: broker.election.problem.endswith(" cannot be changed: the disk is full"), "sentence")
        assert not broker.serving
        await until(lambda: broker.serving, "master")
        assert broker.election.problem == ""
        await broker.stop()

    simulate(main)


def test_a_slave_logs_once_that_the_engine_is_gone_and_that_it_is_back(caplog):
    caplog.set_level(logging.INFO, "gantrymq.replication")

    async def main(broker, engine, until):
        engine.standing = Standing(2, 1, frozenset({1, 2}), 1, "other:1")
        await broker.start()
        await until(lambda: broker.election.machine is not None, "machine")
        for _ in range(2):
            known, engine.standing = engine.standing, EngineUnreachable("it does not answer")
            await broker.world.clock.sleep(10)
            engine.standing = known
            await broker.world.clock.sleep(10)
        await broker.stop()

    simulate(main)
    said = [each.getMessage() for each in caplog.records if "engine" in each.getMessage()]
    gone, back = "the election's engine cannot be reached: it does not answer", "the election's engine answers again"
    assert said == [gone, back] * 2


def test_an_error_in_a_call_of_the_engine_ends_nothing():
    async def main(broker, engine, until):
        engine.standing = ValueError("a bug")
        await broker.start()
        await until(lambda: broker.machine and "ValueError: a bug" in broker.machine.problem(broker.now), "sentence")
        engine.standing = Standing(1, 1, frozenset({1}), 1)
        await until(lambda: broker.serving, "master")
        engine.standing = EngineUnreachable("no answer")
        await until(lambda: broker.fenced, "fence")
        assert broker.machine.problem(broker.now) == "this master is fenced: no answer"
        await broker.stop()

    simulate(main)


def test_an_error_of_the_host_ends_nothing():
    async def main(broker, engine, until):
        await broker.start()
        await until(lambda: broker.serving, "master")
        broker.fence = broker.unfence = lambda *reason: 1 / 0
        engine.standing = EngineUnreachable("no answer")
        await until(lambda: not broker.serving, "fenced master")
        await broker.world.clock.sleep(1)
        engine.standing = Standing(1, 1, frozenset({1}), 1)
        await until(lambda: broker.serving, "master")
        await broker.stop()

    simulate(main)


def test_a_master_resigns_and_decides_nothing_afterwards():
    async def main(broker, engine, until):
        await broker.start()
        await until(lambda: broker.serving, "master")
        await broker.stop(resign=True)
        assert engine.ended == ["resign", "close"]
        broker.election.do(broker.machine.connected(2, 0, False, broker.now))
        await broker.world.clock.sleep(5)
        assert broker.events == ["master 1"]

    simulate(main)


def test_only_the_last_of_several_changes_is_made():
    async def main(broker, engine, until):
        become = broker.become_master

        async def slow(epoch):
            await broker.world.clock.sleep(5)
            return await become(epoch)

        broker.become_master = slow
        await broker.start()
        await until(lambda: broker.machine and broker.machine.epoch == 1, "first epoch")
        for epoch in (2, 3):
            engine.standing = Standing(2, epoch, frozenset({2}), epoch, "b:1")
            await until(lambda: broker.machine.epoch == epoch, "epoch")  # noqa: B023
        await until(lambda: broker.role == "slave", "slave")
        assert broker.events == ["master 1", "follow 2 3"]
        assert not broker.serving
        await broker.stop()

    simulate(main)


@pytest.mark.parametrize("unelectable", ["", "its epochs are damaged"])
def test_a_broker_that_cannot_be_the_master_lets_another_one_be_it(caplog, unelectable):
    """A controller may name any member of the set, and keeps a master whose heartbeats come."""

    async def main(broker, engine, until):
        async def fails(epoch):
            raise OSError(28, "No space left on device", "/store/epochFileCheckpoint")

        broker.become_master = fails
        engine.standing = Standing(1, 1, frozenset({1, 2, 3}), 1)
        await broker.start()
        await until(lambda: "follow 3 2" in broker.events, "other master", 5)
        await until(lambda: broker.election.problem == "", "no problem")
        await broker.stop()

    simulate(main, unelectable=unelectable)
    why = unelectable or (
        "the role of this broker cannot be changed: /store/epochFileCheckpoint: No space left on device"
    )
    said = [each.getMessage() for each in caplog.records]
    assert f"broker id 3 is to be the master instead of this one: {why}" in said
    assert not any(each.exc_info for each in caplog.records)


def test_what_was_seen_of_elections():
    async def main(broker, engine, until):
        engine.failures = [EngineUnreachable("no"), EngineRefused("no")]
        await broker.start()
        seen = broker.election.counts
        await until(lambda: broker.serving, "master")
        assert (seen.unreachable, seen.refused, seen.elections) == (1, 1, 0)  # epoch 1 was there before
        assert 3.9 < seen.without_master_s < 4.3 and seen.silent_s(broker.now) < 1
        engine.standing = Standing(2, 2, frozenset({1, 2}), 2, "other:1")
        await until(lambda: "follow 2 2" in broker.events, "other master")
        engine.standing = EngineUnreachable("no")
        before = seen.without_master_s
        await until(lambda: seen.unreachable > 3, "errors")
        assert (seen.elections, seen.without_master_s) == (1, before)  # a slave cannot know
        assert 2 < seen.silent_s(broker.now) < 6
        engine.standing = Standing(None, 3, frozenset({1, 2}), 2)
        await until(lambda: seen.without_master_s > before + 1, "time without a master")
        await broker.stop()

    simulate(main)


def test_errors_in_the_election_itself_end_no_loop(caplog):
    async def main(broker, engine, until):
        await broker.start()
        await until(lambda: broker.serving, "master")
        machine = broker.machine
        tick, learned = machine.tick, machine.learned

        def fails(*args):
            learned(*args)
            raise KeyError("a bug")

        machine.learned = fails
        await broker.world.clock.sleep(3)
        machine.tick, machine.learned = lambda now: 1 / 0, learned
        await broker.world.clock.sleep(3)
        machine.tick = tick
        await broker.world.clock.sleep(8)
        assert broker.serving
        await broker.stop()

    simulate(main)
    messages = {each.getMessage() for each in caplog.records if each.exc_info}
    assert messages == {"a look at the election failed", "a part of the election failed"}


def test_an_engine_that_breaks_while_another_master_is_asked_for(caplog):
    async def main(broker, engine, until):
        tried = []

        async def fails(*args):
            tried.append(args)
            raise KeyError("a bug")

        engine.standing = Standing(1, 1, frozenset({1, 2}), 1)
        engine.hand_over, become = fails, broker.become_master
        broker.become_master = fails
        await broker.start()
        await until(lambda: len(tried) > 3, "attempts")
        broker.become_master = become
        await until(lambda: broker.serving, "master")
        await broker.stop()

    simulate(main)


def test_a_handover_that_is_cancelled_may_be_done():
    async def main(broker, engine, until):
        await broker.start()
        await until(lambda: broker.serving, "master")
        engine.standing = engine.standing._replace(members=frozenset({1, 3}), set_epoch=2)
        await until(lambda: broker.machine.set.members == {1, 3}, "set of two")
        broker.election.do(broker.machine.connected(3, 0, False, broker.now))
        hand_over = engine.hand_over

        async def slow(epoch, broker_id, *, leaves):
            await hand_over(epoch, broker_id, leaves=leaves)
            await broker.world.clock.sleep(10)

        engine.hand_over = slow
        asked = asyncio.ensure_future(broker.election.hand_over(3))
        await until(lambda: engine.standing.master == 3, "new master")
        asked.cancel()
        await asyncio.wait([asked])
        assert not broker.serving
        await until(lambda: broker.role == "slave", "slave")
        await broker.stop()

    simulate(main)


@pytest.mark.parametrize("name", ["resign", "close"])
def test_a_stop_ends_whatever_the_engine_does(name, caplog):
    async def main(broker, engine, until):
        async def fails():
            raise KeyError("a bug")

        await broker.start()
        await until(lambda: broker.serving, "master")
        setattr(engine, name, fails)
        await broker.stop(resign=True)

    simulate(main)
    assert [each.getMessage() for each in caplog.records if each.exc_info]
