"""A topic that does not exist: one warning, with the nearest name that does."""

import asyncio
import logging
from importlib.util import find_spec

import pytest

from gantrymq.client import Client, NoRoute
from gantrymq.model.names import similar_name
from gantrymq_testing.simulation import simulate_cluster

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")

MEANT = "no name server knows topic Ordres (did you mean Orders?)"


def warnings(caplog):
    return [
        each.getMessage()
        for each in caplog.records
        if each.name == "gantrymq.client" and each.levelno >= logging.WARNING and "Ordres" in each.getMessage()
    ]


async def while_running(cluster, work, seconds):
    task = asyncio.ensure_future(work)
    await cluster.world.clock.sleep(seconds)
    assert not task.done(), task
    return task


async def push(client):
    await client.consumer("G", {"Ordres": "*", "Orders": "*"}).run(print)


async def broadcasting(client):
    await client.consumer("G", "Ordres", broadcasting=True).run(print)


async def lite_pull(client):
    consumer = client.lite_pull("G", "Ordres")
    while True:
        await consumer.poll()


@pytest.mark.parametrize("kind", [push, broadcasting, lite_pull])
def test_a_member_warns_once_and_consumes_when_the_topic_exists(kind, caplog):
    async def work(cluster):
        for name in ("Orders", "Payments"):
            await cluster.create_topic(name, 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            task = await while_running(cluster, kind(client), 300)
            assert len(warnings(caplog)) == 1
            task.cancel()

    simulate_cluster(work)
    (said,) = warnings(caplog)
    assert said.startswith(f"group G gets no messages of Ordres for now: {MEANT}; create it")


def test_a_pop_consumer_warns_with_the_name(caplog):
    pytest.importorskip("gantrymq_pop")

    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            consumer = client.pop_consumer("G", "Ordres")
            task = await while_running(cluster, anext(aiter(consumer)), 30)
            task.cancel()
            await asyncio.wait([task])
            with pytest.raises(NoRoute, match="did you mean Orders"):
                await consumer.pop()

    simulate_cluster(work)
    assert MEANT in warnings(caplog)[0]


def test_a_reader_and_administration_raise_it_with_the_name():
    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world) as client:
            for asked in (
                anext(aiter(client.reader("Ordres"))),
                client.reader().queues("Ordres"),
                client.lite_pull("G").queues("Ordres"),
                client.admin.route("Ordres"),
            ):
                with pytest.raises(NoRoute) as problem:
                    await asked
                assert MEANT in str(problem.value)
            with pytest.raises(NoRoute) as problem:
                await client.admin.route("Nothing")
            assert "did you mean" not in str(problem.value)

    simulate_cluster(work)


def test_the_name_is_that_of_the_program_with_a_namespace():
    async def work(cluster):
        await cluster.create_topic("NS%Orders", 1)
        async with Client(cluster.namesrv, world=cluster.world, namespace="NS") as client:
            with pytest.raises(NoRoute, match=r"\(did you mean Orders\?\)"):
                await client.reader().queues("Ordres")

    simulate_cluster(work)


@pytest.mark.parametrize(
    ("name", "names", "found"),
    [
        ("Ordres", ["Orders", "Payments"], "Orders"),
        ("orders", ["Orders"], "Orders"),
        ("OrdersV2", ["Orders"], "Orders"),
        ("rders", ["Orders"], "Orders"),
        ("Ordres", ["Payments"], ""),
        ("Ordres", [], ""),
        ("Orders", ["Orders"], ""),
        ("Ordres", [f"topic_{number:06}" for number in range(100_000)] + ["Orders"], "Orders"),
    ],
)
def test_the_similar_name(name, names, found):
    assert similar_name(name, names) == found
