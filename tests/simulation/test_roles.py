"""What waits on a master that becomes a replica goes on when it is a master again: delays, timers, transactions."""

import pytest

from gantrymq.client import Client, Message, TransactionState
from gantrymq.hooks import hookimpl
from gantrymq.model.role import Role
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.send import SendMessageRequest
from gantrymq_testing.simulation import simulate_cluster

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_transaction")
pytest.importorskip("gantrymq_storage_mmap")

DELAY_S = 10


@pytest.mark.parametrize("kind", ["level", "timer"])
def test_a_delayed_message_waits_for_the_next_master(kind):
    async def main(cluster):
        await cluster.create_topic("A", 1)
        async with cluster.producer() as producer:
            options = {"delay_level": 3} if kind == "level" else {"delay_ms": DELAY_S * 1000}
            await producer.send(Message("A", b"late", **options))
        await cluster.broker.role.change(Role.REPLICA, 1)
        await cluster.world.clock.sleep(10 * DELAY_S)
        assert await cluster.pull("A") == []
        end = cluster.store.state().max_log_offset
        await cluster.broker.role.change(Role.MASTER, 2)
        await cluster.world.clock.sleep(5)
        assert [each.body for each in await cluster.pull("A")] == [b"late"]
        assert cluster.store.state().max_log_offset > end
        await cluster.restart()
        assert [each.body for each in await cluster.pull("A")] == [b"late"]

    simulate_cluster(main, settings={"store": "mmap", "mappedFileSizeCommitLog": 1048576})


def test_a_half_message_is_checked_by_the_next_master():
    asked = []

    async def main(cluster):
        await cluster.create_topic("A", 1)

        async def check(message):
            asked.append(cluster.broker.role.epoch)
            return TransactionState.COMMIT

        async with Client(cluster.namesrv, world=cluster.world) as client:
            producer = client.transaction_producer("PG", check)
            async with producer.transaction(Message("A", b"half")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await cluster.broker.role.change(Role.REPLICA, 1)
            await cluster.world.clock.sleep(200)
            assert asked == []
            await cluster.broker.role.change(Role.MASTER, 2)
            await cluster.world.clock.sleep(100)
            assert asked == [2]
            assert [each.body for each in await cluster.pull("A")] == [b"half"]

    simulate_cluster(main, settings={"store": "memory"})


class Standby:
    """A plugin whose broker is a replica from its start on."""

    name = "standby"
    roles = frozenset(Role)

    async def start(self, broker):
        await broker.role.change(Role.REPLICA, 1)

    async def stop(self):
        pass

    @hookimpl
    def gantry_register_services(self, registry):
        registry.add(self)


def listeners(cluster):
    """The number of listeners for each kind of event."""
    tables, arrivals = cluster.server.tables, cluster.broker.messages._arrivals
    return [
        len(tables.topics._deleted._listeners),
        len(tables.groups._deleted._listeners),
        len(tables.clients._gone._listeners),
        len(tables.clients._changed._listeners),
        len(tables.clients._checks),
        len(arrivals._of_all),
        sum(map(len, arrivals._of_queue.values())),
        len(list(cluster.broker.metrics.of_plugins())),
    ]


def test_services_that_stop_leave_no_listeners():
    async def main(cluster):
        before = listeners(cluster)
        for epoch in (1, 3):
            await cluster.broker.role.change(Role.REPLICA, epoch)
            await cluster.broker.role.change(Role.MASTER, epoch + 1)
        assert listeners(cluster) == before

    simulate_cluster(main, settings={"store": "mmap", "mappedFileSizeCommitLog": 1048576})


REPLY = SendMessageRequest(
    producer_group="PG",
    topic="FRESH_REPLY_TOPIC",
    default_topic="TBW102",
    default_topic_queue_nums=1,
    queue_id=0,
    sys_flag=0,
    born_timestamp=0,
    flag=0,
    properties="REPLY_TO_CLIENT\x01p1\x02",
)
END = {
    "producerGroup": "PG",
    "tranStateTableOffset": "0",
    "commitLogOffset": "0",
    "commitOrRollback": "8",
    "msgId": "I",
}
POP = {
    "consumerGroup": "CG",
    "topic": "A",
    "queueId": "0",
    "maxMsgNums": "1",
    "invisibleTime": "10000",
    "pollTime": "0",
    "bornTime": "0",
    "initMode": "0",
}


@pytest.mark.parametrize("from_the_start", [False, True])
def test_a_replica_refuses_requests_to_plugins(from_the_start):
    async def main(cluster):
        remoting, broker = RemotingClient(cluster.world), cluster.broker
        await broker.role.change(Role.REPLICA, 1)
        topics, groups = set(broker.topics.view), set(broker.groups.view)
        end = cluster.store.state().max_log_offset
        for code, ext, expected in (
            (37, END, 11),
            (370, {"producerGroup": "PG", "topic": "A", "recallHandle": "x"}, 11),
            (323, {"topic": "A", "msgId": "x"}, 1),
            (325, REPLY.to_ext_v2(), 14),
            (324, REPLY.to_ext(), 14),
            (200050, POP, 14),
        ):
            answer = await remoting.call(cluster.broker_address, request(code, ext, b"x"), timeout_s=10)
            assert answer.code == expected, (code, answer)
            assert "replica" in answer.remark
        await remoting.close()
        assert (set(broker.topics.view), set(broker.groups.view)) == (topics, groups)
        assert cluster.store.state().max_log_offset == end

    simulate_cluster(main, settings={"store": "memory"}, plugins=[("standby", Standby())] if from_the_start else [])
