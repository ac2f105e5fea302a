"""A master and a slave under faults; the slave alone, started as a master on its copy, has what it must have.

With SYNC_MASTER and inSyncReplicas=2 that is every acknowledged message. With ASYNC_MASTER it is everything up to the
lag that the master told before its end. Clients note their history outside of the brokers.

    GANTRYMQ_REPLICA_RUNS   runs with -m long, 30 by default; the faults take turns
    GANTRYMQ_REPLICA_RUN    the number of the only run
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from chaos_rig.islands import Island
from chaos_rig.replica_load import ReplicaLoad, told_lag
from durability_rig.loop_disks import LoopDisk, NoLoopDisksError, Shelf
from durability_rig.small_disks import MIB, SmallDisk, small_disk
from durability_rig.writeback import writeback_held
from harness import GantryServer, JavaBroker, create_topic, free_port
from message_history import Bodies, History, Log, read_log, read_topic
from polling import wait_until

from gantrymq.client.admin import HaStatus

pytestmark = pytest.mark.slow

TOPIC, QUEUES, BROKER = "ChaosReplicas", 4, "broker-a"
ROCKETMQ = "5.3.3"
RUNS = int(os.environ.get("GANTRYMQ_REPLICA_RUNS", "30"))
ONLY = os.environ.get("GANTRYMQ_REPLICA_RUN")
SHORT = (1,)  # also without -m long; a run kills the slave, and then the master
SOME = 150  # acknowledged messages before a fault and after it
SMALL_BYTES, FULL_BYTES, FULL_S = 40 * MIB, 4 * MIB, 30.0
READY_S = 30.0
SYNC = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "1000"}
ASYNC = {"brokerRole": "ASYNC_MASTER"}
SETTINGS = {
    "mappedFileSizeCommitLog": str(MIB),
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "metricsExporterType": "DISABLE",
    "haHousekeepingInterval": "4000",
    "haSendHeartbeatInterval": "1000",
    "cleanFileForciblyEnable": "false",  # a full disk deletes nothing
    "diskSpaceWarningLevelRatio": "100",  # it refuses the last byte
}
NOT_FOR_JAVA = (
    "haHousekeepingInterval",
    "haSendHeartbeatInterval",
    "haMasterAddress",
)  # a name server tells the address


class Side:
    """A broker and where it runs; started again with the same settings, or as something else."""

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        namesrv: str,
        store: Path,
        island: Island | None,
        version: str,
        **settings: str,
    ) -> None:
        """*version*: of RocketMQ; empty for ours."""
        self._stack, self._folder, self._namesrv, self._island = stack, folder, namesrv, island
        self._version = version
        self.store, self.settings = store, {"haListenPort": str(free_port()), **settings}
        self._starts = 0
        self.start()

    def start(self, **settings: str) -> None:
        """Start the process."""
        self._starts += 1
        given, scratch = {**SETTINGS, **self.settings, **settings}, self._folder / str(self._starts)
        self.process: GantryServer | JavaBroker
        if self._version:
            for each in NOT_FOR_JAVA:
                given.pop(each, None)
            self.process = JavaBroker(self._version, scratch, self._namesrv, store=self.store, settings=given)
            self.address = self.process.address
        else:
            given["storePathRootDir"] = str(self.store)
            under = self._island.under if self._island is not None else ()
            self.process = GantryServer.broker(scratch, self._namesrv, settings=given, under=under)
            self.address = self.process.broker_address
        self._stack.callback(self.end)

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self.process.alive():
            self.process.kill()

    def log(self) -> Log:
        """Return what is in the log files."""
        return log_of(self.store)


def log_of(store: Path) -> Log:
    """Return what is in the log files of a store."""
    return read_log((each.read_bytes() for each in sorted((store / "commitlog").iterdir())), BROKER, TOPIC)


class Pair:
    """Master, slave and load of one run."""

    def __init__(self, stack: ExitStack, folder: Path, number: int) -> None:
        self.stack, self.folder, self.number, self.chance = stack, folder, number, random.Random(f"replicas/{number}")
        self.told: HaStatus | None = None  # what the master told before its end
        self.lost = 0

    def start(
        self,
        role: dict[str, str],
        *,
        master_store: Path | None = None,
        slave_store: Path | None = None,
        island: Island | None = None,
        versions: tuple[str, str] = ("", ""),
    ) -> None:
        """Start everything; returns when the slave is in sync. *versions*: of master and slave, empty for ours."""
        here = {"bindAddress": island.here, "brokerIP1": island.here} if island else {}
        there = {"bindAddress": island.there, "brokerIP1": island.there} if island else {}
        own = {"bindAddress": island.here} if island else {}
        names = self.stack.enter_context(GantryServer.name_server(self.folder / "names", settings=own))
        self.namesrv = names.namesrv
        store = master_store or self.folder / "master-store"
        self.master = Side(self.stack, self.folder / "master", self.namesrv, store, None, versions[0], **role, **here)
        create_topic(self.namesrv, TOPIC, queues=QUEUES)
        address = f"{island.here if island else '127.0.0.1'}:{self.master.settings['haListenPort']}"
        copy = {"brokerRole": "SLAVE", "brokerId": "1", "haMasterAddress": address}
        store = slave_store or self.folder / "slave-store"
        self.slave = Side(self.stack, self.folder / "slave", self.namesrv, store, island, versions[1], **copy, **there)
        self.until_in_sync()
        self.load = self.stack.enter_context(ReplicaLoad(self.namesrv, TOPIC))
        self.load.wait_for_more(SOME)

    def until_in_sync(self) -> None:
        """Wait until the master counts the slave as in sync."""
        broker = self.master.address
        wait_until(lambda: told_lag(self.namesrv, broker).in_sync_slaves == 1, "slave in sync", READY_S)

    def promote(self, store: Path | None = None) -> Bodies:
        """Start the slave as a master, on *store* if it is another one, and return what clients read from it."""
        self.load.stop()
        self.slave.end()
        self.slave.store = store or self.slave.store
        self.slave.start(brokerRole="ASYNC_MASTER", brokerId="0", haMasterAddress="")
        create_topic(self.namesrv, TOPIC, queues=QUEUES)
        return asyncio.run(read_topic(self.namesrv, TOPIC))

    def lasts(self, least_s: float, most_s: float) -> None:
        """Leave a fault as it is for some time."""
        time.sleep(self.chance.uniform(least_s, most_s))  # real time: the fault itself

    def goes_on(self) -> None:
        """Wait until the slave follows again, and sends are acknowledged."""
        self.until_in_sync()
        self.load.wait_for_more(SOME)

    def small_disk(self) -> SmallDisk:
        """Return a disk for the store of one side."""
        return self.stack.enter_context(small_disk(self.folder / "small", SMALL_BYTES))

    def fill(self, disk: SmallDisk) -> None:
        """Fill the disk under load, to the last byte once sends are not acknowledged any more."""
        disk.take(max(disk.free_bytes - FULL_BYTES, 0))
        unsure = self.load.history.unsure
        wait_until(lambda: self.load.history.unsure > unsure + 10, "sends that are not acknowledged", FULL_S)
        disk.fill()
        self.lasts(0.2, 3)

    def loop_disk(self) -> LoopDisk:
        """Return a disk whose power is cut."""
        self.stack.enter_context(writeback_held())
        try:
            shelf = self.stack.enter_context(Shelf(self.folder))
            return self.stack.enter_context(shelf.disk("disk", self.chance.choice(("ext4", "xfs"))))
        except NoLoopDisksError as error:
            pytest.skip(str(error))

    def judge_lag(self) -> None:
        """The ASYNC_MASTER is gone: the slave alone must have everything up to the lag that the master told."""
        found, history = self.promote(), self.load.history
        history.judge_seen(found, self.master.log().messages)
        lost = history.lost(found)
        self.lost = len(lost)
        assert self.told is not None
        (slave,) = self.told.slaves
        has = self.told.max_offset - slave.lag_bytes
        assert [each for each in lost if each.log_offset < has] == []

    def judge(self, *others: Log) -> None:
        """The master is gone: the slave alone must have everything."""
        self.load.history.judge(self.promote(), self.master.log().messages, *(each.messages for each in others))


# --- faults with SYNC_MASTER, after which nothing may be lost ---------------------------------------------------------


def kill_of_the_master(pair: Pair) -> None:
    pair.start(SYNC)
    pair.master.process.kill()
    pair.judge()


def kill_of_the_slave(pair: Pair) -> None:
    pair.start(SYNC)
    pair.slave.process.kill()
    pair.lasts(0.2, 2)
    pair.slave.start()
    pair.goes_on()
    pair.master.process.kill()
    pair.judge()


def pause_of_the_master(pair: Pair) -> None:
    pair.start(SYNC)
    pair.master.process.pause()
    pair.lasts(2, 7)
    pair.master.process.resume()
    pair.goes_on()
    pair.master.process.kill()
    pair.judge()


def pause_of_the_slave(pair: Pair) -> None:
    pair.start(SYNC)
    pair.slave.process.pause()
    pair.lasts(2, 7)
    pair.slave.process.resume()
    if pair.chance.random() < 0.5:
        pair.goes_on()
    pair.master.process.kill()
    pair.judge()


def partition(pair: Pair) -> None:
    island = pair.stack.enter_context(Island(pair.number % 256))
    pair.start(SYNC, island=island)
    island.cut()
    pair.lasts(2, 7)
    if heals := pair.chance.random() < 0.7:
        island.join()
        pair.goes_on()
    pair.master.process.kill()
    if not heals:
        island.join()
    pair.judge()


def full_disk_of_the_master(pair: Pair) -> None:
    disk = pair.small_disk()
    pair.start(SYNC, master_store=disk.folder / "store")
    pair.fill(disk)
    if pair.chance.random() < 0.5:
        disk.free()
        pair.goes_on()
    pair.master.process.kill()
    pair.judge()


def full_disk_of_the_slave(pair: Pair) -> None:
    disk = pair.small_disk()
    pair.start(SYNC, slave_store=disk.folder / "store")
    pair.fill(disk)
    if heals := pair.chance.random() < 0.5:
        disk.free()
        pair.goes_on()
    pair.master.process.kill()
    if not heals:
        disk.free()
    pair.judge()


def power_cut_of_the_master(pair: Pair) -> None:
    disk = pair.loop_disk()
    pair.start(SYNC, master_store=disk.folder / "store")
    cut = disk.cut("cut")
    pair.master.process.kill()
    with cut:
        pair.judge(log_of(cut.folder / "store"))


def power_cut_of_the_slave(pair: Pair) -> None:
    """The master goes as well, but what was acknowledged before is on the slave's disk."""
    disk = pair.loop_disk()
    pair.start(SYNC, slave_store=disk.folder / "store")
    known = list(pair.load.history.acknowledged)
    cut = disk.cut("cut")
    pair.master.process.kill()
    with cut:
        found = pair.promote(cut.folder / "store")
        assert History(known).lost(found) == []
        pair.load.history.judge_seen(found, pair.master.log().messages)
        pair.slave.end()


