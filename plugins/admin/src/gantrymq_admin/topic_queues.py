"""Reducing the queues of a topic: refused if it hides messages, unless the operator confirms it.

Consumers see read queues only. So remove queues in two steps: first reduce the write queues, then the read queues when
every group has consumed them. The first step hides nothing.

Source: apache/rocketmq client/.../impl/factory/MQClientInstance.java (topicRouteData2TopicSubscribeInfo).
"""

from __future__ import annotations

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import ResponseCode


async def refuse_to_hide(admin: Admin, address: str, wanted: TopicConfig) -> None:
    """Check the topic's configuration at *address* before it becomes *wanted*.

    Raises:
        ClientError: consumers would no longer receive some present or future messages.
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not return its configuration.
    """
    present = await _present(admin, address, wanted.name)
    if present is None or wanted.read_queues >= present.read_queues:
        return
    stats = await admin.topic_stats(address, wanted.name)
    gone = range(wanted.read_queues, present.read_queues)
    held = sum(each.max_offset - each.min_offset for queue, each in stats.items() if queue.queue_id in gone)
    if not held and wanted.write_queues <= wanted.read_queues:
        return
    raise ClientError(_sentence(address, present, wanted, held))


async def _present(admin: Admin, address: str, topic: str) -> TopicConfig | None:
    """Return the number of queues, None without the topic. Before 5.0 a broker returns the larger of both numbers."""
    try:
        return await admin.topic_config(address, topic)
    except BrokerRefused as refusal:
        if refusal.response_code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    try:
        count = len(await admin.topic_stats(address, topic))
    except BrokerRefused as refusal:
        if refusal.response_code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise
    return TopicConfig(topic, count, count)


def _sentence(address: str, present: TopicConfig, wanted: TopicConfig, held: int) -> str:
    left, last = wanted.read_queues, present.read_queues - 1
    queues = f"queue {left}" if left == last else f"queues {left} to {last}"
    create = f"gantrymq topic create -t {wanted.name}"
    first = f"first {create} -r {present.read_queues} -w {left}, and " if present.write_queues > left else ""
    return (
        f"topic {wanted.name} has {present.read_queues} read queues at {address}; with {left} no consumer is given "
        f"what is in {queues}, {held} messages now. Two steps lose nothing: {first}once every group has read them "
        f"(gantrymq group progress -g GROUP) {create} -r {left} -w {left} --fewer-queues"
    )
