"""Talks to a broker from inside the fresh environment, and prints one JSON document.

client.py NAMESRV send TOPIC COLOUR...              send a message for each colour, as body, property and tag
client.py NAMESRV pull TOPIC EXPRESSION TYPE        print sorted bodies of the messages of such a subscription
client.py NAMESRV consume TOPIC EXPRESSION COUNT    print sorted bodies of that many messages of a group's consumer
"""

import asyncio
import json
import sys

from gantrymq.client import Client, PullStatus
from gantrymq.client.message import Message


async def send(namesrv, topic, *colours):
    async with Client(namesrv) as client, client.producer("kit_producer") as producer:
        for colour in colours:
            await producer.send(Message(topic, colour.encode(), tags=colour, properties={"colour": colour}))
    return len(colours)


async def pull(namesrv, topic, expression, kind):
    found = []
    async with Client(namesrv) as client, client.reader(group="kit_consumer") as consumer:
        for queue in await consumer.queues(topic):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset, expression=expression, expression_type=kind)
                if result.status is PullStatus.FOUND:
                    found += [message.body.decode() for message in result.messages]
                offset = result.next_offset
    return sorted(found)


async def consume(namesrv, topic, expression, count):
    found = []
    async with Client(namesrv) as client:
        consumer = client.consumer("kit_members", topic, expression=expression, consume_from="first")
        async for message in consumer:
            found.append(message.body.decode())
            if len(found) == int(count):
                break
    return sorted(found)


namesrv, action, *words = sys.argv[1:]
print(json.dumps(asyncio.run({"send": send, "pull": pull, "consume": consume}[action](namesrv, *words))))
