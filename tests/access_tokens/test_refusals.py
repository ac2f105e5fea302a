"""Refusals whose sentences are the authorizer's own: clients know them as refusals of access, and end."""

import asyncio
from pathlib import Path

import pytest

from gantrymq.client import Client, Credentials, Message, NoPermission
from gantrymq.errors import NoPermission as Refusal
from gantrymq.hooks import hookimpl
from gantrymq.model.access import Action, Decision, Principal
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

REASON = "no entry for guests"
OPS = Credentials("ops", "secret")


class Closed:
    """An authorizer that lets ``ops`` do everything, and all others only what is in ``allowed``."""

    def __init__(self, *allowed, known=True):
        self.allowed, self.known = allowed, known

    @hookimpl
    def gantry_register_authorizers(self, registry):
        registry.add("closed", lambda context: self)

    def authenticate(self, credentials, client):
        if not self.known and credentials.access_key != "ops":
            raise Refusal(REASON)
        return Principal(credentials.access_key or "guest")

    def authorize(self, principal, actions, resource):
        return Decision(principal.name == "ops" or not set(self.allowed).isdisjoint(actions), REASON)


def run(authorizer, work):
    """Run ``await work(client)`` with a client of a guest, at a broker with the topic Orders."""

    async def main(world):
        settings = {"authorizer": "closed", "store": "memory"}
        cluster = Cluster(world, Path("/gantrymq"), settings, [("closed", authorizer)])
        try:
            await cluster.start()
            async with Client(cluster.namesrv, world=world, credentials=OPS) as ops:
                await ops.producer("PG").send(Message("Orders", b"one"))
            async with Client(cluster.namesrv, world=world) as client:
                await asyncio.wait_for(work(client), 60)
        finally:
            await cluster.stop()
            await world.workers.close()

    simulate(1, main)


@pytest.mark.parametrize("known", [True, False])
def test_a_send_is_not_repeated(known):
    async def work(client):
        with pytest.raises(NoPermission, match=f"guest.*{REASON}" if known else REASON):
            await client.producer("PG").send(Message("Orders", b"no"))

    run(Closed(known=known), work)


@pytest.mark.parametrize("start", ["first", "last"])
@pytest.mark.parametrize("known", [True, False])
def test_a_consumer_ends(known, start):
    async def work(client):
        with pytest.raises(NoPermission, match=REASON):
            async for _ in client.consumer("billing", "Orders", consume_from=start):
                pass

    run(Closed(known=known), work)


@pytest.mark.parametrize("kind", ["loop", "wait", "handler", "poll"])
def test_a_consumer_that_starts_at_the_end_needs_get(kind):
    """In RocketMQ, too: GetMaxOffsetRequestHeader and SearchOffsetRequestHeader have Action.GET."""

    async def work(client):
        consumer = client.lite_pull("billing", "Orders") if kind == "poll" else client.consumer("billing", "Orders")
        with pytest.raises(NoPermission, match="has no permission to access Topic:Orders"):
            if kind == "loop":
                async for _ in consumer:
                    pass
            elif kind == "wait":
                await consumer.wait_assigned()
            elif kind == "handler":
                await consumer.run(print)
            else:
                while True:
                    await consumer.poll(30)

    run(Closed(Action.SUB), work)


def test_a_consumer_that_starts_at_the_beginning_needs_no_get():
    async def work(client):
        async for message in client.consumer("billing", "Orders", consume_from="first"):
            assert message.body == b"one"
            break

    run(Closed(Action.SUB), work)


def test_a_pop_consumer_ends():
    async def work(client):
        with pytest.raises(NoPermission, match=REASON):
            async for _ in client.pop_consumer("billing", "Orders"):
                pass

    run(Closed(), work)
