"""Topics and groups that were answered are on the next master, whenever the master is killed."""

import asyncio
import os
from collections import Counter

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import members, send, simulate_brokers, two_in_sync
from elected_group import gather_done, simulate_group
from ha_pairs import end

from gantrymq.errors import GantryError, ServiceNotAvailable
from gantrymq.interfaces import SendRequest
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq_replication.tables import TablesService
from gantrymq_testing.simulated import ProcessKilled

SEEDS = int(os.environ.get("GANTRYMQ_ELECTION_SEEDS", "1"))


class Changes:
    """Changes of topics and groups, and what was answered with success."""

    def __init__(self, group):
        self.group, self.topics, self.groups, self.sent, self.deleted = group, {}, set(), set(), set()
        self.failed = Counter()

    async def make_always(self, master, kind, number):
        """Make changes of one kind at *master* until it is killed."""
        while master.runs:
            number += 1
            try:
                await kind(master, number)
            except (GantryError, ProcessKilled, asyncio.CancelledError) as error:
                if asyncio.current_task().cancelling():
                    raise
                self.failed[type(error).__name__] += 1

    async def send(self, master, number):
        answer = await master.send(b"%d" % number, f"Auto{number}")
        if answer.unconfirmed is None:
            self.sent.add(number)

    async def topic(self, master, number):
        queues = 1 + number % 7
        fields = {
            "topic": f"Made{number}",
            "defaultTopic": "TBW102",
            "readQueueNums": str(queues),
            "writeQueueNums": str(queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        await self._ask(master, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        self.topics[f"Made{number}"] = queues

    async def group_of(self, master, number):
        await self._ask(
            master, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, dumps({"groupName": f"G{number}"})
        )
        self.groups.add(f"G{number}")

    async def delete(self, master, number):
        name = f"Made{number - 2}"
        if self.topics.pop(name, None) is None:
            await self.group.clock.sleep(0.005)
        else:
            await self._ask(master, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": name})
            self.deleted.add(name)

    async def _ask(self, master, code, ext, body=None):
        answer = await self.group.call(master, code, ext, body)
        if answer.code:
            raise GantryError(answer.remark)

    async def judge(self, master):
        broker = master.broker
        for name, queues in self.topics.items():
            topic = broker.topics.get(name)
            assert topic is not None, f"topic {name} was answered, and {master.host} does not have it"
            assert topic.write_queues == queues, name
        assert self.deleted.isdisjoint(broker.topics.view), "deleted topics are back"
        missing = {each for each in self.groups if broker.groups.get(each) is None}
        assert not missing, f"groups {missing} were answered, and {master.host} does not have them"
        await self.group.until(lambda: master.elected.confirmed >= end(master.cluster), "visible log", 5)
        for number in self.sent:
            assert broker.topics.get(f"Auto{number}") is not None, f"topic Auto{number} got an acknowledged message"
            assert await master.bodies(f"Auto{number}") == [b"%d" % number]


async def switch(group, changes, number, wait_s, kill):
    """Make changes until the master is killed after *wait_s*; compare the next one, and start the old one again."""
    master = await group.complete()
    kinds = (changes.send, changes.topic, changes.group_of, changes.delete)
    tasks = [asyncio.ensure_future(changes.make_always(master, each, number)) for each in kinds]
    await group.clock.sleep(wait_s)
    kill(master)
    await group.until(lambda: not master.runs, "kill", 5)
    await gather_done(tasks)
    for task in tasks:
        task.result()
    await changes.judge(await group.next_master())
    await master.start()


@pytest.mark.parametrize("at", ["some time", pytest.param("a write", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_what_was_answered_is_on_the_next_master(at, seed, monkeypatch):
    async def main(group):
        changes, chance = Changes(group), group.pair.world.random

        def kill(master):
            if at == "some time":
                master.process.kill()
            else:
                master.process.kill_at_file_call(chance.randint(1, 80))

        for number in range(3):
            await switch(group, changes, 1000 * number, chance.uniform(0.02, 0.2), kill)
        await changes.judge(await group.complete())
        assert changes.sent
        assert changes.topics
        assert changes.groups

    simulate_group(main, monkeypatch, seed, count=2 + seed % 2)


def test_a_slave_that_does_not_copy_tables_leaves_the_set(monkeypatch):
    async def main(brokers):
        one, two = await two_in_sync(brokers, slaveTimeout=500, haMaxTimeSlaveNotCatchup=4000)
        assert await send(one) == 0
        clock, began = brokers.pair.world.clock, brokers.pair.world.clock.monotonic()

        async def hangs(self, master):
            await clock.sleep(1000)

        monkeypatch.setattr(TablesService, "_short_round", hangs)
        monkeypatch.setattr(TablesService, "round", hangs)
        with pytest.raises(ServiceNotAvailable, match="did not copy a change of topics or groups in time"):
            await one.broker.messages.send(SendRequest("p", "Another", b"body"))
        assert clock.monotonic() - began < 1
        assert await send(one) == 0, "other topics need no new tables"
        await brokers.until(lambda: members(one) == {1}, "set of one", 6)
        await one.broker.messages.send(SendRequest("p", "Another", b"body"))
        monkeypatch.undo()
        await two.stop()

    simulate_brokers(main, monkeypatch)
