"""Members and offsets of consumer groups for tests of the console, made by plain requests."""

from __future__ import annotations

from typing import Any

from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode


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
