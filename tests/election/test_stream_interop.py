"""A Java broker 5.3.3 and one of ours, with a log in memory, copy each other by elected roles."""

import asyncio
from contextlib import ExitStack

import pytest

pytest.importorskip("gantrymq_replication")

from harness import GantryServer, create_topic
from harness.ports import free_port
from harness.probe import wait_for_registration
from java_controllers import ElectedJavaBroker, start_controllers
from polling import until
from stream_broker import StreamBroker

from gantrymq.client import Client, Message
from gantrymq.world.real import real_world
from gantrymq_replication.election.controller import ControllerEngine, ControllerRules
from gantrymq_replication.election.epochs import EpochList, parse_epochs

pytestmark = pytest.mark.interop


@pytest.fixture
def running():
    with ExitStack() as stack:
        yield stack.enter_context


def java_log(store):
    [first, *_] = sorted((store / "commitlog").iterdir())
    return first.read_bytes().rstrip(b"\0")


def test_ours_is_the_slave_and_then_the_master_of_a_java_broker(running, tmp_path):
    [controller] = start_controllers(running, tmp_path, 1)
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    ports = (free_port(also_below=2), free_port())
    store = tmp_path / "java" / "store"

    def java(name):
        return ElectedJavaBroker(tmp_path / name, store, namesrv, [controller], ports)

    broker = running(java("one"))
    wait_for_registration(namesrv, broker.address)
    create_topic(namesrv, "Orders", queues=1)
    (tmp_path / "ours").mkdir()

    async def send(count):
        async with Client(namesrv) as client:
            producer = client.producer("p")
            for number in range(count):
                await producer.send(Message("Orders", b"%d" % number + b"x" * 500), timeout_s=10)

    async def main():
        world = real_world()

        def engine(fake):
            rules = ControllerRules(
                addresses=(controller.address,),
                cluster="DefaultCluster",
                broker="broker-a",
                address=fake.address,
                identity=tmp_path / "ours" / "brokerIdentity",
            )
            return ControllerEngine(world, rules)

        ours = StreamBroker(world, engine, namesrv, lambda _: broker.ha_address)
        await ours.start()

        def detail():
            return f"{ours.role} {ours.problem} {ours.election.problem} {ours.events} {len(ours.log)} {ours.epochs}"

        try:
            await send(50)
            await until(lambda: bytes(ours.log) == java_log(store) and len(ours.log) > 25000, "copy", 60, detail)
            assert ours.epochs.entries[0].epoch == 1
            await until(lambda: ours.machine.standing.members == {1, 2}, "set of two", 30, detail)

            # The Java master gets messages that ours does not have, and dies.
            ours.copying.clear()
            await send(5)
            before = len(ours.log)
            assert len(java_log(store)) > before
            broker.kill()
            await until(lambda: ours.role == "master" and ours.serving, "master", 30, detail)
            ours.copying.set()
            assert ours.epochs.last_epoch == ours.machine.epoch == 2
            assert len(ours.log) == before
            for number in range(20):
                ours.put("Orders", 50 + number)
            assert bytes(ours.log[:before]) == java_log(store)[:before]

            # It comes back, cuts its log and follows ours.
            again = running(await asyncio.to_thread(java, "again"))
            # Bytes after its end stay in its file (apache/rocketmq #10666).
            await until(lambda: java_log(store)[: len(ours.log)] == bytes(ours.log), "equal logs", 60, detail)
            await until(lambda: ours.machine.set.members == {1, 2}, "set of two", 30, detail)
            found = EpochList(parse_epochs((store / "epochFileCheckpoint").read_bytes()))
            assert found == ours.epochs
            ours.put("Orders", 70)
            end = ours.end
            await until(lambda: ours.machine.may_acknowledge(end, ours.now), "acknowledgement", 10, detail)
            assert java_log(store)[: len(ours.log)] == bytes(ours.log)

            # Ours hands over: the Java broker is the master again and serves all of it.
            await ours.stop(resign=True)
            await until(lambda: b"3-" in (store / "epochFileCheckpoint").read_bytes(), "new epoch", 30)
            assert again.alive()
        finally:
            await ours.stop()
            await world.workers.close()

    asyncio.run(main())
