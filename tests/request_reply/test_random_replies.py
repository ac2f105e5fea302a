"""Replies while their producers connect, disconnect, refuse and fall silent, by seed: each gets the expected answer."""

import asyncio
import random

import pytest

from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue
from gantrymq.remoting.command import Command

KEPT = Queue("DefaultCluster_REPLY_TOPIC", 0)
CLIENTS = [f"p{number}" for number in range(5)]
TAKES, REFUSES, SILENT = {326: Command(0)}, {326: Command(1, remark="no")}, {}


@pytest.mark.parametrize("seed", range(8))
def test_an_answer_says_what_became_of_the_reply(replying, seed):
    draw = random.Random(seed)

    async def main(cluster, peer):
        clock = cluster.world.clock
        online = {}
        everyone = []
        replier = peer()
        answers = []

        async def reply(number, client_id):
            answer = await replier.reply({"REPLY_TO_CLIENT": client_id}, b"%d" % number)
            answers.append((number, client_id, answer.code))

        waiting = []
        for number in range(150):
            client_id = draw.choice(CLIENTS)
            step = draw.random()
            if step < 0.15 and client_id not in online:
                online[client_id] = peer()
                online[client_id].is_called = client_id
                everyone.append(online[client_id])
                await online[client_id].produce(client_id)
            elif step < 0.25 and client_id in online:
                await online.pop(client_id).client.close()
                await clock.sleep(0.01)
            elif step < 0.4 and client_id in online:
                online[client_id].answers = draw.choice([TAKES, TAKES, REFUSES, SILENT])
            waiting.append(asyncio.ensure_future(reply(number, client_id)))
            await clock.sleep(draw.choice([0, 0, 0.001, 0.5]))
        await asyncio.gather(*waiting)

        reached = [(int(bytes(push.payload)), each.is_called) for each in everyone for push in each.asked]
        taken = {(number, client_id) for number, client_id, code in answers if code == 0}
        assert len(set(reached)) == len(reached), "a reply was pushed twice"
        assert {code for _, _, code in answers} <= {0, 1}
        assert set(reached) <= {(number, client_id) for number, client_id, _ in answers}, "pushed to another client"
        assert taken <= set(reached), "told that it was taken, and nobody had it"
        found = await cluster.broker.messages.get(KEPT, 0, GetLimit(1000))
        kept = [int(bytes(record.body)) for buffer in found.buffers for record in iter_records(buffer)]
        assert sorted(kept) == sorted(number for number, _, _ in answers), "kept once each"
        assert taken and len(taken) < len(answers)

    replying(main)
