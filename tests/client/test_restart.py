"""A broker that is restarted on its port while messages are sent."""

import asyncio
from collections import Counter

import pytest

from gantrymq.client import Batching, Client
from gantrymq.client.message import Message

LONG_S = 60.0  # longer than a start takes on a busy machine
CROWD = 20_000


async def bodies(namesrv):
    """The number of copies of each body in the topic."""
    found = Counter()
    async with Client(namesrv) as client, client.reader(group="readers") as consumer:
        for queue in await consumer.queues("T"):
            offset, end = 0, await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found.update(message.body for message in result.messages)
                offset = result.next_offset
    return found


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill_broker", "stop_broker"])
def test_sends_of_every_kind_outlast_a_restart(servers, end):
    async def work():
        async with Client(servers.namesrv) as client, client.producer("P") as producer:
            await producer.send(Message("T", b"before"))
            queue = (await producer.queues("T"))[0]
            await asyncio.to_thread(getattr(servers, end))
            sends = [
                asyncio.ensure_future(sending)
                for sending in (
                    producer.send(Message("T", b"send"), timeout_s=LONG_S),
                    producer.send(Message("T", b"queue"), queue, timeout_s=LONG_S),
                    producer.send_async(Message("T", b"async"), timeout_s=LONG_S),
                    producer.send_batch([Message("T", b"batch")] * 2, timeout_s=LONG_S),
                )
            ]
            await asyncio.wait(sends, timeout=0.2)
            assert not any(each.done() for each in sends)
            await asyncio.to_thread(servers.start_broker)
            assert all(result.ok for result in await asyncio.gather(*sends))
            assert await bodies(servers.namesrv) == {b"before": 1, b"send": 1, b"queue": 1, b"async": 1, b"batch": 2}

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.parametrize("batching", [False, Batching(max_wait_ms=2, max_messages=50)], ids=["singly", "gathered"])
def test_no_message_of_a_crowd_is_lost_when_the_broker_is_killed_among_them(servers, batching):
    async def work():
        async with Client(servers.namesrv) as client, client.producer("P", retries=5, batching=batching) as producer:
            await producer.send(Message("T", b"before"))
            sends = [
                asyncio.ensure_future(producer.send(Message("T", b"%d" % n), timeout_s=LONG_S)) for n in range(CROWD)
            ]
            await asyncio.wait(sends[:500], return_when=asyncio.FIRST_COMPLETED)
            servers.kill_broker()  # and no request is sent here meanwhile
            assert not all(each.done() for each in sends)
            await asyncio.to_thread(servers.start_broker)
            assert all(result.ok for result in await asyncio.gather(*sends))
            found = await bodies(servers.namesrv)
            assert set(found) == {b"before", *(b"%d" % n for n in range(CROWD))}

    asyncio.run(work())
