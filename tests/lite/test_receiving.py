"""Receiving messages of lite topics."""

import asyncio

import pytest

from gantrymq.errors import ConnectionLost
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue


def test_a_client_receives_the_messages_of_the_lite_topics_that_it_subscribed_to(lite):
    async def work(served):
        for lite_topic in ("a", "b", "c"):
            await served.send(lite_topic, lite_topic.encode())
        client = served.client()
        await client.subscribe("a", "b")
        first, second = await client.receive()
        assert {first.body, second.body} == {b"a", b"b"}
        assert first.receipt[3:8] == (999, "0", "broker-a", 0, 0)
        assert first.receipt.log_offset is not None
        await served.send("b", b"b2", KEYS="k")
        assert await client.bodies() == []  # b has an unacknowledged message
        await (first if first.body == b"b" else second).ack()
        (third,) = await client.receive()
        assert (third.body, third.receipt.queue_offset) == (b"b2", 1)
        assert third.popped.record.properties["INNER_MULTI_DISPATCH"] == "%LMQ%$P$b"

    lite(work)


def test_a_waiting_receive_is_woken_by_a_message_of_its_lite_topics_only(lite):
    async def work(served):
        client, other = served.client(), served.client("c2")
        await client.subscribe("a")
        await other.subscribe("b")
        begun = served.clock.monotonic()
        waiting = asyncio.ensure_future(client.bodies(wait_ms=20_000))
        others = asyncio.ensure_future(other.bodies(wait_ms=20_000))
        await served.clock.sleep(3.0)
        await served.send("a", b"now")
        assert await waiting == [b"now"]
        assert served.clock.monotonic() - begun < 3.1
        assert await others == []
        assert 19.9 < served.clock.monotonic() - begun < 20.1

    lite(work)


def test_an_unacknowledged_message_comes_again_with_its_successors_and_its_count(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        (first,) = await client.receive(invisible_ms=10_000)
        await served.send("a", b"2")
        begun = served.clock.monotonic()
        again = await client.receive(wait_ms=30_000, invisible_ms=10_000)
        assert 9.9 < served.clock.monotonic() - begun < 10.2
        assert [(each.body, each.deliveries) for each in again] == [(b"1", 1), (b"2", 0)]
        await first.ack()  # an old receipt acknowledges nothing
        again = await client.receive(wait_ms=30_000)
        assert [(each.body, each.deliveries) for each in again] == [(b"1", 2), (b"2", 1)]
        for each in again:
            await each.ack()
        assert await client.bodies(wait_ms=60_000) == []

    lite(work)


def test_a_changed_invisible_time_is_in_force_and_the_receipt_stays_valid(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        (message,) = await client.receive(invisible_ms=600_000)
        changed = await message.change(1000)
        begun = served.clock.monotonic()
        assert served.lite.is_delivered(message.name)
        (again,) = await client.receive(wait_ms=30_000)
        assert 0.9 < served.clock.monotonic() - begun < 1.2
        assert changed.revive_queue == 999
        assert not served.lite.is_delivered(message.name)
        renewed = served.lite.renew(again.name, 3_600_000)
        assert renewed == [0]
        assert await client.bodies(wait_ms=60_000) == []
        await again.ack()
        assert not served.lite.is_delivered(again.name)

    lite(work)


def test_a_repeated_attempt_gets_the_same_messages_at_once_and_is_not_counted(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        await client.receive(attempt_id="one")
        assert await client.bodies(attempt_id="two") == []
        await client.complete("a")  # a client that lost the answer knows no more than its subscriptions
        served.lite._receives.mark("%LMQ%$P$a", "G")
        (again,) = await client.receive(attempt_id="one")
        assert (again.body, again.deliveries) == (b"1", 0)

    lite(work)


def test_an_acknowledgement_without_the_lite_topic_takes_it_from_the_record(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        (message,) = await client.receive()
        await message.ack(lite_topic="")
        await served.send("a", b"2")
        assert await client.bodies() == [b"2"]

    lite(work)


def test_messages_for_a_client_that_has_gone_are_given_back(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        waiting = asyncio.ensure_future(client.bodies(wait_ms=20_000))
        cancelled = asyncio.ensure_future(client.bodies(wait_ms=20_000))
        await served.clock.sleep(1.0)
        client.heartbeat()
        client.close()
        for each in (waiting, cancelled):
            with pytest.raises(ConnectionLost):
                await each
        await served.send("a", b"1")
        second = served.client("c2")
        await second.subscribe("a")
        cancelled = asyncio.ensure_future(second.receive(wait_ms=20_000))
        await asyncio.sleep(0)
        cancelled.cancel()
        (again,) = await second.receive(wait_ms=5_000)
        assert again.body == b"1"

    lite(work)


def test_a_dead_letter_is_stored_and_is_not_a_new_message_of_the_lite_topic(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        (message,) = await client.receive()
        await served.lite.forward_to_dead_letters(message.name, message.receipt.log_offset)
        await served.send("a", b"2")
        assert await client.bodies(wait_ms=1_000) == [b"2"]
        dead = await served.broker.messages.get(Queue("%DLQ%G", 0), 0, GetLimit())
        assert [bytes(each.body) for each in iter_records(dead.buffers[0])] == [b"1"]

    lite(work)


def test_a_receive_costs_its_marks_and_not_its_subscriptions(lite):
    topics, clients = 10_000, 1_000

    async def work(served):
        consumers = []
        for number in range(clients):
            client = served.client(f"c{number}")
            await client.subscribe(*(f"t{each}" for each in range(number, topics, clients)))
            consumers.append(client)
        receives = served.lite._receives
        before = receives.looked_at
        for number in range(100):
            await served.send(f"t{number * 7}", b"x")
        assert [len(await consumers[number * 7].receive()) for number in range(100)] == [1] * 100
        assert [await each.bodies() for each in consumers] == [[]] * clients
        assert receives.looked_at - before == 100

    lite(work)