# --- with ASYNC_MASTER, after which what the master had not sent is lost ----------------------------------------------


def kill_of_an_async_master(pair: Pair) -> None:
    pair.start(ASYNC)
    pair.told = told_lag(pair.namesrv, pair.master.address)
    pair.master.process.kill()
    pair.judge_lag()


def pause_of_the_slave_and_kill_of_an_async_master(pair: Pair) -> None:
    pair.start(ASYNC)
    pair.slave.process.pause()
    pair.load.wait_for_more(2 * SOME)
    pair.told = told_lag(pair.namesrv, pair.master.address)
    pair.master.process.kill()
    pair.slave.process.resume()
    pair.judge_lag()


def kill_of_our_master_of_a_rocketmq_slave(pair: Pair) -> None:
    pair.start(SYNC, versions=("", ROCKETMQ))
    pair.slave.process.pause()
    pair.lasts(2, 4)
    pair.slave.process.resume()
    pair.goes_on()
    pair.master.process.kill()
    pair.judge()


def kill_of_a_rocketmq_master_of_our_slave(pair: Pair) -> None:
    pair.start(SYNC, versions=(ROCKETMQ, ""))
    pair.slave.process.kill()
    pair.lasts(0.2, 2)
    pair.slave.start()
    pair.goes_on()
    pair.master.process.kill()
    pair.judge()


