"""Pops over bare requests, in the form of RocketMQ's client."""

import base64

from gantrymq.formats.record import iter_records
from gantrymq.loose_json import dumps
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request


class Message:
    """A popped message with its receipt handle."""

    def __init__(self, record, topic, handle):
        self.body = bytes(record.body)
        self.properties = dict(record.properties)
        self.queue_id, self.offset = record.queue_id, record.queue_offset
        self.times = record.reconsume_times
        self.record_topic = record.topic
        self.topic, self.handle = topic, handle  # the real topic


class Answer:
    """A pop's answer, and the messages with their handles, built as in RocketMQ's client."""

    def __init__(self, answer, topic, group):
        self.code, self.remark, self.ext = answer.code, answer.remark, answer.ext or {}
        self.messages = []
        if answer.code != 0:
            return
        starts = {}
        for piece in self.ext["startOffsetInfo"].split(";"):
            kind, queue_id, start = piece.split(" ")
            starts[kind, int(queue_id)] = start
        places = {}
        for piece in self.ext["msgOffsetInfo"].split(";"):
            kind, queue_id, offsets = piece.split(" ")
            for offset in offsets.split(","):
                places.setdefault((int(queue_id), int(offset)), kind)
        for record in iter_records(answer.payload):
            handle = record.properties.get("POP_CK")
            kind = handle.split(" ")[4] if handle else str(int(record.topic.startswith("%RETRY%")))
            if handle is None:
                handle = (
                    f"{starts[kind, record.queue_id]} {self.ext['popTime']} {self.ext['invisibleTime']} "
                    f"{self.ext['reviveQid']} {kind} {'broker-a'} {record.queue_id} {record.queue_offset}"
                )
            mark = {"1": "_", "2": "+"}.get(kind)
            self.messages.append(Message(record, f"%RETRY%{group}{mark}{topic}" if mark else topic, handle))

    @property
    def bodies(self):
        return [each.body for each in self.messages]


class PopClient:
    """One connection; `broker_address` may change with a restart of the cluster."""

    def __init__(self, cluster, group="CG"):
        self.cluster, self.group = cluster, group
        self.clock = cluster.world.clock
        self.remoting = RemotingClient(cluster.world)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        await self.remoting.close()

    async def ask(self, code, ext=None, body=None, timeout_s=100.0):
        return await self.remoting.call(self.cluster.broker_address, request(code, ext, body), timeout_s=timeout_s)

    async def pop(self, *, topic="T", queue=-1, most=32, invisible=10_000, poll=0, mode=0, group=None, **more):
        group = group or self.group
        ext = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": str(queue),
            "maxMsgNums": str(most),
            "invisibleTime": str(invisible),
            "pollTime": str(poll),
            "bornTime": str(self.clock.now_ms()),
            "initMode": str(mode),
            **more,
        }
        return Answer(await self.ask(200050, ext), topic, group)

    def ack_fields(self, message, **more):
        return {
            "consumerGroup": self.group,
            "topic": message.topic,
            "queueId": str(message.queue_id),
            "extraInfo": message.handle,
            "offset": str(message.offset),
            **more,
        }

    async def ack(self, message, **more):
        return await self.ask(200051, self.ack_fields(message, **more))

    async def change(self, message, invisible, **more):
        return await self.ask(200053, self.ack_fields(message, invisibleTime=str(invisible), **more))

    async def batch_ack(self, messages, **more):
        """Acknowledge messages of one checkpoint."""
        start, pop_time, invisible, revive, kind, broker, queue_id, _ = messages[0].handle.split(" ")
        bits = bytearray(64)
        for each in messages:
            bits[(each.offset - int(start)) >> 3] |= 1 << ((each.offset - int(start)) & 7)
        ack = {"c": self.group, "t": "T", "r": kind, "so": int(start), "q": int(queue_id), "rq": int(revive)}
        ack |= {"pt": int(pop_time), "it": int(invisible), "b": base64.b64encode(bits).decode(), **more}
        return await self.ask(200151, None, dumps({"brokerName": broker, "acks": [ack]}))

    async def send(self, *bodies, topic="T", queue_id=0, **more):
        for body in bodies:
            await self.cluster.put(topic, body, queue_id=queue_id, **more)


async def send_numbered(client, count):
    """Send *count* messages to queue 0 of T, each with its number as body."""
    for number in range(count):
        ext = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": str(client.clock.now_ms())}
        ext |= {"h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
        assert (await client.ask(310, ext, b"%d" % number)).code == 0
