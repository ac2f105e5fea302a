"""Offsets of groups after a crash: after the delivered messages, and never past undelivered ones."""

import asyncio

import pytest
from pop_client import PopClient, send_numbered
from test_crashes import Rig

from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_pop.service import PopService
from gantrymq_testing.simulated import simulate

SAVED_S = 20  # offsets are saved by then


async def pop_all(client, count, but):
    """Pop and acknowledge *count* messages except the one at offset *but*; its checkpoint stays in the log."""
    found = 0
    while found < count:
        answer = await client.pop(most=32, invisible=600_000)
        found += len(answer.messages)
        for message in answer.messages:
            if message.offset != but:
                assert (await client.ack(message)).code == 0


@pytest.mark.parametrize("taken", [True, False])
def test_a_reset_persists(taken):
    async def main(world):
        rig = Rig(world, 1, 0)
        await rig.start()
        async with PopClient(rig) as client:
            await send_numbered(client, 100)
            await pop_all(client, 100, but=0)
            await client.clock.sleep(SAVED_S)
            rig.server.tables.offsets.reset("CG", Queue("T", 0), 0)
            if taken:
                assert len((await client.pop(most=10, invisible=600_000)).messages) == 10
            await client.clock.sleep(SAVED_S)
            rig.process.kill()
            await client.clock.sleep(2)
            await rig.start()
            answer = await client.pop(most=32, invisible=60_000)
            assert answer.messages[0].offset == (10 if taken else 0)
            assert len(answer.messages) == 32
            await rig.process.run(rig.server.stop())

    simulate(1, main, limit_s=3600)


def test_a_topic_made_anew_is_read_from_its_start_and_its_messages_come_once():
    async def main(world):
        rig = Rig(world, 1, 0)
        await rig.start()
        async with PopClient(rig) as client:
            await send_numbered(client, 40)
            await pop_all(client, 40, but=0)
            assert (await client.ask(215, {"topic": "T"})).code == 0
            await client.clock.sleep(5)
            rig.process.enter(rig.broker.topics.put, TopicConfig("T", 3, 3))
            await client.clock.sleep(SAVED_S)
            await send_numbered(client, 50)
            await client.clock.sleep(SAVED_S)
            rig.process.kill()
            await client.clock.sleep(2)
            await rig.start()
            await pop_all(client, 50, but=-1)
            assert rig.broker.offsets.committed("CG", Queue("T", 0)) == 50
            await client.clock.sleep(700)
            assert (await client.pop()).code == 210  # records of the old topic refer to no message of the new one
            await rig.process.run(rig.server.stop())

    simulate(1, main, limit_s=3600)


def test_a_kill_between_the_stop_of_the_service_and_the_save_gives_nothing_out_twice(monkeypatch):
    async def main(world):
        rig = Rig(world, 1, 0)
        stops = PopService.stop

        async def stop_and_die(service):
            await stops(service)
            monkeypatch.setattr(PopService, "stop", stops)
            rig.process.kill()
            await asyncio.sleep(10**6)

        monkeypatch.setattr(PopService, "stop", stop_and_die)
        await rig.start()
        async with PopClient(rig) as client:
            await send_numbered(client, 10)
            await client.clock.sleep(SAVED_S)
            assert len((await client.pop(invisible=600_000)).messages) == 10
            stopping = asyncio.ensure_future(rig.process.run(rig.server.stop()))
            await client.clock.sleep(3)
            await rig.start()
            assert (await client.pop()).code == 210
            await rig.process.run(rig.server.stop())
        stopping.cancel()
        await asyncio.wait([stopping])

    simulate(1, main, limit_s=3600)


def test_a_message_changed_before_a_reset_does_not_move_the_group_after_it():
    """Its checkpoint is written again, and does not affect the group's offset."""

    async def main(world):
        rig = Rig(world, 1, 0)
        await rig.start()
        async with PopClient(rig) as client:
            await send_numbered(client, 40)
            messages = (await client.pop(most=32, invisible=600_000)).messages
            await client.clock.sleep(SAVED_S)
            rig.server.tables.offsets.reset("CG", Queue("T", 0), 0)
            await client.clock.sleep(SAVED_S)
            assert (await client.change(messages[30], 500_000)).code == 0
            rig.process.kill()
            await client.clock.sleep(2)
            await rig.start()
            assert (await client.pop()).messages[0].offset == 0
            await rig.process.run(rig.server.stop())

    simulate(1, main, limit_s=3600)
