"""Test an application that forwards large orders, against a broker in the test's process and on a virtual clock."""

import asyncio
from collections.abc import Callable

from gantrymq.client import Client, Message
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.running_broker import RunningBroker


async def forward_large_orders(client: Client, count: int) -> None:
    """The application: forward each order of 100 or more; end after *count* orders."""
    producer = client.producer("forwarding")
    consumer = client.consumer("forwarding", "IncomingOrders", consume_from="first")
    async for message in consumer:
        if int(message.body) >= 100:
            await producer.send(Message("LargeOrders", message.body))
        count -= 1
        if count == 0:
            break


def test_only_large_orders_are_forwarded(gantrymq_broker: RunningBroker) -> None:
    for amount in (b"99", b"100", b"250"):
        gantrymq_broker.send("IncomingOrders", amount)

    async def run() -> None:
        async with Client(gantrymq_broker.namesrv) as client:
            await forward_large_orders(client, count=3)

    asyncio.run(run())
    assert sorted(message.body for message in gantrymq_broker.pull("LargeOrders")) == [b"100", b"250"]


def test_an_order_that_is_delayed_by_an_hour_is_forwarded(gantrymq_simulation: Callable[..., None]) -> None:
    async def run(cluster: Cluster) -> None:
        async with Client(cluster.namesrv, world=cluster.world) as client:
            orders = client.producer("orders")
            await orders.send(Message("IncomingOrders", b"100", delay_ms=3_600_000))
            await forward_large_orders(client, count=1)
        assert [message.body for message in await cluster.pull("LargeOrders")] == [b"100"]

    gantrymq_simulation(run)
