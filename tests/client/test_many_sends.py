"""More sends than can be in flight, and oneway messages as fast as they can be sent."""

import asyncio

import pytest
from client_rig import Beside
from polling import until

from gantrymq.client import Client
from gantrymq.client.message import Message

BODY = b"x" * 1024
STORED_S = 120.0


async def stored(admin, address):
    return sum(queue.max_offset for queue in (await admin.topic_stats(address, "T")).values())


async def until_stored(admin, address, count):
    """Oneway messages are stored some time after they were sent."""

    async def complete():
        return await stored(admin, address) == count

    await until(complete, f"{count} stored messages", STORED_S)


@pytest.mark.slow
@pytest.mark.parametrize("count", [10_000, pytest.param(300_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["send", "send_async", "gathered"])
def test_all_of_many_sends_begun_together_are_stored(servers, kind, count):
    async def work():
        batching = kind == "gathered"
        async with (
            Client(servers.namesrv) as client,
            client.producer("P", batching=batching) as producer,
            client.admin as admin,
        ):
            await producer.send(Message("T", b"first"))
            begin = producer.send if batching else getattr(producer, kind)
            results = await asyncio.gather(*(begin(Message("T", BODY)) for _ in range(count)))
            assert all(result.ok for result in results)
            assert await stored(admin, servers.broker) == count + 1

    asyncio.run(work())


@pytest.mark.parametrize("count", [50_000, pytest.param(500_000, marks=pytest.mark.long)])
def test_all_of_many_oneway_messages_are_stored_and_others_have_their_turn(servers, count):
    async def work():
        async with Client(servers.namesrv) as client, client.producer("P") as producer, client.admin as admin:
            await producer.send(Message("T", b"first"))
            message = Message("T", BODY)
            async with Beside() as beside:
                for _ in range(count):
                    await producer.send_oneway(message)
            assert beside.turns > 100
            await until_stored(admin, servers.broker, count + 1)
            assert producer.oneways_dropped == 0

    asyncio.run(work())


def test_oneway_messages_begun_together_wait_as_well(servers):
    async def work():
        async with Client(servers.namesrv) as client, client.producer("P") as producer, client.admin as admin:
            await producer.send(Message("T", b"first"))
            body = b"x" * 4000  # 80 MB in all, more than the limit of unwritten data of a connection
            await asyncio.gather(*(producer.send_oneway(Message("T", body)) for _ in range(20_000)))
            await until_stored(admin, servers.broker, 20_001)

    asyncio.run(work())
