"""A consumer at a master and its slave: it reads from the slave while the master is down, then goes back."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from checks import wait_for_bodies
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic, route_of
from harness.ports import free_port
from harness.probe import committed, request
from polling import until, wait_until

from gantrymq.client import Client, Message, Producer, ReceivedMessage
from gantrymq.errors import ClientError

pytestmark = pytest.mark.interop

DEADLINE_S = 120.0  # two restarts, on a machine that does other work
SOON_S = 10.0  # to read from the slave; Java's client may take the 30 s after which it fetches routes
EACH = 30
QUEUES = 2
READABLE = {"slaveReadEnable": "true"}
GET_MAX_OFFSET = 30

Running = Callable[[Process], Process]


class Pair:
    """A master and its slave."""

    master: JavaBroker | GantryServer
    slave: JavaBroker | GantryServer

    def restart_master(self) -> None:
        """Start the killed master again."""
        raise NotImplementedError

    def stop(self) -> None:
        for broker in (self.master, self.slave):
            if broker.alive():
                broker.kill()


class JavaPair(Pair):
    """Of Java. The slave starts with the tables of the master, which it copies after a minute."""

    def __init__(self, version: str, scratch: Path, namesrv: str, topic: str) -> None:
        self._version, self._scratch, self._namesrv = version, scratch, namesrv
        self._ports = free_port(also_below=2), free_port()
        self.restart_master()
        create_topic(namesrv, topic, QUEUES)
        tables = scratch / "master" / "store" / "config"
        wait_until(lambda: topic in _text(tables / "topics.json"), f"{topic} in topics.json", DEADLINE_S)
        shutil.copytree(tables, scratch / "slave" / "store" / "config")
        slave = {**READABLE, "brokerRole": "SLAVE", "brokerId": "1"}
        self.slave = JavaBroker(version, scratch / "slave", namesrv, settings=slave, keep=False)

    def restart_master(self) -> None:
        settings = {**READABLE, "haListenPort": str(self._ports[1])}
        scratch, port = self._scratch / "master", self._ports[0]
        self.master = JavaBroker(self._version, scratch, self._namesrv, settings=settings, port=port, keep=False)


class OurPair(Pair):
    """Of ours. A restarted master has other ports."""

    def __init__(self, scratch: Path, namesrv: str, topic: str) -> None:
        self._scratch, self._namesrv = scratch, namesrv
        self.restart_master()
        create_topic(namesrv, topic, QUEUES)
        self.slave = self._start("slave", brokerRole="SLAVE", brokerId="1")

    def restart_master(self) -> None:
        self.master = self._start("master")

    def _start(self, name: str, **more: str) -> GantryServer:
        settings = {**READABLE, "mappedFileSizeCommitLog": "1048576", "metricsExporterType": "DISABLE", **more}
        return GantryServer.broker(self._scratch / name, self._namesrv, settings=settings)


def _at(broker: JavaBroker | GantryServer) -> str:
    return broker.address if isinstance(broker, JavaBroker) else broker.broker_address


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_our_consumer_goes_on_at_the_slave_and_back(tmp_path: Path, topic: str, version: str) -> None:
    with JavaNameServer(version, tmp_path / "namesrv") as namesrv:
        pair = JavaPair(version, tmp_path, namesrv.address, topic)
        try:
            asyncio.run(_fail_over_and_back(pair, namesrv.address, topic))
        finally:
            pair.stop()


@pytest.mark.long
def test_our_consumer_goes_on_at_our_slave_and_back(tmp_path: Path, topic: str) -> None:
    with GantryServer.name_server(tmp_path / "namesrv") as server:
        pair = OurPair(tmp_path, server.namesrv, topic)
        try:
            asyncio.run(_fail_over_and_back(pair, server.namesrv, topic))
        finally:
            pair.stop()


def test_a_java_consumer_goes_on_at_our_slave_and_back(tmp_path: Path, topic: str, running: Running) -> None:
    """While it is suspended, the master gets messages, the slave copies them, and the master is killed."""
    with GantryServer.name_server(tmp_path / "namesrv") as server:
        pair = OurPair(tmp_path, server.namesrv, topic)
        driver = Driver("5.3.3", tmp_path, server.namesrv)
        try:
            consumer = running(driver.push(topic, f"{topic}-group"))
            sent = driver.produce(topic, EACH, body_prefix="a")
            wait_for_bodies([consumer], sent)
            consumer.pause()
            sent += driver.produce(topic, EACH, body_prefix="b")
            wait_until(lambda: _end(_at(pair.slave), topic) == 2 * EACH, "messages on the slave", DEADLINE_S)
            pair.master.kill()
            consumer.resume()
            wait_for_bodies([consumer], sent)
            pair.restart_master()
            sent += driver.produce(topic, EACH, body_prefix="c")
            wait_for_bodies([consumer], sent)
        finally:
            pair.stop()


async def _fail_over_and_back(pair: Pair, namesrv: str, topic: str) -> None:
    group, seen = f"{topic}-group", list[str]()

    async def take(message: ReceivedMessage) -> None:
        seen.append(message.body.decode())

    async def until_seen(count: int, deadline_s: float = DEADLINE_S) -> None:
        await until(lambda: len(seen) >= count, f"{count} messages", deadline_s, lambda: f"there are {sorted(seen)}")

    async with Client(namesrv) as client, client.producer(f"{topic}-producers") as producer:
        consumer = client.consumer(group, topic, consume_from="first")
        async with consumer:
            await consumer.wait_assigned(DEADLINE_S)
            run = asyncio.create_task(consumer.run(take))
            await _send(producer, topic, "a")
            await until_seen(EACH)
            if isinstance(pair, OurPair):  # its slave soon has the group and its offsets
                await _until_committed(_at(pair.slave), group, topic, EACH)
            consumer.pause()  # the pulls that the master holds still return a message
            await _send(producer, topic, "b")
            await until(lambda: _end(_at(pair.slave), topic) == 2 * EACH, "messages on the slave", DEADLINE_S)
            pair.master.kill()
            assert len(seen) < 2 * EACH
            consumer.resume()
            await until_seen(2 * EACH, SOON_S)
            await _until_committed(_at(pair.slave), group, topic, 2 * EACH)
            await asyncio.to_thread(pair.restart_master)
            await until(
                lambda: _at(pair.master) in (route_of(namesrv, topic) or ""), "the master in the route", DEADLINE_S
            )
            await _send(producer, topic, "c")
            await until_seen(3 * EACH)
            await _until_committed(_at(pair.master), group, topic, 3 * EACH)
        await run
    assert sorted(seen) == sorted(f"{part}{number}" for part in "abc" for number in range(EACH))


async def _send(producer: Producer, topic: str, part: str) -> None:
    for number in range(EACH):
        message = Message(topic, f"{part}{number}".encode())
        await until(lambda each=message: _sent(producer, each), "a send")


async def _sent(producer: Producer, message: Message) -> bool:
    """Send once the client knows the master again."""
    try:
        return bool(await producer.send(message))
    except ClientError:
        return False


def _end(broker: str, topic: str) -> int:
    """Return the number of messages of *topic* on a broker."""
    headers = [request(broker, GET_MAX_OFFSET, {"topic": topic, "queueId": str(each)})[0] for each in range(QUEUES)]
    return sum(int(header["extFields"]["offset"]) for header in headers if header["code"] == 0)


async def _until_committed(broker: str, group: str, topic: str, count: int) -> None:
    def offsets() -> list[int]:
        return [committed(broker, group, topic, each) or 0 for each in range(QUEUES)]

    await until(lambda: sum(offsets()) == count, f"{count} committed at {broker}", DEADLINE_S, lambda: f"{offsets()}")
