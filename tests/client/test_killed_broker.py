"""Polling, popping and reading continue after the broker is killed and restarted, without losing messages."""

import asyncio
from importlib.util import find_spec

import pytest

from gantrymq.client import Client, Message, TopicConfig

TOPIC = "Killed"
COUNT = 400
DEADLINE_S = 90.0


class Seen:
    """Numbers received so far, and a waiter for more."""

    def __init__(self):
        self.numbers = []
        self._more = asyncio.Event()

    def add(self, message):
        self.numbers.append(int(message.body))
        self._more.set()

    async def until(self, true):
        while not true():
            self._more.clear()
            await self._more.wait()


async def followed(client, seen):
    async for message in client.reader(TOPIC, follow=True):
        seen.add(message)


async def polled(client, seen):
    consumer = client.lite_pull("polling", TOPIC, consume_from="first")
    while True:
        for message in await consumer.poll(1):
            seen.add(message)


async def popped(client, seen):
    async for message in client.pop_consumer("popping", TOPIC, consume_from="first", invisible_s=5):
        seen.add(message)


@pytest.mark.slow
@pytest.mark.parametrize("work", [followed, polled, popped])
def test_a_broker_is_killed_under_its_consumer(servers, work):
    if work is popped and not find_spec("gantrymq_pop"):
        pytest.skip("the broker's part is a plugin, gantrymq-pop")

    async def run():
        seen = Seen()
        async with asyncio.timeout(DEADLINE_S), Client(servers.namesrv) as client:
            await client.admin.create_topic_in(TopicConfig(TOPIC, 4, 4))
            await client.wait_ready(TOPIC)
            producer = client.producer("shop")
            for number in range(COUNT // 2):
                await producer.send(Message(TOPIC, b"%d" % number))
            working = asyncio.create_task(work(client, seen))
            await seen.until(lambda: len(seen.numbers) >= COUNT // 4)
            await asyncio.to_thread(servers.kill_broker)
            await asyncio.to_thread(servers.start_broker)
            await client.wait_ready(TOPIC)
            for number in range(COUNT // 2, COUNT):
                await producer.send(Message(TOPIC, b"%d" % number))
            await seen.until(lambda: set(seen.numbers) == set(range(COUNT)))
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            if work is followed:
                assert len(seen.numbers) == COUNT  # it keeps its place itself
            await client.close(timeout_s=5)

    asyncio.run(run())
