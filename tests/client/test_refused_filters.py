"""Expressions that a broker cannot evaluate end a consumer of any kind with an error instead of a warning a minute."""

import asyncio
from importlib.util import find_spec

import pytest

from gantrymq.client import BrokerRefused, Client
from gantrymq.client.sync import Client as SyncClient
from gantrymq_testing.simulation import simulate_cluster

PARTS = ("storage_memory", "filter_tag", "filter_sql92", "pop")
pytestmark = pytest.mark.skipif(
    not all(find_spec(f"gantrymq_{each}") for each in PARTS), reason=f"needs {', '.join(PARTS)}"
)

WRONG = {
    "an invalid expression": ("a >", "SQL92", 23, "SQL92 expression, character 4: "),
    "an unknown type": ("a > 4", "SQL29", 1, "filter message by SQL29 (did you mean SQL92?)"),
}
wrong = pytest.mark.parametrize(("expression", "expression_type", "code", "told"), WRONG.values(), ids=WRONG.keys())
NEVER_S = 60.0


async def first_of(iterable):
    async for message in iterable:
        return message
    return None


async def run_push(client, **given):
    await client.consumer("G", "Orders", **given).run(print)


async def loop_push(client, **given):
    await first_of(client.consumer("G", "Orders", **given))


async def wait_push(client, **given):
    await client.consumer("G", "Orders", **given).wait_assigned()


async def batches(client, **given):
    await first_of(client.consumer("G", "Orders", **given).batches())


async def orderly(client, **given):
    await client.consumer("G", "Orders", orderly=True, **given).run(print)


async def broadcasting(client, **given):
    await client.consumer("G", "Orders", broadcasting=True, **given).run(print)


async def lite_pull(client, **given):
    consumer = client.lite_pull("G", "Orders", **given)
    while True:
        await consumer.poll()


async def subscribed(client, **given):
    await client.lite_pull("G").subscribe("Orders", **given)


async def assigned(client, **given):
    consumer = client.lite_pull("G")
    await consumer.assign(await consumer.queues("Orders"), **given)


async def pop(client, **given):
    await client.pop_consumer("G", "Orders", **given).pop()


async def loop_pop(client, **given):
    await first_of(client.pop_consumer("G", "Orders", **given))


async def reader(client, **given):
    await first_of(client.reader("Orders", **given))


KINDS = (
    run_push,
    loop_push,
    wait_push,
    batches,
    orderly,
    broadcasting,
    lite_pull,
    subscribed,
    assigned,
    pop,
    loop_pop,
    reader,
)


@pytest.mark.parametrize("kind", KINDS)
@wrong
def test_a_consumer_of_any_kind_raises(kind, expression, expression_type, code, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        await cluster.send("Orders", b"one")
        async with Client(cluster.namesrv, world=cluster.world) as client:
            running = asyncio.ensure_future(kind(client, expression=expression, expression_type=expression_type))
            await asyncio.wait(
                {running, asyncio.ensure_future(cluster.world.clock.sleep(NEVER_S))}, return_when="FIRST_COMPLETED"
            )
            assert running.done(), "it waits for ever"
            with pytest.raises(BrokerRefused) as refusal:
                running.result()
        assert refusal.value.response_code == code and told in str(refusal.value)

    simulate_cluster(work)


@wrong
def test_a_member_without_queues_raises_as_well(expression, expression_type, code, told):
    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        async with (
            Client(cluster.namesrv, world=cluster.world) as one,
            Client(cluster.namesrv, world=cluster.world) as two,
        ):
            await one.consumer("G", "Orders").wait_assigned()
            with pytest.raises(BrokerRefused) as refusal:
                await two.consumer(
                    "G", "Orders", expression=expression, expression_type=expression_type
                ).wait_assigned()
        assert refusal.value.response_code == code and told in str(refusal.value)

    simulate_cluster(work)


@wrong
def test_a_subscription_of_a_running_consumer_is_refused_and_changes_nothing(expression, expression_type, code, told):
    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            for consumer in (client.consumer("G", "Orders"), client.lite_pull("H", "Orders")):
                await consumer.wait_assigned()
                with pytest.raises(BrokerRefused) as refusal:
                    await consumer.subscribe("Orders", expression, expression_type)
                assert refusal.value.response_code == code and told in str(refusal.value)
                assert consumer._subscriptions["Orders"].expression == "*"

    simulate_cluster(work)


def test_a_topic_that_comes_later_ends_the_consumer_then():
    async def work(cluster):
        async with Client(cluster.namesrv, world=cluster.world) as client:
            consumer = client.consumer("G", "Later", expression="a >", expression_type="SQL92")
            running = asyncio.ensure_future(consumer.run(print))
            await cluster.world.clock.sleep(30)
            assert not running.done()
            await cluster.create_topic("Later", 1)
            with pytest.raises(BrokerRefused, match="code 23"):
                await running

    simulate_cluster(work)


@pytest.mark.parametrize("kind", ["consumer", "lite_pull", "pop_consumer", "reader"])
@wrong
def test_the_synchronous_client_raises(gantrymq_broker_factory, kind, expression, expression_type, code, told):
    server = gantrymq_broker_factory({"store": "memory"})
    server.create_topic("Orders", 1)
    server.send("Orders", b"one")
    given = {"expression": expression, "expression_type": expression_type}
    with SyncClient(server.namesrv) as client, pytest.raises(BrokerRefused) as refusal:
        if kind == "consumer":
            client.consumer("G", "Orders", **given).run(print)
        elif kind == "lite_pull":
            client.lite_pull("G", "Orders", **given).poll(timeout_s=NEVER_S)
        elif kind == "pop_consumer":
            client.pop_consumer("G", "Orders", **given).pop()
        else:
            next(iter(client.reader("Orders", **given)))
    assert refusal.value.response_code == code and told in str(refusal.value)
