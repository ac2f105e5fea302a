"""A source under load and its follower are killed at random moments; in the end both stores are equal.

The follower is sometimes a master between two kills, so that its log differs.

6 kills by default, ``GANTRYMQ_FOLLOWER_KILLS=100`` for the whole run; ``GANTRYMQ_FOLLOWER_SEED`` changes the moments.
"""

import asyncio
import contextlib
import os
import random
import re
import struct
import time
from collections import Counter
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from polling import until

from gantrymq.client import Client, ClientError, Message, TopicConfig, TransactionState

KILLS = int(os.environ.get("GANTRYMQ_FOLLOWER_KILLS", "6"))
SEED = int(os.environ.get("GANTRYMQ_FOLLOWER_SEED", "1"))
TOPICS = ("Orders", "Payments", "Reminders")
STRAY = b"[stray]"
STRAYS = 0.25  # of the follower's kills: it was a master for some messages
PAUSE_S = 0.01  # of each kind of send; the machine has other work
SLOTS = 1000
SETTINGS = {
    "mappedFileSizeConsumeQueue": 6000,
    "maxHashSlotNum": SLOTS,
    "maxIndexNum": 4000,
    "slaveReadEnable": "true",
}
TOKEN = re.compile(rb"<(\d{8})>")

pytestmark = pytest.mark.slow


class Pair:
    """The processes of the source and of the follower."""

    def __init__(self, folder):
        self._folder, self.alive = folder, {}
        packages = folder / "packages"
        info = packages / "log_follower-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: log-follower\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[gantrymq]\nlog_follower = log_follower\n")
        self._environ = {"PYTHONPATH": f"{packages}{os.pathsep}{Path(__file__).parent}"}

    def store(self, name):
        return self._folder / name

    async def start(self, name, master=False):
        """Start one, and return its name server when it is ready. *master*: a follower that does not follow."""
        settings = dict(SETTINGS)
        if name == "follower" and not master:
            settings["logFollow"] = self.store("source") / "plugins/log_source/address"
        self.alive[name] = BrokerProcess(
            self.store(name), self._folder / f"{name}.output", settings, environ=self._environ
        )
        return await asyncio.to_thread(self.alive[name].namesrv)

    def errors(self):
        return self._folder.rglob("*.err")

    def kill(self, name):
        self.alive.pop(name).kill()


def decision(message):
    """Answer a check: a kill may have lost the decision."""
    number = int(TOKEN.match(message.body)[1])
    return TransactionState.COMMIT if number % 3 else TransactionState.ROLLBACK


class Load:
    """Sends of all kinds, with a ledger of what was acknowledged."""

    def __init__(self):
        self.acknowledged, self.rolled_back, self._next = {}, set(), 0

    def _message(self, topic, **more):
        self._next += 1
        body = b"<%08d>" % self._next + b"x" * (self._next * 37 % 1500)
        number = str(self._next)
        return self._next, Message(topic, body, tags=f"T{self._next % 3}", keys=f"k{number}", **more)

    async def run(self, namesrv):
        """Send until cancelled."""
        async with Client(namesrv) as client:
            producer = client.producer("senders")
            decided = client.transaction_producer("cashiers", decision)
            kinds = (self._plain, self._plain, self._batches, self._delays)
            async with asyncio.TaskGroup() as group:
                for kind in kinds:
                    group.create_task(self._repeat(kind, producer))
                group.create_task(self._repeat(self._transactions, decided))

    async def _repeat(self, kind, producer):
        while True:
            with contextlib.suppress(ClientError, OSError):
                await kind(producer)
            await asyncio.sleep(PAUSE_S)  # real time: the servers are processes

    async def _plain(self, producer):
        number, message = self._message("Orders" if self._next % 2 else "Payments")
        if (await producer.send(message)).ok:
            self.acknowledged[number] = message.topic

    async def _batches(self, producer):
        numbers, messages = zip(*[self._message("Orders") for _ in range(10)], strict=True)
        if (await producer.send_batch(list(messages))).ok:
            self.acknowledged.update(dict.fromkeys(numbers, "Orders"))

    async def _delays(self, producer):
        number, message = self._message("Reminders", delay_level=1)
        if (await producer.send(message)).ok:
            self.acknowledged[number] = message.topic

    async def _transactions(self, producer):
        number, message = self._message("Payments")
        if number % 3 == 0:
            self.rolled_back.add(number)
        with contextlib.suppress(ZeroDivisionError):
            async with producer.transaction(message):
                if number % 3 == 0:
                    raise ZeroDivisionError
            if number % 3:
                self.acknowledged[number] = message.topic


