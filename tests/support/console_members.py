"""Members and offsets of consumer groups for tests of the console, made by plain requests."""

from __future__ import annotations

from typing import Any

from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest


def join(visitor: Any, group: str, client_id: str, topic: str, expression: str = "*", **more: str) -> None:
    """Let the console's own connection say that it is a member of *group*; *more* are members of the heartbeat."""
    wanted = [{"topic": topic, "subString": expression, "subVersion": 1, "expressionType": "TAG"}]
    said = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", **more}
    consumer = {"groupName": group, "subscriptionDataSet": wanted, **said}
    body = dumps({"clientID": client_id, "consumerDataSet": [consumer]})

    async def beat() -> None:
        await visitor.client.admin.request(visitor.running.broker_address, RequestCode.HEART_BEAT, body=body)

    visitor.running.run(beat())


def produce(visitor: Any, group: str, client_id: str) -> None:
    """Let the console's own connection say that it is a producer."""
    body = dumps({"clientID": client_id, "producerDataSet": [{"groupName": group}]})

    async def beat() -> None:
        await visitor.client.admin.request(visitor.running.broker_address, RequestCode.HEART_BEAT, body=body)

    visitor.running.run(beat())


def commit(visitor: Any, group: str, topic: str, queue_offset: int = 1, queue_id: int = 0) -> None:
    """Commit an offset of a group, which creates the group."""

    async def work() -> None:
        admin, address = visitor.client.admin, visitor.running.broker_address
        if group not in await admin.groups(address):
            await admin.create_group(address, GroupConfig(group))
        name = next(iter(await admin.topic_stats(address, topic))).broker_name
        await admin.commit_offset(group, MessageQueue(topic, name, queue_id), queue_offset)

    visitor.running.run(work())


async def make_dead(visitor: Any, group: str, bodies: list[bytes]) -> None:
    """Store messages as dead letters of *group*: a member sends them back with the delay level -1."""
    cluster, admin = visitor.running.cluster, visitor.client.admin
    await cluster.create_topic("Orders", 1)
    sent = [await cluster.send("Orders", body, keys=body.decode()) for body in bodies]
    heartbeat = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": group}]})
    await admin.request(cluster.broker_address, RequestCode.HEART_BEAT, body=heartbeat)
    for each in sent:
        offset = int(each.offset_id[16:], 16)
        back = ConsumerSendMsgBackRequest(offset=offset, group=group, delay_level=-1, origin_topic="Orders")
        await admin.request(cluster.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
    if bodies:
        await visitor.client.wait_ready(f"%DLQ%{group}")
