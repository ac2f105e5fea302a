"""Detection of batch queues with a scripted broker."""

import asyncio
import json

import pytest

from gantrymq.client import Client, Message
from gantrymq.model import properties
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

BATCH, CONFIG = RequestCode.SEND_BATCH_MESSAGE, RequestCode.GET_TOPIC_CONFIG
MESSAGES = [Message("T", b"a"), Message("T", b"b")]


def told(**attributes):
    return Command(0, body=json.dumps({"topicName": "T", "attributes": attributes}).encode())


BATCHED = told(**{"queue.type": "BatchCQ"})


def envelopes(c):
    return [properties.decode_text(request.ext["i"]) for peer in c.brokers.values() for request in peer.of(BATCH)]


@pytest.mark.parametrize(
    ("answer", "inner"),
    [
        (BATCHED, True),
        (told(**{"queue.type": "SimpleCQ"}), False),
        (told(), False),
        (Command(0, body=b"[]"), False),
        (Command(3, remark="older"), False),
        (Command(17, remark="no such topic"), False),
        (None, False),
    ],
)
def test_a_batch_has_an_id_where_the_topic_has_batch_queues(simulate, cluster, answer, inner):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            for peer in c.brokers.values():
                peer.answers[CONFIG] = answer
            await producer.send_batch(MESSAGES)
            (envelope,) = envelopes(c)
            assert ("UNIQ_KEY" in envelope) is inner

    simulate(work)


def test_many_batches_ask_once_and_a_guess_is_asked_again(simulate, cluster):
    async def work(world):
        async with cluster(world, "a") as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            peer = c.brokers["a"]
            await asyncio.gather(*(producer.send_batch(MESSAGES) for _ in range(20)))
            assert len(peer.of(CONFIG)) == 1
            peer.answers[CONFIG] = BATCHED
            await world.clock.sleep(31)
            await producer.send_batch(MESSAGES)  # answered from the cache; starts a request
            await world.clock.sleep(1)
            await producer.send_batch(MESSAGES)
            await world.clock.sleep(200)
            await producer.send_batch(MESSAGES)
            assert len(peer.of(CONFIG)) == 2
            assert ["UNIQ_KEY" in each for each in envelopes(c)] == [False] * 21 + [True] * 2

    simulate(work)
