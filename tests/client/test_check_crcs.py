"""Corrupt bodies are reported to consumers with ``check_crcs`` only."""

from importlib.util import find_spec

import pytest

from gantrymq.client import Client, ClientError, Message
from gantrymq_testing.simulation import simulate_cluster

if not find_spec("gantrymq_storage_memory"):
    pytest.skip("the records that are spoilt are those of gantrymq-storage-memory", allow_module_level=True)

TOPIC = "Orders"
FROM_FIRST = {"consume_from": "first"}


async def looped(stream):
    found = []
    async for message in stream:
        found.append(message)
        if len(found) == 3:
            return found
    return found


async def by_reader(client, **option):
    return await looped(client.reader(TOPIC, **option))


async def by_consumer(client, **option):
    return await looped(client.consumer("billing", TOPIC, **FROM_FIRST, **option))


async def by_lite_pull(client, **option):
    consumer, found = client.lite_pull("billing", TOPIC, **FROM_FIRST, **option), []
    while len(found) < 3:
        found += await consumer.poll()
    return found


async def by_pop(client, **option):
    if not find_spec("gantrymq_pop"):
        pytest.skip("the broker's part is a plugin, gantrymq-pop")
    return await looped(client.pop_consumer("billing", TOPIC, **FROM_FIRST, **option))


def spoil(store, old, new):
    """Change the bytes *old* of the one record that has them."""
    log = store._bytes
    assert log.count(old) == 1
    log[:] = log.replace(old, new)


@pytest.mark.parametrize("consumed", [by_reader, by_consumer, by_lite_pull, by_pop])
@pytest.mark.parametrize("option", [{}, {"check_crcs": False}, {"check_crcs": True}])
def test_a_body_that_was_changed_in_the_store_is_delivered_and_told(consumed, option):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            producer = client.producer("shop")
            for body in (b"one", b"two-as-it-was-sent", b"three"):
                await producer.send(Message(TOPIC, body))
            spoil(cluster.store, b"two-as-it-was-sent", b"two-as-it-was-bent")
            found = await consumed(client, **option)
        assert [message.body for message in found] == [b"one", b"two-as-it-was-bent", b"three"]
        told = option.get("check_crcs", False)
        assert [bool(message.body_problem) for message in found] == [False, told, False]
        if found[1].body_problem:
            assert "check sum of the stored body" in found[1].body_problem
            assert f"{found[1].body_crc:08x}" in found[1].body_problem
            with pytest.raises(ClientError, match="check sum"):
                Message.from_received(found[1])

    simulate_cluster(work, settings={"store": "memory"})