FAULTS = (
    *(kill_of_the_master, kill_of_the_slave, pause_of_the_master, pause_of_the_slave, partition),
    *(full_disk_of_the_master, full_disk_of_the_slave, power_cut_of_the_master, power_cut_of_the_slave),
    *(kill_of_an_async_master, pause_of_the_slave_and_kill_of_an_async_master),
)


@pytest.fixture(scope="module")
def table() -> Iterator[Counter[tuple[str, str]]]:
    """Sums by fault and column, printed at the end."""
    sums: Counter[tuple[str, str]] = Counter()
    yield sums
    for fault in dict.fromkeys(fault for fault, _ in sums):
        row = [fault, *(f"{sums[fault, each]:,}" for each in ("runs", "acknowledged", "unsure", "lost", "told bytes"))]
        print(f"| {' | '.join(row)} | {sums[fault, 'stall ms'] / 1000:.1f} s |")


@pytest.mark.parametrize(
    "number",
    [int(ONLY)]
    if ONLY
    else [*SHORT, *(pytest.param(each, marks=pytest.mark.long) for each in range(RUNS) if each not in SHORT)],
)
def test_the_slave_alone_has_what_was_acknowledged(
    number: int,
    tmp_path: Path,
    table: Counter[tuple[str, str]],
    record_property: Callable[[str, object], None],
) -> None:
    run(FAULTS[number % len(FAULTS)], number, tmp_path, table, record_property)


