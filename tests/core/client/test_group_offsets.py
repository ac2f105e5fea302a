"""Commits of the offsets of a group."""

import asyncio
from types import SimpleNamespace

import pytest

from gantrymq.client.reading.group_offsets import GroupOffsets
from gantrymq.errors import ConnectionLost
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.command import Command


class SlowBroker:
    """Broker that answers commits one step later; each entry of `rounds` are the queues of one step."""

    def __init__(self, fails=0):
        self.rounds = []
        self._fails = fails
        self._present = None

    async def ask(self, address, code, header):
        if self._present is None:
            self._present = []
            self.rounds.append(self._present)
        self._present.append((address, header.topic, header.queue_id))
        for _ in range(3):
            await asyncio.sleep(0)
        self._present = None
        if self._fails:
            self._fails -= 1
            raise ConnectionLost("gone")
        return Command(0)

    async def find_broker(self, topic, name, broker_id):
        return name


@pytest.mark.parametrize("fails", [0, 1])
def test_the_first_commit_of_a_topic_at_a_broker_is_sent_alone(fails):
    """Java's brokers confirm several first commits at once, but keep only one of them."""
    broker = SlowBroker(fails)
    queues = [MessageQueue("T", "a", number) for number in range(3)]
    others = [MessageQueue("T", "b", 0), MessageQueue("U", "a", 0)]

    async def main():
        offsets = GroupOffsets(SimpleNamespace(routes=broker), "G", broker.ask)
        given = [*queues, *others]
        done = await asyncio.gather(*(offsets.commit(queue, 7) for queue in given), return_exceptions=True)
        assert sum(each is not None for each in done) == fails

    asyncio.run(main())
    assert broker.rounds == [
        [("a", "T", 0), ("b", "T", 0), ("a", "U", 0)],
        [("a", "T", 1), ("a", "T", 2)],
    ]
