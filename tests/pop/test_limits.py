"""Limits of waiting pops and checkpoints, resets, and the plugin's registrations."""

import asyncio

import pytest
from pop_client import PopClient

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.interfaces import GetLimit
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.remoting.codes import RequestCode
from gantrymq_pop import plugin
from gantrymq_pop.settings import SCHEMA
from gantrymq_pop.topics import REVIVE_GROUP

IN_FLIGHT = "rocketmq_consumer_inflight_messages"


class Registry(dict):
    def add(self, key, value=None):
        self[getattr(key, "name", getattr(key, "key", key))] = value


def test_registers_one_service_and_its_handlers():
    services, handlers, settings = Registry(), Registry(), Registry()
    plugin.gantry_register_config(settings)
    plugin.gantry_register_handlers(handlers)
    plugin.gantry_register_services(services)
    assert list(services) == ["pop"]
    codes = {200050, 200051, 200052, 200053, 200054, 200055, 200056, 200151, 400, 401, 402}
    assert {RequestCode[name].value for name in handlers} == codes
    assert settings.keys() == {each.key for each in SCHEMA}


def test_the_store_of_pops_in_rocksdb_is_refused():
    with pytest.raises(ConfigError, match="pop state in RocksDB is not built"):
        Settings(SCHEMA).set("popConsumerKVServiceEnable", True, "broker.conf line 1")


def test_more_pops_than_may_wait_are_told_so(popped):
    async def main(client):
        waiting = [asyncio.ensure_future(client.pop(poll=5000)) for _ in range(3)]
        await client.clock.sleep(1)
        told = await client.pop(poll=5000)
        assert (told.code, "gantrymq broker config set popPollingSize=N" in told.remark) == (209, True)
        assert (await client.pop(poll=5000, group="other")).code == 210
        await asyncio.gather(*waiting)

    popped(main, settings={"popPollingSize": 3})


def test_what_is_out_is_counted_until_it_is_acknowledged_or_comes_back(popped):
    async def main(client):
        def in_flight():
            (found,) = [each for each in client.cluster.broker.metrics.of_plugins() if each.name == IN_FLIGHT]
            return dict(found.values)

        await client.send(b"1", b"2", b"3")
        assert in_flight() == {}
        one, *_ = (await client.pop(invisible=5000)).messages
        assert in_flight() == {("T", "CG", "false", "false"): 3}
        await client.ack(one)
        assert in_flight() == {("T", "CG", "false", "false"): 2}
        await client.clock.sleep(7)
        assert in_flight() == {}
        await client.pop(most=1)
        assert in_flight() == {("T", "CG", "true", "false"): 1}

    popped(main)


def test_a_pop_that_comes_too_late_is_not_looked_at(popped):
    async def main(client):
        await client.send(b"1")
        late = str(client.clock.now_ms() - 5000)
        assert (await client.pop(poll=1000, bornTime=late)).code == 210
        assert (await client.pop()).bodies == [b"1"]

    popped(main)


def test_what_memory_has_no_room_for_comes_back_from_the_log(popped):
    """Two checkpoints fit in memory, the others stay in the log; acknowledgements are applied to both."""

    async def main(client):
        await client.send(*(b"%d" % each for each in range(10)))
        answers = [await client.pop(most=1, invisible=3000) for _ in range(10)]
        for each in answers[::2]:
            assert (await client.ack(each.messages[0])).code == 0
        back = []
        while len(back) < 5:
            answer = await client.pop(poll=5000, invisible=60_000)
            assert answer.code == 0
            for each in answer.messages:
                back.append(each.body)
                assert (await client.ack(each)).code == 0
        assert sorted(back) == [b"1", b"3", b"5", b"7", b"9"]
        assert (await client.pop(poll=20_000)).code == 210

    popped(main, settings={"popCkMaxBufferSize": 2})


def test_a_reset_from_outside_is_where_the_next_pop_begins(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        assert len((await client.pop()).messages) == 3
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "commitOffset": "1"}
        assert (await client.ask(15, ext)).code == 0
        assert (await client.pop()).bodies == [b"2", b"3"]

    popped(main)


def test_a_revive_log_that_lost_its_end_is_written_on(popped):
    """After a power loss the committed position may be after the log's end; later pops are still redelivered."""

    async def main(client):
        broker = client.cluster.broker
        for each in range(8):
            queue = Queue("rmq_sys_REVIVE_LOG_DefaultCluster", each)
            broker.offsets.commit(REVIVE_GROUP, queue, broker.store.bounds(queue).max_offset)
        await client.cluster.restart()
        await client.send(b"1")
        assert (await client.pop(invisible=2000)).bodies == [b"1"]
        assert (await client.pop(poll=5000)).bodies == [b"1"]

    pytest.importorskip("gantrymq_storage_mmap")
    popped(main, settings={"store": "mmap"})


def test_a_reset_by_an_operator_is_where_the_next_pop_begins(popped):
    async def main(client):
        await client.send(b"1", b"2", b"3")
        assert len((await client.pop()).messages) == 3
        client.cluster.server.tables.offsets.reset("CG", Queue("T", 0), 2)
        assert (await client.pop()).bodies == [b"3"]
        assert (await client.pop()).code == 210

    popped(main)


def test_a_pop_of_a_group_that_is_switched_off_is_refused(popped):
    async def main(client):
        await client.pop()
        group = {"groupName": "CG", "consumeEnable": False}
        assert (await client.ask(200, None, dumps(group))).code == 0
        assert (await client.pop()).code == 16

    popped(main)


def test_waiting_clients_are_answered_when_the_broker_stops(popped):
    async def main(client):
        waiting = asyncio.ensure_future(client.pop(poll=30_000))
        await client.clock.sleep(1)
        await client.cluster.server.stop()
        answer = await waiting
        assert answer.code in (210, 14)

    popped(main)


def test_acknowledgements_of_a_checkpoint_that_a_timer_brings_go_the_same_way(popped):
    """Like a store of a Java broker, which still has the checkpoint in its timer."""

    async def main(client):
        await client.send(b"1")
        now = client.clock.now_ms()
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "offset": "0"}
        handle = f"0 {now - 1000} 9000 3 0 broker-a 0 0"
        assert (await client.ask(200051, {**ext, "extraInfo": handle})).code == 0
        broker = client.cluster.broker
        found = [
            await broker.messages.get(Queue(name, each), 0, GetLimit())
            for name in broker.topics.view
            for each in range(8)
        ]
        records = b"".join(bytes(buffer) for each in found for buffer in each.buffers)
        assert b"TIMER_DELIVER_MS\x01%d\x02" % (now + 8000) in records

    popped(main)


def test_pops_of_a_client_that_reads_nothing_wait_and_others_get_the_messages(popped):
    async def main(client):
        for _ in range(30):
            await client.send(bytes(400_000))
        greedy = PopClient(client.cluster)
        async with greedy:
            connection = await greedy.remoting.connect(client.cluster.broker_address)
            connection._writes.transport.pause_reading()
            asked = [asyncio.ensure_future(greedy.pop(most=1, queue=0)) for _ in range(30)]
            await client.clock.sleep(2)
            left = 0
            while (answer := await client.pop(most=1, queue=0)).code == 0:
                left += len(answer.messages)
            assert 10 < left < 29
            connection._writes.transport.resume_reading()
            answers = await asyncio.gather(*asked)
            assert sum(len(answer.messages) for answer in answers) == 30 - left

    popped(main)
