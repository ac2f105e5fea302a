"""Random runs: nothing is lost, whatever consumers and the broker do."""

import asyncio
import random

import pytest

from gantrymq.errors import GantryError

TOPICS = ("a", "b", "c", "d")


@pytest.mark.parametrize("seed", range(6))
def test_every_message_is_consumed(lite, seed):
    chance = random.Random(seed)

    async def work(served):
        sent = {each: [] for each in TOPICS}
        consumed = {each: [] for each in TOPICS}  # as acknowledged
        group = "E" if seed % 3 == 0 else "G"
        served.group("E", lite_sub_model="Exclusive")
        over = False

        async def produce():
            nonlocal over
            for number in range(60):
                topic = chance.choice(TOPICS)
                try:
                    await served.send(topic, str(number).encode())
                    sent[topic].append(number)
                except GantryError:
                    pass  # the broker restarts
                await served.clock.sleep(chance.random())
            over = True

        async def consume(name):
            client = served.client(name, group)
            mine = TOPICS if group == "G" else TOPICS[int(name[1:]) :: 3]
            while not over or any(set(sent[each]) - set(consumed[each]) for each in TOPICS):
                try:
                    await client.complete(*mine)
                    wait_ms = chance.randrange(3000)
                    for message in await client.receive(most=4, invisible_ms=3000, wait_ms=wait_ms):
                        fate = chance.random()
                        if fate < 0.6:
                            await message.ack()
                            consumed[message.lite_topic].append(int(message.body))
                        elif fate < 0.8:
                            await message.change(chance.randrange(2000))
                        else:
                            served.lite.give_back([message.name])
                except GantryError:
                    await served.clock.sleep(0.1)

        async def restart():
            for _ in range(2):
                await served.clock.sleep(10.0)
                await served.cluster.restart()

        async with asyncio.timeout(120):
            await asyncio.gather(produce(), restart(), *map(consume, ("c0", "c1", "c2")))
        for topic in TOPICS:
            firsts = list(dict.fromkeys(consumed[topic]))
            assert set(firsts) == set(sent[topic])
        queues = served.broker.store.queues()
        assert {each.topic for each in queues if each.topic.startswith("%LMQ%$P$")} == {
            f"%LMQ%$P${each}" for each in TOPICS if sent[each]
        }

    lite(work, seed=seed)
