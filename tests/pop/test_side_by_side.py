"""Concurrent requests, and different entries of a batch."""

import asyncio
import base64

import pytest

from gantrymq.broker.messages import BrokerMessages
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq_pop.checkpoints import MOST
from gantrymq_pop.pop_queue import PopQueue


def test_an_entry_of_a_batch_that_cannot_be_taken_leaves_the_others_alone(popped):
    async def main(client):
        await client.send(b"1", b"2")
        (message, _) = (await client.pop(invisible=3000)).messages
        start, pop_time, invisible, revive, kind, broker, queue_id, _ = message.handle.split()
        good = {"c": "CG", "t": "T", "r": kind, "so": int(start), "q": int(queue_id), "rq": int(revive)}
        good |= {"pt": int(pop_time), "it": int(invisible), "b": base64.b64encode(b"\x03" + bytes(7)).decode()}
        answer = await client.ask(200151, None, dumps({"brokerName": broker, "acks": [{**good, "t": "Gone"}, good]}))
        assert (answer.code, "Gone" in answer.remark) == (17, True)
        assert (await client.pop(poll=8000)).code == 210

    popped(main)


def test_two_changes_at_once_have_one_outcome(popped, monkeypatch):
    async def main(client):
        stores = BrokerMessages.put_all

        async def slow(self, messages, *, skip_interceptors=False):
            results = await stores(self, messages, skip_interceptors=skip_interceptors)
            await client.clock.sleep(0.03)
            return results

        monkeypatch.setattr(BrokerMessages, "put_all", slow)
        await client.send(b"1")
        (message,) = (await client.pop()).messages
        first = asyncio.ensure_future(client.change(message, 20_000))
        await client.clock.sleep(0.01)
        second = await client.change(message, 20_000)
        assert (await first).ext == second.ext
        message.handle = f"0 {second.ext['popTime']} 20000 {second.ext['reviveQid']} 0 broker-a 0 0"
        assert (await client.ack(message)).code == 0
        assert (await client.pop(poll=40_000)).code == 210

    popped(main)


def test_a_message_that_was_delayed_comes_back_without_a_delay(popped):
    async def main(client):
        await client.send(b"1", properties={"DELAY": "5"})
        assert (await client.pop(poll=90_000, invisible=2000)).bodies == [b"1"]
        assert (await client.pop(poll=3500)).bodies == [b"1"]

    popped(main)


def test_a_record_that_no_pop_made_is_left_out(popped):
    async def main(client):
        await client.send(b"1")
        topic = "rmq_sys_REVIVE_LOG_DefaultCluster"
        for number in (MOST + 1, 3_000_000, 0):
            body = f'{{"bm":0,"bn":"broker-a","c":"CG","it":1,"n":{number},"pt":1,"q":0,"ro":0,"so":0,"t":"T"}}'
            await client.cluster.put(topic, body.encode(), queue_id=0, properties={"TAGS": "ck"})
        await client.clock.sleep(10)
        assert (await client.pop(poll=3000)).bodies == [b"1"]

    popped(main)


def test_a_hole_in_front_of_the_one_that_is_read_leaves_no_trace_of_it():
    queue = PopQueue(0)
    first, second = queue.took(0, 5), queue.took(5, 10)
    queue.failed(second)
    start, end = queue.ahead()
    queue.failed(first)
    queue.stored(queue.took(start, end))
    assert queue.ahead() == (0, 5)
    queue.stored(queue.took(0, 5))
    assert (queue.ahead(), queue.position()) == ((10, None), 10)


def test_many_that_are_due_together_come_back_within_a_second(popped):
    async def main(client):
        pops = 400
        await client.send(*(b"%d" % each for each in range(pops)))
        begun = client.clock.now_ms()
        for _ in range(pops):
            assert (await client.pop(most=1, invisible=begun + 60_000 - client.clock.now_ms())).code == 0
        await client.clock.sleep((begun + 61_000 - client.clock.now_ms()) / 1000)
        assert client.cluster.broker.store.bounds(Queue("%RETRY%CG_T", 0)).max_offset == pops

    pytest.importorskip("gantrymq_storage_mmap")
    popped(main, settings={"store": "mmap"})
