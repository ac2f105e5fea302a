"""Random orders of all events of transactions, and an invariant at the end.

No message is seen before its producer sent commit; a committed one is seen once; a rolled-back one never; no
transaction is left undecided. Producers send half messages and lose the answers, decide early, late, twice or only when
checked, disconnect and reconnect; the broker is killed at any call to the disk, or stopped, and restarts on its files.
"""

import asyncio
import random

import pytest

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_storage_mmap")

from broker_desk import Peer, records, settings_for
from desk import COMMIT, ROLLBACK, UNKNOWN, answer_to, end, half, join

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.errors import GantryError
from gantrymq.model import properties as props
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC
from gantrymq.plugins import load_plugins
from gantrymq_testing.simulated import SimulatedProcess, simulate

START_MS = 1_700_000_000_000
CHECK_MS = 5_000
MOST_CHECKS = 8


class Transaction:
    """A transaction, with its producer's knowledge of it."""

    def __init__(self, number, outcome, when):
        self.number, self.outcome = number, outcome
        self.unknown = when  # checks answered with unknown before it sends the outcome
        self.wish = ""  # the delay requested by the message
        self.fields = None  # of the newest half message that was acknowledged
        self.said = False
        self.acknowledged = False  # a decision of it


class Rig:
    """A broker on its own host, two members of a producer group, and their transactions."""

    def __init__(self, world, choice):
        self.world, self.clock, self.choice = world, world.clock, choice
        self.plugins = load_plugins("filter_tag,schedule,storage_mmap,transaction", reserved=SCHEMA)
        self.starts = 0
        self.transactions, self.asking = [], []
        self.members = [Member(self, number) for number in range(2)]
        self.process = None

    async def start(self):
        self.starts += 1
        self.process = SimulatedProcess(self.world, asyncio.get_running_loop(), "10.0.0.1", self.starts)
        values = {
            "store": "mmap",
            "mappedFileSizeCommitLog": 256 * 1024,
            "mappedFileSizeConsumeQueue": 20_000,
            "maxHashSlotNum": 500,
            "maxIndexNum": 2000,
            "transactionCheckInterval": CHECK_MS,
            "transactionCheckMax": MOST_CHECKS,
            "transactionOpMsgMaxSize": 64,
            "brokerName": "broker-a",
            "channelExpiredTimeout": 10**9,
        }
        self.server = BrokerServer(self.process.world, settings_for(self.plugins, **values), self.plugins)
        await self.process.run(self.server.start())

    async def crash(self, at_call):
        """Kill it at a call to the disk, or soon, and start again."""
        if at_call:
            self.process.kill_at_file_call(at_call)
            await self.clock.sleep(self.choice.random() * 8)
        self.process.kill()
        await self.clock.sleep(0.5)
        await self.start()
        for member in self.members:
            await member.connect()

    async def stop(self):
        if self.process.alive:
            await asyncio.wait([self.process.run(self.server.stop())])
            self.process.kill()


class Member:
    """A producer that answers some of its checks."""

    def __init__(self, rig, number):
        self.rig, self.number, self.peer, self.answered = rig, number, None, 0

    async def connect(self):
        self.peer, self.answered = Peer(self.rig.world), 0
        self.peer.clock = self.rig.clock
        await join(self.peer, client_id=f"p{self.number}")

    async def leave(self):
        if self.peer is not None:
            await self.peer.client.close()
        self.peer = None

    async def answer(self, chance):
        """Answer the received checks; with *chance* each, the others are lost."""
        if self.peer is None:
            return
        asked, self.answered = self.peer.asked[self.answered :], len(self.peer.asked)
        for command in asked:
            if command.code != 39 or self.rig.choice.random() > chance:
                continue
            each = self.rig.transactions[int(command.ext["msgId"][2:])]
            if each.unknown > 0 or each.outcome == UNKNOWN:
                each.unknown -= 1
                continue
            await self.say(each, answer_to(command))

    async def say(self, each, fields):
        """Send the decision; wait for the answer, or not."""
        each.said = True
        if self.rig.choice.random() < 0.5:
            self.rig.asking.append(asyncio.ensure_future(quietly(end(self.peer, fields, each.outcome))))
            return
        answer = await quietly(end(self.peer, fields, each.outcome))
        if answer is not None:
            assert answer.code in (0, 14), answer.remark
            each.acknowledged |= answer.code == 0


