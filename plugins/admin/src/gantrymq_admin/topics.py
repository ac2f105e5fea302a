"""Topics and groups that belong to RocketMQ itself, and reducing the queues of a topic.

Brokers, tools and clients create RocketMQ's own topics and groups when they need them.

Sources: apache/rocketmq common/.../topic/TopicValidator.java, common/.../MixAll.java (PREDEFINE_GROUP_SET).

Reducing queues is refused if it hides messages, unless the operator confirms it. Consumers see read queues only. So
remove queues in two steps: first reduce the write queues, then the read queues when every group has consumed them. The
first step hides nothing.

Source: apache/rocketmq client/.../impl/factory/MQClientInstance.java (topicRouteData2TopicSubscribeInfo).
"""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote
from typing import Final, NamedTuple

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.plugin import names
from gantrymq.plugin.client import ClusterInfo
from gantrymq.plugin.model import TopicConfig
from gantrymq.plugin.remoting import ResponseCode

_GROUPS: Final = frozenset(
    {*names.SYSTEM_GROUPS, "DEFAULT_CONSUMER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER", "SELF_TEST_P_GROUP"}
)

NEW_QUEUES: Final = 8  # read and write queues of a new topic at each broker, as with mqadmin


def named_after(clusters: Collection[str], brokers: Collection[str]) -> frozenset[str]:
    """Return the names of the topics that brokers create for their clusters and for themselves."""
    return frozenset({*clusters, *brokers, *(f"{cluster}_REPLY_TOPIC" for cluster in clusters)})


def of_clusters(info: ClusterInfo) -> frozenset[str]:
    """Return `named_after` for all clusters of the name servers."""
    return named_after(info.clusters, [broker.name for broker in info.brokers])


def is_own_topic(topic: str, places: Collection[str]) -> bool:
    """Return whether a topic is RocketMQ's own; *places* are the names of `named_after`."""
    return topic in places or names.is_system_topic(topic)


def is_own_group(group: str) -> bool:
    """Return whether a group is RocketMQ's own."""
    return group in _GROUPS or names.is_system_group(group)


class Hidden(NamedTuple):
    """Queues that consumers would no longer read, with the number of messages in them now."""

    queues: range
    messages: int

    def __str__(self) -> str:
        """Return both in words."""
        first, last = self.queues[0], self.queues[-1]
        queues = f"queue {first}" if first == last else f"queues {first} to {last}"
        return f"what is in {queues}, {self.messages} messages now"


async def refuse_to_hide(admin: Admin, address: str, wanted: TopicConfig) -> None:
    """Check the topic's configuration at *address* before it becomes *wanted*.

    Raises:
        ClientError: consumers would no longer receive some present or future messages.
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not return its configuration.
    """
    present = await present_topic(admin, address, wanted.name)
    hidden = None if present is None else await hidden_messages(admin, address, present, wanted)
    if present is not None and hidden is not None:
        raise ClientError(_sentence(address, present, wanted, hidden))


async def hidden_messages(admin: Admin, address: str, present: TopicConfig, wanted: TopicConfig) -> Hidden | None:
    """Return the queues that no consumer reads any more when the topic at *address* becomes *wanted*, or None.

    Raises:
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not return the offsets.
    """
    if wanted.read_queues >= present.read_queues:
        return None
    stats = await admin.topic_stats(address, wanted.name)
    gone = range(wanted.read_queues, present.read_queues)
    held = sum(each.count for queue, each in stats.items() if queue.queue_id in gone)
    return Hidden(gone, held) if held or wanted.write_queues > wanted.read_queues else None


async def present_topic(admin: Admin, address: str, topic: str) -> TopicConfig | None:
    """Return the settings of a topic, None without it; a broker before 5.0 is asked for those of all topics."""
    try:
        return await admin.topic_config(address, topic)
    except BrokerRefused as refusal:
        if refusal.response_code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
    return (await admin.topic_configs(address)).get(topic)


def _sentence(address: str, present: TopicConfig, wanted: TopicConfig, hidden: Hidden) -> str:
    left = wanted.read_queues
    create = f"gantrymq topic create -t {quote(wanted.name)}"
    first = f"first {create} -r {present.read_queues} -w {left}, and " if present.write_queues > left else ""
    return (
        f"topic {wanted.name} has {present.read_queues} read queues at {address}; with {left} no consumer is given "
        f"{hidden}. Two steps lose nothing: {first}once every group has read them "
        f"(gantrymq group progress -g GROUP) {create} -r {left} -w {left} --fewer-queues"
    )
