"""A master and a slave of two kinds of brokers, under load from clients: the files of both become equal."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from checks import position
from harness import Driver, GantryServer, JavaBroker, Process, create_topic
from harness.ports import free_port
from harness.process import Event
from polling import wait_until

from gantrymq.client import Client, Message
from gantrymq.world.real.files import RealFiles
from gantrymq_store_tools.check import check_store

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
CLIENT = "5.3.3"
OURS = "ours"
QUEUES = 4
SIZES = {"mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "600"}
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
EQUAL_S = 60.0  # a Java slave begins 5 s after its start, and sooner or later hears of its master
NOT_CONFIRMED = {OURS: {11, 12}, "5.3.3": {12}, "5.5.0": {12}, "4.9.7": {11}}  # ours: 12 in its first 10 s
PAIRS = [
    (OURS, CLIENT),
    (CLIENT, OURS),
    pytest.param(OURS, OURS, marks=pytest.mark.long),
    *(
        pytest.param(*pair, marks=pytest.mark.long)
        for version in ("4.9.7", "5.5.0")
        for pair in ((OURS, version), (version, OURS))
    ),
]


class Side(NamedTuple):
    """A broker and its store."""

    process: GantryServer | JavaBroker
    store: Path


def start(kind: str, folder: Path, namesrv: str, settings: dict[str, str]) -> Side:
    """Start a broker of *kind* on the store in *folder*, which may exist; each process has a scratch folder."""
    given, store, scratch = {**SIZES, **settings}, folder / "store", folder / str(len(list(folder.glob("*"))))
    if kind == OURS:
        own = {"haListenPort": str(free_port()), "metricsExporterType": "DISABLE", "storePathRootDir": str(store)}
        return Side(GantryServer.broker(scratch, namesrv, settings={**given, **own}), store)
    return Side(JavaBroker(kind, scratch, namesrv, store=store, settings=given), store)


def log_files(store: Path) -> dict[str, bytes]:
    """The log without the zeros after its end."""
    found = {each.name: each.read_bytes().rstrip(b"\0") for each in (store / "commitlog").iterdir()}
    return {name: data for name, data in found.items() if data}


def queue_files(store: Path) -> dict[str, bytes]:
    """The entries of all queues by file; files without entries may exist or not."""
    folder = store / "consumequeue"
    found = {str(each.relative_to(folder)): each for each in folder.rglob("*") if each.is_file()}
    entries = {name: each.read_bytes().rstrip(b"\0") for name, each in found.items()}
    return {name: data for name, data in entries.items() if data}


def place(message: Event) -> tuple[object, ...]:
    """Return where a message is, and what."""
    return position(message), message["bodySha256"], message["tags"], message["keys"]


async def send(namesrv: str, topic: str, count: int, **more: bool) -> list[int]:
    """Send some messages, and return the numbers of their states."""
    async with Client(namesrv) as client:
        producer = client.producer("replicated")
        bodies = [b"%d " % number + b"x" * (number * 37 % 2000) for number in range(count)]
        messages = [Message(topic, body, tags="ours", keys=f"k{len(body)}", **more) for body in bodies]
        sends = [producer.send(each, timeout_s=10) for each in messages]  # Java answers 12 after 3 s
        return [each.status.value for each in await asyncio.gather(*sends)]


@pytest.mark.parametrize(("master_kind", "slave_kind"), PAIRS)
def test_a_slave_becomes_equal_and_takes_over(
    master_kind: str, slave_kind: str, running: Running, tmp_path: Path, topic: str
) -> None:
    namesrv = GantryServer.name_server(tmp_path / "namesrv")
    running(namesrv)
    address = namesrv.namesrv
    master = start(master_kind, tmp_path / "master", address, SYNC)
    running(master.process)
    create_topic(address, topic, queues=QUEUES)
    asyncio.run(send(address, topic, 100, wait_stored=False))  # in one file: Java serves new slaves the newest
    slave = start(slave_kind, tmp_path / "slave", address, SLAVE)
    running(slave.process)

    def equal() -> bool:
        return log_files(master.store) == log_files(slave.store)

    wait_until(equal, "equal logs", deadline_s=EQUAL_S)
    driver = Driver(CLIENT, tmp_path / "load", address)
    load = driver.start("produce", topic=topic, count=400, mode="sync", keys_prefix="k", tags="TagA,TagB")
    assert set(asyncio.run(send(address, topic, 300))) == {0}
    assert {each["status"] for each in load.finish() if each["event"] == "sent"} == {"SEND_OK"}
    wait_until(equal, "equal logs", deadline_s=5)

    slave.process.kill()
    assert set(asyncio.run(send(address, topic, 3))) <= NOT_CONFIRMED[master_kind]
    slave = start(slave_kind, tmp_path / "slave", address, SLAVE)
    running(slave.process)
    wait_until(equal, "equal logs after a kill", deadline_s=EQUAL_S)
    assert asyncio.run(send(address, topic, 20)) == [0] * 20
    wait_until(equal, "equal logs", deadline_s=5)
    sent = driver.pull(topic)
    for side in (slave, master):
        side.process.stop()
    assert equal() and len(log_files(master.store)) > 2
    assert queue_files(master.store) == queue_files(slave.store) != {}
    for kind, side in ((master_kind, master), (slave_kind, slave)):
        report = check_store(RealFiles(), side.store)  # log, queues and index
        damage = {each.kind for each in report.findings if each.damage}
        # A killed Java broker loses index files that it had not flushed.
        assert damage <= ({"index.missing"} if kind != OURS else set())
        assert report.index_entries > 0

    promoted = start(slave_kind, tmp_path / "slave", address, {"brokerRole": "ASYNC_MASTER", "brokerId": "0"})
    running(promoted.process)
    create_topic(address, topic, queues=QUEUES)
    assert len(sent) == 823
    assert sorted(map(place, driver.pull(topic))) == sorted(map(place, sent))
    assert set(asyncio.run(send(address, topic, 10))) == {0}