async def quietly(asking):
    """Send a request to a broker that may die; return None if no answer came in time."""
    try:
        return await asyncio.wait_for(asking, 3)
    except (TimeoutError, GantryError):
        return None


async def seen(rig, topic="T"):
    """Unique ids of the messages that a consumer sees."""
    reader, found, offset = Peer(rig.world), [], 0
    while True:
        answer = await quietly(reader.pull(topic, offset))
        if answer is None or answer.code != 0:
            await reader.client.close()
            return found
        batch = records(answer)
        found += [int(props.decode(record.properties_bytes)["UNIQ_KEY"][2:]) for record in batch]
        offset = batch[-1].queue_offset + 1


async def step(rig):
    """One thing that happens."""
    choice, member = rig.choice, rig.choice.choice(rig.members)
    if member.peer is None or member.peer.client is None:
        await quietly(member.connect())
        return
    kind = choice.randrange(20)
    waiting = [each for each in rig.transactions if each.fields and not each.said and each.outcome != UNKNOWN]
    if kind < 7:
        each = Transaction(
            len(rig.transactions), choice.choice((COMMIT, COMMIT, ROLLBACK, UNKNOWN)), choice.choice((0, 0, 1, 3))
        )
        each.wish = choice.choice(("", "", "DELAY\x011\x02", "TIMER_DELAY_SEC\x012\x02"))
        rig.transactions.append(each)
        for _ in range(choice.choice((1, 1, 1, 2))):  # the answer to the first was lost
            each.fields = await quietly(half(member.peer, each.number, more=each.wish)) or each.fields
        if each.fields and each.outcome != UNKNOWN and choice.random() < 0.5:
            await member.say(each, each.fields)
    elif kind < 10 and waiting:
        each = choice.choice(waiting)
        await member.say(each, each.fields)
        if choice.random() < 0.3:
            await member.say(each, each.fields)
    elif kind < 14:
        await rig.clock.sleep(choice.random() * 20)
        await member.answer(0.6)
    elif kind < 15:
        await member.leave()
    elif kind < 17:
        await rig.crash(choice.randrange(1, 60) if choice.random() < 0.7 else 0)
    elif kind < 18:
        await rig.stop()
        await rig.start()
        for each in rig.members:
            await each.connect()
    else:
        visible = await seen(rig)
        assert all(rig.transactions[number].said for number in visible)
        assert all(rig.transactions[number].outcome == COMMIT for number in visible)
        assert len(set(visible)) == len(visible)
        sure = [
            each.number for each in rig.transactions if each.acknowledged and each.outcome == COMMIT and not each.wish
        ]
        assert set(sure) <= set(visible)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_each_transaction_ends_once_and_as_its_producer_said(seed):
    async def main(world):
        rig = Rig(world, random.Random(seed))
        await rig.start()
        for member in rig.members:
            await member.connect()
        for _ in range(60):
            await step(rig)
        if not rig.process.alive:
            await rig.crash(0)
        rig.process.kill_at_file_call(0)
        for member in rig.members:
            await member.connect()
        for _ in range(4 * MOST_CHECKS):
            await rig.clock.sleep(CHECK_MS / 1000 + 1)
            for member in rig.members:
                await member.answer(1.0)
        await rig.clock.sleep(10)
        visible = sorted(await seen(rig))
        given_up = set(await seen(rig, CHECK_MAX_TIME_TOPIC))
        stored = {each.number for each in rig.transactions if each.fields}
        committed = {each.number for each in rig.transactions if each.outcome == COMMIT}
        sure = {each.number for each in rig.transactions if each.acknowledged}
        assert len(set(visible)) == len(visible)
        assert set(visible) <= committed
        assert committed & stored - given_up <= set(visible)
        assert committed & sure <= set(visible)
        never = {each.number for each in rig.transactions if each.outcome == UNKNOWN}
        assert never & stored <= given_up
        answer = await rig.members[0].peer.ask(65011, None, b"{}")
        assert b'"undecided":0' in answer.payload
        await rig.stop()
        await world.workers.close()

    simulate(seed, main, start_ms=START_MS, limit_s=10**6)