async def seen(namesrv):
    """Return the tokens that consumers see, by topic."""
    found = {}
    async with Client(namesrv) as client:
        for topic in TOPICS:
            reader = client.reader(topic, start="first")
            found[topic] = Counter([int(TOKEN.match(each.body)[1]) async for each in reader])
    return found


def files(folder):
    """Return the bytes of all files of a folder, by name."""
    return {str(each.relative_to(folder)): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}


def queue_entries(store):
    """Return the entries of each queue: consumers see them by position."""
    found = {}
    for name, data in files(store / "consumequeue").items():
        found.setdefault(str(Path(name).parent), []).append((Path(name).name, data.rstrip(b"\0")))
    return {queue: [part for part in parts if part[1]] for queue, parts in found.items()}


def index_entries(store):
    """Return the (hash, log offset) pairs of all index files."""
    found = Counter()
    for data in files(store / "index").values():
        (count,) = struct.unpack_from(">i", data, 36)
        for number in range(1, count):
            found[struct.unpack_from(">iq", data, 40 + 4 * SLOTS + 20 * number)] += 1
    return found


def log_bytes(store):
    """Return the log files without the zeros after the end."""
    return {name: data.rstrip(b"\0") for name, data in files(store / "commitlog").items() if data.strip(b"\0")}


async def stray(pair):
    """Let the follower store messages of its own, which it must remove later."""
    namesrv = await pair.start("follower", master=True)
    async with Client(namesrv) as client:
        producer = client.producer("strays")
        for number in range(20):
            await producer.send(Message("Strays", STRAY * (number + 1), keys="stray", tags="T1"))
    pair.kill("follower")


async def rounds(pair, load, chance):
    """Kill one of the two again and again, and return how often which."""
    killed = Counter()
    namesrv = await pair.start("source")
    async with Client(namesrv) as client:
        for topic in TOPICS:
            await client.admin.create_topic_in(TopicConfig(topic))
    await pair.start("follower")
    sending = asyncio.ensure_future(load.run(namesrv))
    for _ in range(KILLS):
        name = chance.choice(("source", "follower"))
        assert not await asyncio.to_thread(pair.alive[name].ended_within, chance.uniform(0.05, 1.5))
        killed[name] += 1
        pair.kill(name)
        if name == "source":
            sending.cancel()
            await asyncio.wait([sending])
        if name == "follower" and chance.random() < STRAYS:
            killed["stray"] += 1
            await stray(pair)
        address = await pair.start(name)
        if name == "source":
            namesrv = address
            sending = asyncio.ensure_future(load.run(namesrv))
    await asyncio.to_thread(pair.alive["source"].ended_within, 1)
    sending.cancel()
    await asyncio.wait([sending])
    return killed, namesrv


async def play(pair, record):
    load = Load()
    killed, namesrv = await rounds(pair, load, random.Random(SEED))

    async def delivered():
        found = await seen(namesrv)
        return all(found[topic][number] for number, topic in load.acknowledged.items()) and found

    found = await until(delivered, "delivery of all messages", poll_s=1)
    twice = sum(count - 1 for counts in found.values() for count in counts.values())
    assert not load.rolled_back & found["Payments"].keys()

    async def equal():
        return await asyncio.to_thread(lambda: log_bytes(pair.store("source")) == log_bytes(pair.store("follower")))

    await until(equal, "equal logs", poll_s=1)
    assert await seen(pair.alive["follower"].namesrv()) == await seen(namesrv)
    for name in ("source", "follower"):
        assert pair.alive[name].terminate() == 0
    size = sum(map(len, log_bytes(pair.store("source")).values()))
    truncated = sum(each.read_text().count("truncating the copy") for each in pair.errors())
    record.update(
        killed=dict(killed), truncated=truncated, acknowledged=len(load.acknowledged), twice=twice, log_bytes=size
    )
    return load


def test_both_stores_are_equal_after_kills(tmp_path, record_property):
    pair, numbers, began = Pair(tmp_path), {}, time.monotonic()
    try:
        load = asyncio.run(play(pair, numbers))
    finally:
        for process in pair.alive.values():
            process.kill()
    source, follower = pair.store("source"), pair.store("follower")
    assert log_bytes(source) == log_bytes(follower)
    assert queue_entries(source) == queue_entries(follower)
    assert index_entries(source) == index_entries(follower)
    assert len(log_bytes(source)) > 1
    stored = {int(each) for data in log_bytes(follower).values() for each in TOKEN.findall(data)}
    assert load.acknowledged.keys() <= stored
    assert not any(STRAY in data for data in log_bytes(follower).values())
    assert not (follower / "consumequeue" / "Strays" / "0").exists() or not queue_entries(follower).get("Strays/0")
    numbers["seconds"] = round(time.monotonic() - began)
    record_property("numbers", numbers)
    print(numbers)