@pytest.mark.long
@pytest.mark.interop
@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("fault", [kill_of_our_master_of_a_rocketmq_slave, kill_of_a_rocketmq_master_of_our_slave])
def test_the_same_holds_if_one_of_them_is_rocketmq(
    fault: Callable[[Pair], None],
    number: int,
    tmp_path: Path,
    table: Counter[tuple[str, str]],
    record_property: Callable[[str, object], None],
) -> None:
    run(fault, number, tmp_path, table, record_property)


def run(
    fault: Callable[[Pair], None],
    number: int,
    folder: Path,
    table: Counter[tuple[str, str]],
    record_property: Callable[[str, object], None],
) -> None:
    """Let *fault* happen, and add the result to *table*."""
    name = fault.__name__.replace("_", " ")
    with ExitStack() as stack:
        pair = Pair(stack, folder, number)
        fault(pair)
        history = pair.load.history
        said = {
            "runs": 1,
            "acknowledged": len(history.acknowledged),
            "unsure": history.unsure,
            "lost": pair.lost,
            "told bytes": sum(each.lag_bytes for each in pair.told.slaves) if pair.told else 0,
        }
        stall_ms = round(1000 * history.longest_stall_s())
    for column, value in said.items():
        table[name, column] += value
    table[name, "stall ms"] = max(table[name, "stall ms"], stall_ms)
    print(f"run {number}: {name}: {said}, longest stall {stall_ms} ms")
    record_property("findings", f"{name}: {said}")
    assert len(history.acknowledged) >= SOME
    shutil.rmtree(folder, ignore_errors=True)
