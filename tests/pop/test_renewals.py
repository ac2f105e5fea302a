"""Renewed invisible times: the handles of a pop stay valid, also after a restart."""

import asyncio

import pytest
from pop_client import PopClient, send_numbered
from test_crashes import Rig

from gantrymq.errors import ReceiptIllegal
from gantrymq.interfaces import PopAck
from gantrymq_testing.simulated import simulate

POP_MS = 10_000  # invisible time of the pops here


def named(message, group="CG"):
    return PopAck(group, message.topic, message.queue_id, message.offset, message.handle)


def renewed(client, message, invisible_ms=60_000):
    return client.cluster.broker.service("pop").renew(named(message), invisible_ms)


async def comes_back_after(client, poll=200_000):
    """Wait for redelivered messages. Return their bodies and the seconds waited."""
    began = client.clock.now_ms()
    bodies, left = [], 1
    while left:
        found = await client.pop(poll=poll if not bodies else 2_000)
        bodies += found.bodies
        for each in found.messages:
            assert (await client.ack(each)).code == 0
        left = found.bodies
        if len(bodies) == len(found.bodies):
            waited = (client.clock.now_ms() - began) / 1000
    return sorted(bodies), waited


def test_renewed_messages_stay_invisible_and_are_acknowledged_with_their_first_handle(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        messages = (await client.pop()).messages
        await client.clock.sleep(8)
        assert await renewed(client, messages[1]) == [0, 1, 2]
        await client.clock.sleep(50)
        assert await renewed(client, messages[0]) == [0, 1, 2]
        assert (await client.ack(messages[0])).code == 0
        assert (await client.ack(messages[2])).code == 0
        bodies, waited = await comes_back_after(client)
        assert bodies == [b"2"]
        assert waited == pytest.approx(60, abs=1)

    popped(main)


@pytest.mark.parametrize("order", ["false", "true"])
def test_a_message_is_delivered_until_it_is_acknowledged_changed_or_visible(popped, order):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        messages = (await client.pop(queue=0, order=order)).messages
        service = client.cluster.broker.service("pop")

        def delivered():
            return [service.is_delivered(named(each)) for each in messages]

        assert delivered() == [True, True, True]
        assert (await client.ack(messages[0])).code == 0
        assert delivered() == [False, True, True]
        if order == "false":
            assert (await client.change(messages[1], 60_000)).code == 0
            assert delivered() == [False, False, True]
        await client.clock.sleep(8)
        await renewed(client, messages[2])
        await client.clock.sleep(8)
        assert delivered()[2]
        await client.clock.sleep(60)
        await client.pop(queue=0, order=order)
        assert not any(delivered())
        with pytest.raises(ReceiptIllegal, match="of broker elsewhere"):
            service.is_delivered(named(messages[0])._replace(receipt_handle="0 1 1 0 0 elsewhere 0 0"))

    popped(main)


def test_messages_that_are_acknowledged_changed_or_redelivered_are_not_renewed(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        messages = (await client.pop()).messages
        assert (await client.ack(messages[0])).code == 0
        assert (await client.change(messages[1], 5_000)).code == 0
        assert await renewed(client, messages[0]) == [2]
        bodies, waited = await comes_back_after(client, 20_000)
        assert (bodies, waited) == ([b"2"], pytest.approx(5, abs=1))
        assert (await client.ack(messages[2])).code == 0
        assert await renewed(client, messages[2]) == []
        await client.send(b"4")
        (late,) = (await client.pop()).messages
        await client.clock.sleep(12)
        assert await renewed(client, late) == []

    popped(main)


@pytest.mark.parametrize("seed", range(8))
def test_no_message_that_was_acknowledged_beside_renewals_comes_back(popped, seed):
    async def main(client):
        random = client.cluster.world.random
        await client.send(*(b"%d" % each for each in range(24)))
        messages = (await client.pop()).messages
        left = [each for each in messages if each.offset % 5 == 0]

        async def acknowledge(message):
            await client.clock.sleep(random.uniform(0, 40))
            assert (await client.ack(message)).code == 0

        async def renew():
            for _ in range(60):
                await client.clock.sleep(random.uniform(0, 0.6))
                await renewed(client, messages[0])

        await asyncio.gather(renew(), *(acknowledge(each) for each in messages if each not in left))
        assert await renewed(client, messages[0]) == [each.offset for each in left]
        bodies, _ = await comes_back_after(client)
        assert bodies == sorted(each.body for each in left)

    popped(main, seed=seed)


def test_first_handles_of_renewed_messages_are_valid_after_a_crash():
    async def main(world):
        rig = Rig(world, 1, 0)
        await rig.start()
        async with PopClient(rig) as client:
            await send_numbered(client, 3)
            messages = (await client.pop()).messages
            assert (await client.ack(messages[0])).code == 0
            assert await rig.process.run(renewed(client, messages[1])) == [1, 2]
            await client.clock.sleep(1)
            rig.process.kill()
            await client.clock.sleep(2)
            await rig.start()
            await client.clock.sleep(15)
            assert (await client.ack(messages[1])).code == 0
            bodies, waited = await comes_back_after(client)
            assert (bodies, waited < 60) == ([b"2"], True)
            await rig.process.run(rig.server.stop())

    simulate(1, main, limit_s=3600)


def test_ordered_messages_are_renewed(popped):
    async def main(client):
        await client.send(b"1", b"2")
        await client.send(b"3", queue_id=1)
        answer = await client.pop(queue=0, order="true")
        assert answer.bodies == [b"1", b"2"]
        assert (await client.ack(answer.messages[0])).code == 0
        await client.clock.sleep(8)
        assert await renewed(client, answer.messages[1]) == [1]
        await client.clock.sleep(50)
        assert (await client.pop(queue=0, order="true")).code == 210
        await client.clock.sleep(11)
        again = await client.pop(queue=0, order="true")
        assert again.bodies == [b"2"]
        assert await renewed(client, answer.messages[1]) == []

    popped(main)
