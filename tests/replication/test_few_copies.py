"""What a master stores while too few slaves have its log: messages of clients, and what its plugins write."""

import asyncio

import pytest
from ha_pairs import end, following, replicas, simulate_pair

from gantrymq.client import Client, Message, TransactionState
from gantrymq.errors import GantryError
from gantrymq.model.group import GroupConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest, EndTransactionRequest, SendMessageRequest

SHORT = "in-sync replicas not enough: 1 in sync, minInSyncReplicas=2"
HOUR_MS = 3_600_000


class Senders:
    """Every request by which a client has a message stored, at a broker that has one of each kind to refer to."""

    def __init__(self, cluster, client):
        self._client, self._admin, self._broker = client, client.admin, cluster.broker
        self._address = cluster.broker.registration.address

    async def prepare(self):
        """Store a message to send back, one to recall, and a half message."""
        self._producer = self._client.producer("p")
        self._transactions = self._client.transaction_producer("t", lambda _: TransactionState.UNKNOWN)
        await self._admin.create_group(self._address, GroupConfig("g"))
        self._sent = await self._producer.send(Message("Orders", b"sent"))
        self._timed = await self._producer.send(Message("Orders", b"timed", delay_ms=HOUR_MS))
        self._half = await self._send_half()

    def all(self):
        """Name to a call."""
        send = self._producer.send
        return {
            "send": lambda: send(Message("Orders", b"1")),
            "batch": lambda: self._producer.send_batch([Message("Orders", b"2"), Message("Orders", b"3")]),
            "delayed": lambda: send(Message("Orders", b"4", delay_level=2)),
            "timed": lambda: send(Message("Orders", b"5", delay_ms=HOUR_MS)),
            "half": self._send_half,
            "new topic": lambda: send(Message("Fresh", b"7")),
            "reply": self._reply,
            "send back": lambda: self._request(RequestCode.CONSUMER_SEND_MSG_BACK, self._back(0)),
            "dead letter": lambda: self._request(RequestCode.CONSUMER_SEND_MSG_BACK, self._back(-1)),
            "end": lambda: self._request(RequestCode.END_TRANSACTION, self._end()),
            "recall": lambda: self._producer.recall("Orders", self._timed.recall_handle),
        }

    async def _send_half(self):
        async with self._transactions.transaction(Message("Orders", b"half")) as transaction:
            transaction.state = TransactionState.UNKNOWN
            return transaction.sent

    def _request(self, code, header, body=None):
        return self._admin.request(self._address, code, header, body)

    def _back(self, level):
        return ConsumerSendMsgBackRequest(offset=self._offset(self._sent), group="g", delay_level=level)

    def _offset(self, sent):
        return int(sent.offset_id[16:], 16)

    def _end(self):
        return EndTransactionRequest(
            producer_group="t",
            tran_state_table_offset=self._half.queue_offset,
            commit_log_offset=self._offset(self._half),
            commit_or_rollback=8,
            msg_id=self._half.message_id,
            transaction_id=self._half.message_id,
        )

    def _reply(self):
        header = SendMessageRequest(
            producer_group="p",
            topic="DefaultCluster_REPLY_TOPIC",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
        )
        return self._request(RequestCode.SEND_REPLY_MESSAGE, header, b"reply")


def skip_without_plugins():
    for plugin in ("pop", "request_reply", "schedule", "transaction"):
        pytest.importorskip(f"gantrymq_{plugin}")


def test_no_message_of_a_client_is_stored():
    skip_without_plugins()

    async def main(pair):
        master = await pair.master(minInSyncReplicas=2, recallMessageEnable=True)
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave) and replicas(master), "slave")
        await pair.world.clock.sleep(1)
        async with Client(master.namesrv, world=pair.world) as client:
            senders = Senders(master, client)
            await senders.prepare()
            for name, call in senders.all().items():
                if name not in ("new topic", "reply", "end", "recall"):  # these are for later, or would fail
                    await call()
            await slave.stop()
            await pair.until(lambda: not replicas(master), "end of the slave")
            await pair.world.clock.sleep(15)  # what was delayed is delivered
            stored, topics = end(master), set(master.broker.topics.view)
            for name, call in senders.all().items():
                with pytest.raises(GantryError, match=SHORT):
                    await call()
                    pytest.fail(f"{name} is accepted")
            assert end(master) == stored
            assert set(master.broker.topics.view) == topics

    simulate_pair(main)


@pytest.mark.parametrize("settings", [{"minInSyncReplicas": 2}, {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}])
def test_delivery_goes_on(settings):
    """Delayed and timed messages, committed ones, retries and pops; in RocketMQ's classic mode as well."""
    skip_without_plugins()

    async def main(pair):
        master = await pair.master(**settings)
        slave = await pair.slave(master)
        await pair.until(lambda: following(slave) and replicas(master), "slave")
        await pair.world.clock.sleep(1)
        async with Client(master.namesrv, world=pair.world) as client:
            producer = client.producer("p")
            await producer.send(Message("Orders", b"now"))
            await producer.send(Message("Orders", b"delayed", delay_level=2))
            await producer.send(Message("Orders", b"timed", delay_ms=6000))
            await slave.stop()
            await pair.until(lambda: not replicas(master), "end of the slave")
            popped = []

            async def consume():
                async with client.pop_consumer("g", "Orders", invisible_s=20) as consumer:
                    async for message in consumer:
                        popped.append(message.body)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consume(), 120)  # nothing is delivered again
            assert sorted(popped) == [b"delayed", b"now", b"timed"]

    simulate_pair(main)
