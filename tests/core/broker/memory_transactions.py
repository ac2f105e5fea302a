"""A minimal transaction service: a set of undecided messages in memory, read from both queues at startup."""

from __future__ import annotations

from gantrymq.errors import RequestRefused
from gantrymq.formats.record import read_record
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import EndTransaction, GetLimit, Outcome, PutStatus, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import HALF_TOPIC, OP_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request

COMMIT, ROLL_BACK = 8, 12


class MemoryTransactions:
    """Undecided half messages by queue offset."""

    def __init__(self):
        self.open = set()  # queue offsets of half messages
        self.seen = 0  # the half queue's end
        self.checks = 0

    async def start(self, broker):
        self.broker = broker
        for topic in (HALF_TOPIC, OP_TOPIC):
            broker.topics.put(TopicConfig(topic, 1, 1))
        self.arrived(None, broker.store.bounds(Queue(HALF_TOPIC, 0)).max_offset)
        for offset in range(broker.store.bounds(Queue(OP_TOPIC, 0)).max_offset):
            found = await broker.messages.get(Queue(OP_TOPIC, 0), offset, GetLimit(1))
            self.open.discard(int(bytes(read_record(found.buffers[0]).body)))
        broker.messages.on_arrival(self.arrived, Queue(HALF_TOPIC, 0))

    async def stop(self):
        pass

    def arrived(self, queue, end):
        self.open.update(range(self.seen, end))
        self.seen = end

    def prepare(self, message):
        own = props.decode(message.properties) | {"REAL_TOPIC": message.topic, "REAL_QID": str(message.queue_id)}
        message.topic, message.queue_id, message.tags_code = HALF_TOPIC, 0, 0
        message.properties = props.encode(own)
        message.sys_flag &= ~TRANSACTION_MASK
        return message

    async def end(self, request: EndTransaction):
        half = self.broker.messages.read(request.half_log_offset)
        own = {} if half is None or half.topic != HALF_TOPIC else props.decode(half.properties_bytes)
        if own.get("PGROUP") != request.producer_group or half.queue_offset != request.half_queue_offset:
            raise RequestRefused(1, f"no half message of {request.producer_group} at {request.half_log_offset}")
        if request.decision not in (COMMIT, ROLL_BACK):
            return Outcome.IGNORED
        if half.queue_offset not in self.open:
            raise RequestRefused(1, f"the half message at {request.half_log_offset} is decided")
        self.open.discard(half.queue_offset)
        op = StoreMessage(OP_TOPIC, 0, str(half.queue_offset).encode(), b"TAGS\x01d\x02")
        real = StoreMessage(
            own["REAL_TOPIC"],
            int(own["REAL_QID"]),
            bytes(half.body),
            bytes(half.properties_bytes),
            tags_code(own.get("TAGS")),
            flag=half.flag,
            sys_flag=half.sys_flag | TRANSACTION_COMMIT,
            born_timestamp=half.born_timestamp,
            born_host=half.born_host,
            store_host=self.broker.store_host,
            prepared_offset=half.log_offset,
        )
        results = await self.broker.messages.put_all([real, op] if request.decision == COMMIT else [op])
        for result in results:
            if result.status is not PutStatus.OK:
                raise result.error()
        return Outcome.COMMITTED if request.decision == COMMIT else Outcome.ROLLED_BACK

    async def check(self, now_ms):
        self.checks += 1
        for queue_offset in sorted(self.open):
            found = await self.broker.messages.get(Queue(HALF_TOPIC, 0), queue_offset, GetLimit(1))
            half = read_record(found.buffers[0])
            own = props.decode(half.properties_bytes)
            for producer in self.broker.clients.producers(own["PGROUP"])[:1]:
                fields = {
                    "tranStateTableOffset": str(queue_offset),
                    "commitLogOffset": str(half.log_offset),
                    "msgId": own["UNIQ_KEY"],
                    "transactionId": own["UNIQ_KEY"],
                }
                ask = request(RequestCode.CHECK_TRANSACTION_STATE, fields, bytes(half.raw), oneway=True)
                producer.connection.oneway(ask)
