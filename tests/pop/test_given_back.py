"""Messages that were popped and did not reach their consumer are visible again after one second."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gantrymq.errors import ConnectionLost, ReceiptIllegal
from gantrymq.interfaces import LocalClient, PopAck, PopRequest, SendRequest
from gantrymq.model.queue import Queue
from gantrymq_testing.simulation import simulate_cluster

pytest.importorskip("gantrymq_storage_memory")

WANTED = PopRequest("CG", "T", invisible_ms=60_000, wait_ms=10_000)


class Leaving(LocalClient):
    """A client that is gone once its messages are popped; it limits its own responses."""

    def __init__(self, leave):
        super().__init__(("192.0.2.1", 7))
        self.busy, self._leave, self.response_limiter = False, leave, self

    async def run(self, work):
        done = await work
        self._leave(self)
        return done


async def send(cluster, *bodies):
    for body in bodies:
        await cluster.broker.messages.send(SendRequest("PG", "T", body))


async def next_bodies(cluster, pop, wanted=WANTED):
    """Pop what is there, and return the bodies with the seconds that this took."""
    began = cluster.world.clock.monotonic()
    answer = await pop.receive(wanted, LocalClient(("192.0.2.1", 8)))
    took_s = cluster.world.clock.monotonic() - began
    return sorted(bytes(each.record.body) for each in answer.messages()), took_s


def is_soon(took_s):
    return 0.9 < took_s < 4


@pytest.mark.parametrize("order", [False, True])
def test_a_client_that_is_gone_before_the_answer(order):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await send(cluster, b"1", b"2")
        pop = cluster.broker.service("pop")
        wanted = WANTED._replace(order=order)
        with pytest.raises(ConnectionLost, match="192.0.2.1:7 closed its connection"):
            await pop.receive(wanted, Leaving(LocalClient.close))
        bodies, took_s = await next_bodies(cluster, pop, wanted)
        assert (bodies, is_soon(took_s)) == ([b"1", b"2"], True), took_s

    simulate_cluster(main)


@pytest.mark.parametrize("soon", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_a_receive_that_is_cancelled_while_messages_are_popped(soon, held):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        pop = cluster.broker.service("pop")

        def cancel(client):
            if cluster.broker.store.bounds(Queue("T", 0)).max_offset:
                asyncio.get_running_loop().call_soon(waiting.cancel) if soon else waiting.cancel()

        if not held:
            await send(cluster, b"1")
        waiting = asyncio.ensure_future(pop.receive(WANTED, Leaving(cancel)))
        if held:
            await cluster.world.clock.sleep(1)
            await send(cluster, b"1")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        bodies, took_s = await next_bodies(cluster, pop)
        assert (bodies, is_soon(took_s)) == ([b"1"], True), took_s
        assert (await next_bodies(cluster, pop))[0] == []

    simulate_cluster(main)


@pytest.mark.parametrize("order", [False, True])
def test_a_protocol_gives_back_what_it_could_not_write(order):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await send(cluster, b"1", b"2", b"3")
        pop = cluster.broker.service("pop")
        wanted = WANTED._replace(order=order)
        written, *unwritten = (await pop.receive(wanted, LocalClient(("192.0.2.1", 7)))).receipts()
        waiting = asyncio.ensure_future(next_bodies(cluster, pop, wanted))
        await cluster.world.clock.sleep(0.1)
        pop.give_back([PopAck.of("CG", "T", each) for each in unwritten])
        await pop.ack(PopAck.of("CG", "T", written))
        bodies, took_s = await waiting
        assert is_soon(took_s), took_s
        assert bodies == ([b"2", b"3"] if order else bodies) and set(bodies) <= {b"2", b"3"}
        if not order and len(bodies) == 1:  # the copies arrive one by one
            bodies += (await next_bodies(cluster, pop, wanted))[0]
        assert sorted(bodies) == [b"2", b"3"]

    simulate_cluster(main)


def test_messages_that_cannot_be_given_back_are_logged(caplog):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await send(cluster, b"1", b"2")
        pop = cluster.broker.service("pop")
        first, second = (
            PopAck.of("CG", "T", each) for each in (await pop.receive(WANTED, LocalClient(("h", 1)))).receipts()
        )
        with caplog.at_level(logging.WARNING):
            pop.give_back([])
            pop.give_back([first._replace(topic="Nope"), second])
            await cluster.world.clock.sleep(0.5)
        (line,) = [each for each in caplog.messages if "given back" in each]
        assert line.startswith("1 of 2 messages could not be given back")
        assert "topic Nope does not exist" in line
        assert (await next_bodies(cluster, pop))[0] == [b"2"]

    simulate_cluster(main)


def test_a_dead_letter_is_the_message_that_the_handle_names():
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await send(cluster, b"1", b"2")
        pop = cluster.broker.service("pop")
        first, second = (await pop.receive(WANTED, LocalClient(("192.0.2.1", 7)))).messages()
        ack = PopAck.of("CG", "T", first.receipt)
        with pytest.raises(ReceiptIllegal, match="has message 1 of T/0, and the receipt handle names message 0 of T/0"):
            await pop.forward_to_dead_letters(ack, second.receipt.log_offset)
        assert cluster.broker.topics.get("%DLQ%CG") is None
        await pop.forward_to_dead_letters(ack, first.receipt.log_offset)
        assert cluster.broker.store.bounds(Queue("%DLQ%CG", 0)).max_offset == 1

    simulate_cluster(main)
