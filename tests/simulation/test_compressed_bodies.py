"""A compressed body keeps its bytes and its compression flags on every path that a message can take."""

from __future__ import annotations

import zlib
from importlib.util import find_spec

import pytest

from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, SendRequest
from gantrymq.loose_json import dumps
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_MASK,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    TRANSACTION_PREPARED,
)
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest, EndTransactionRequest

PLUGINS = ("schedule", "transaction", "pop", "filter_tag", "storage_mmap")
pytestmark = pytest.mark.skipif(
    any(find_spec(f"gantrymq_{each}") is None for each in PLUGINS), reason=f"needs the plugins {', '.join(PLUGINS)}"
)

BITS = {"zlib": COMPRESSION_ZLIB, "lz4": COMPRESSION_LZ4, "zstd": COMPRESSION_ZSTD, "old zlib": 0}
KEPT = COMPRESSED | COMPRESSION_MASK
BODY = zlib.compress(b"the broker never looks inside " * 100) + b"\0\x01\x02\xff"
PREPARED = {"TRAN_MSG": "true", "PGROUP": "PG"}
OFTEN = {"transactionCheckInterval": 1000, "transactionTimeOut": 1000, "transactionCheckMax": 2}
SETTINGS = {"store": "mmap", **OFTEN}
IDENTITY = "7F0000010001AAAAAAAA000000000001"


class Client:
    """Sends requests to the broker of a cluster, and reads its store."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.remoting = RemotingClient(cluster.world)

    async def ask(self, code, ext, body=None):
        answer = await self.remoting.call(self.cluster.broker_address, request(code, ext, body))
        assert answer.code == 0, answer.remark
        return answer

    async def send(self, sys_flag, **own):
        text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": IDENTITY, **own}.items())
        answer = await self.cluster.broker.messages.send(
            SendRequest("PG", "T", BODY, text, queue_id=0, sys_flag=sys_flag)
        )
        return answer.results[0]

    async def stored(self, queue):
        found = await self.cluster.broker.messages.get(queue, 0, GetLimit(32))
        return [record for buffer in found.buffers for record in iter_records(buffer)]

    async def commit(self, bits, **own):
        half = await self.send(bits | TRANSACTION_PREPARED, **PREPARED, **own)
        end = EndTransactionRequest(
            producer_group="PG",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=8,
            msg_id=IDENTITY,
        )
        await self.ask(RequestCode.END_TRANSACTION, end.to_ext())

    async def send_back(self, bits, level):
        sent = await self.send(bits)
        body = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": "CG"}]})
        await self.ask(RequestCode.HEART_BEAT, None, body)
        back = ConsumerSendMsgBackRequest(offset=sent.log_offset, group="CG", delay_level=level, origin_topic="T")
        await self.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back.to_ext())


async def given_up(client, bits):
    await client.send(bits | TRANSACTION_PREPARED, **PREPARED)
    body = dumps({"clientID": "p1", "producerDataSet": [{"groupName": "PG"}]})
    await client.ask(RequestCode.HEART_BEAT, None, body)


async def popped_again(client, bits):
    await client.send(bits)
    now_ms = str(client.cluster.world.clock.now_ms())
    ext = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "maxMsgNums": "1", "invisibleTime": "5000"}
    await client.ask(RequestCode.POP_MESSAGE, {**ext, "pollTime": "0", "bornTime": now_ms, "initMode": "0"})


SCHEDULE, TIMER, HALF = Queue("SCHEDULE_TOPIC_XXXX", 1), Queue("rmq_sys_wheel_timer", 0), Queue(HALF_TOPIC, 0)
T, RETRY, DEAD = Queue("T", 0), Queue("%RETRY%CG", 0), Queue("%DLQ%CG", 0)
WAYS = {  # by path: the function that sends a message along it, and the queues that store the message
    "level": (lambda client, bits: client.send(bits, DELAY="2"), (SCHEDULE, T)),
    "timer": (lambda client, bits: client.send(bits, TIMER_DELAY_SEC="5"), (TIMER, T)),
    "transaction": (lambda client, bits: client.commit(bits), (HALF, T)),
    "delayed transaction": (lambda client, bits: client.commit(bits, TIMER_DELAY_SEC="5"), (HALF, TIMER, T)),
    "given-up transaction": (given_up, (HALF, Queue(CHECK_MAX_TIME_TOPIC, 0))),
    "retry": (lambda client, bits: client.send_back(bits, 2), (T, SCHEDULE, RETRY)),
    "dead letter": (lambda client, bits: client.send_back(bits, -1), (T, DEAD)),
    "pop": (popped_again, (T, Queue("%RETRY%CG_T", 0))),
}


@pytest.mark.parametrize("compression", BITS)
@pytest.mark.parametrize("way", WAYS)
def test_bits_and_bytes_stay(gantrymq_simulation, way, compression):
    bits = COMPRESSED | BITS[compression]
    go, queues = WAYS[way]

    async def work(cluster):
        await cluster.create_topic("T", 1)
        client = Client(cluster)
        await go(client, bits)
        await cluster.world.clock.sleep(10)
        for queue in queues:
            records = await client.stored(queue)
            assert records, queue
            assert {record.sys_flag & KEPT for record in records} == {bits}
            assert {bytes(record.body) for record in records} == {BODY}
        await client.remoting.close()

    gantrymq_simulation(work, settings=SETTINGS)
