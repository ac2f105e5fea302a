"""Administration for threads: each method waits for the one of `gantrymq.client.Admin` with its name.

Written by .ci/sync_admin.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.client.admin import Admin as AsyncAdmin
from gantrymq.client.admin.messages import FOREVER_MS
from gantrymq.client.sync.base import SyncBaseClient

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from gantrymq.client.admin.brokers import Counter, QueueEntries
    from gantrymq.client.admin.connections import ConsumedDirectly, GroupClient, GroupClients, RunningInfo
    from gantrymq.client.admin.offset_moves import OffsetReset, OffsetTarget
    from gantrymq.client.admin.progress import QueueProgress, QueueTimes
    from gantrymq.client.admin.topics import QueueStats
    from gantrymq.client.message import ReceivedMessage
    from gantrymq.client.routes import ClusterInfo, TopicRoute
    from gantrymq.model.group import GroupConfig
    from gantrymq.model.queue import MessageQueue
    from gantrymq.model.subscription import Subscription
    from gantrymq.model.topic import TopicConfig
    from gantrymq.remoting.codes import RequestCode
    from gantrymq.remoting.command import Command
    from gantrymq.remoting.headers.base import Header

__all__ = ["Admin"]


class Admin(SyncBaseClient[AsyncAdmin]):
    """All of `gantrymq.client.Admin`, whose docstrings say what arguments and errors there are."""

    def request(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes | None = None
    ) -> Command:
        """Ask one server anything; the answer says SUCCESS."""
        return self._portal.call(lambda: self._wrapped.request(address, code, header, body))

    def request_json(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes | None = None, *, what: str
    ) -> dict[Any, Any]:
        """As `request`, for a request whose answer is a JSON object: the object. *what* names it in errors."""
        return self._portal.call(lambda: self._wrapped.request_json(address, code, header, body, what=what))

    def clusters(self, server: str | None = None) -> ClusterInfo:
        """Clusters and brokers."""
        return self._portal.call(lambda: self._wrapped.clusters(server))

    def masters(self, cluster: str | None = None) -> tuple[str, ...]:
        """Addresses of the masters of *cluster*, or of the only cluster there is, in the order of their names."""
        return self._portal.call(lambda: self._wrapped.masters(cluster))

    def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Let no producer be led to a broker; lasts until the broker registers again with changed topics."""
        return self._portal.call(lambda: self._wrapped.wipe_write_permission(broker_name))

    def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`: every topic of the broker may be read and written. Returns and raises as it."""
        return self._portal.call(lambda: self._wrapped.add_write_permission(broker_name))

    def topics(self, server: str | None = None) -> tuple[str, ...]:
        """Names of all topics, sorted. *server* and errors as for `clusters`."""
        return self._portal.call(lambda: self._wrapped.topics(server))

    def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Names of the topics that brokers of *cluster* have, sorted. Raises as `clusters`."""
        return self._portal.call(lambda: self._wrapped.topics_of_cluster(cluster))

    def route(self, topic: str) -> TopicRoute:
        """The route of one topic."""
        return self._portal.call(lambda: self._wrapped.route(topic))

    def topic_clusters(self, topic: str) -> tuple[str, ...]:
        """Clusters that have the topic, sorted. Raises as `route`."""
        return self._portal.call(lambda: self._wrapped.topic_clusters(topic))

    def create_topic(self, address: str, config: TopicConfig) -> None:
        """Create or change a topic at one broker."""
        return self._portal.call(lambda: self._wrapped.create_topic(address, config))

    def create_topic_in(self, config: TopicConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a topic at every master of a cluster."""
        return self._portal.call(lambda: self._wrapped.create_topic_in(config, cluster))

    def topic_config(self, address: str, topic: str) -> TopicConfig:
        """What one broker knows of a topic."""
        return self._portal.call(lambda: self._wrapped.topic_config(address, topic))

    def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """Every topic that one broker knows, sorted by name, its own included."""
        return self._portal.call(lambda: self._wrapped.topic_configs(address))

    def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Delete a topic at the masters of a cluster, then at every name server."""
        return self._portal.call(lambda: self._wrapped.delete_topic(topic, cluster))

    def topic_stats(self, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        """Offsets of a topic's queues at one broker, sorted. Raises BrokerRefused: code 17, it has no such topic."""
        return self._portal.call(lambda: self._wrapped.topic_stats(address, topic))

    def topic_status(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Offsets of a topic's queues at every broker of its route, sorted. Raises as `route` and `topic_stats`."""
        return self._portal.call(lambda: self._wrapped.topic_status(topic))

    def groups_of_topic(self, address: str, topic: str) -> tuple[str, ...]:
        """Consumer groups that read a topic at one broker, online or with offsets, sorted."""
        return self._portal.call(lambda: self._wrapped.groups_of_topic(address, topic))

    def groups(self, address: str) -> dict[str, GroupConfig]:
        """Every group that one broker knows, sorted by name, its own included."""
        return self._portal.call(lambda: self._wrapped.groups(address))

    def group_config(self, address: str, group: str) -> GroupConfig:
        """What one broker knows of a group; a broker before 5.0 is asked for all of them."""
        return self._portal.call(lambda: self._wrapped.group_config(address, group))

    def create_group(self, address: str, config: GroupConfig) -> None:
        """Create a group, or change one, at one broker. Raises InvalidParameter: the name is not legal."""
        return self._portal.call(lambda: self._wrapped.create_group(address, config))

    def create_group_in(self, config: GroupConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a group at every master of a cluster; returns their addresses."""
        return self._portal.call(lambda: self._wrapped.create_group_in(config, cluster))

    def delete_group(self, address: str, group: str, *, clean_offsets: bool = False) -> None:
        """Forget a group at one broker, and what it committed when *clean_offsets*; fine where there is none."""
        return self._portal.call(lambda: self._wrapped.delete_group(address, group, clean_offsets=clean_offsets))

    def topics_of_group(self, address: str, group: str) -> tuple[str, ...]:
        """Topics that a group subscribes to at one broker, or committed offsets for, sorted; its retry topic too."""
        return self._portal.call(lambda: self._wrapped.topics_of_group(address, group))

    def subscription(self, address: str, group: str, topic: str) -> Subscription | None:
        """What the members of a group that are online want of a topic; None where they do not want it."""
        return self._portal.call(lambda: self._wrapped.subscription(address, group, topic))

    def members(self, address: str, group: str) -> tuple[str, ...]:
        """Client ids of a consumer group's members that one broker sees, sorted; an id once for each connection."""
        return self._portal.call(lambda: self._wrapped.members(address, group))

    def consumer_connections(self, address: str, group: str) -> GroupClients | None:
        """Who of a consumer group is connected to one broker; None when nobody is."""
        return self._portal.call(lambda: self._wrapped.consumer_connections(address, group))

    def producer_connections(self, address: str, group: str) -> tuple[GroupClient, ...]:
        """Who of a producer group is connected to one broker, sorted by id."""
        return self._portal.call(lambda: self._wrapped.producer_connections(address, group))

    def producers(self, address: str) -> dict[str, tuple[GroupClient, ...]]:
        """Every producer group with connections to one broker, sorted by name, and who they are."""
        return self._portal.call(lambda: self._wrapped.producers(address))

    def running_info(self, address: str, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Ask a member of a consumer group, through a broker, what it is doing."""
        return self._portal.call(lambda: self._wrapped.running_info(address, group, client_id, stacks=stacks))

    def consume_directly(self, address: str, group: str, client_id: str, offset_id: str) -> ConsumedDirectly:
        """Have one member consume a message now, whatever the group has committed; nothing is committed by it."""
        return self._portal.call(lambda: self._wrapped.consume_directly(address, group, client_id, offset_id))

    def group_progress(self, address: str, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """How far *group* is in the queues of one broker, sorted."""
        return self._portal.call(lambda: self._wrapped.group_progress(address, group, topic))

    def broker_progress(self, address: str) -> dict[str, dict[MessageQueue, QueueProgress]]:
        """How far every group is in the queues of one broker, sorted by group; pulls are not told here."""
        return self._portal.call(lambda: self._wrapped.broker_progress(address))

    def group_times(self, address: str, group: str, topic: str) -> dict[MessageQueue, QueueTimes]:
        """Where *group* is in a topic's queues at one broker, by store times, sorted."""
        return self._portal.call(lambda: self._wrapped.group_times(address, group, topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the queue still has; 0 for an empty one."""
        return self._portal.call(lambda: self._wrapped.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get."""
        return self._portal.call(lambda: self._wrapped.max_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return self._portal.call(lambda: self._wrapped.offset_for_timestamp(queue, time_ms))

    def oldest_stored_ms(self, queue: MessageQueue) -> int | None:
        """When the oldest message of the queue was stored, wall time; None for an empty one."""
        return self._portal.call(lambda: self._wrapped.oldest_stored_ms(queue))

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """The group's place in the queue, None without one. 4.9 tells 0 for a new group as well."""
        return self._portal.call(lambda: self._wrapped.committed_offset(group, queue))

    def committed_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """The group's places in all queues of a topic where it has one, sorted."""
        return self._portal.call(lambda: self._wrapped.committed_offsets(group, topic))

    def commit_offset(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for a group as a member would: right for one that is offline, see `reset_offsets` for others."""
        return self._portal.call(lambda: self._wrapped.commit_offset(group, queue, queue_offset))

    def reset_offsets(
        self, group: str, topic: str, target: OffsetTarget, *, queue_id: int | None = None, dry_run: bool = False
    ) -> OffsetReset:
        """Set where *group* goes on in a topic, with members online or without."""
        return self._portal.call(
            lambda: self._wrapped.reset_offsets(group, topic, target, queue_id=queue_id, dry_run=dry_run)
        )

    def skip_messages(self, group: str, topic: str) -> OffsetReset:
        """Let *group* pass over everything that waits for it in a topic. Raises as `reset_offsets`."""
        return self._portal.call(lambda: self._wrapped.skip_messages(group, topic))

    def clone_offsets(
        self, source: str, group: str, topic: str | None = None, *, cluster: str | None = None, dry_run: bool = False
    ) -> tuple[OffsetReset, ...]:
        """Let *group* go on where *source* is; it is made, with the settings of *source*, where it is not there."""
        return self._portal.call(
            lambda: self._wrapped.clone_offsets(source, group, topic, cluster=cluster, dry_run=dry_run)
        )

    def query_message(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS, limit: int = 64
    ) -> tuple[ReceivedMessage, ...]:
        """Messages of *topic* with *key* among their keys, by store time."""
        return self._portal.call(lambda: self._wrapped.query_message(topic, key, begin_ms, end_ms, limit))

    def query_unique(self, topic: str, unique_key: str, begin_ms: int | None = None) -> tuple[ReceivedMessage, ...]:
        """Messages of *topic* with a client's unique id; several where one was sent twice or in a batch."""
        return self._portal.call(lambda: self._wrapped.query_unique(topic, unique_key, begin_ms))

    def view_message(self, offset_id: str) -> ReceivedMessage:
        """The message with an offset id, asked of the broker that the id names; of an inner batch the first one."""
        return self._portal.call(lambda: self._wrapped.view_message(offset_id))

    def broker_settings(self, address: str) -> dict[str, str]:
        """Every setting of one broker as text, sorted by key."""
        return self._portal.call(lambda: self._wrapped.broker_settings(address))

    def change_broker_settings(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings while the broker runs; what Java brokers change stays in their file."""
        return self._portal.call(lambda: self._wrapped.change_broker_settings(address, settings))

    def name_server_settings(self, server: str | None = None) -> dict[str, str]:
        """Every setting of one name server as text, sorted by key; of the first one as given where none is named."""
        return self._portal.call(lambda: self._wrapped.name_server_settings(server))

    def change_name_server_settings(self, settings: Mapping[str, str], server: str | None = None) -> tuple[str, ...]:
        """Change settings of one name server, or of all as given; returns which."""
        return self._portal.call(lambda: self._wrapped.change_name_server_settings(settings, server))

    def kv_values(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace with their values, sorted; empty for one that nobody wrote to."""
        return self._portal.call(lambda: self._wrapped.kv_values(namespace))

    def kv_value(self, namespace: str, key: str) -> str | None:
        """One value, None where there is none."""
        return self._portal.call(lambda: self._wrapped.kv_value(namespace, key))

    def put_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every name server as given; an error leaves it set at those before."""
        return self._portal.call(lambda: self._wrapped.put_kv_value(namespace, key, value))

    def delete_kv_value(self, namespace: str, key: str) -> None:
        """Remove a value at every name server as given; fine where there is none."""
        return self._portal.call(lambda: self._wrapped.delete_kv_value(namespace, key))

    def runtime_info(self, address: str) -> dict[str, str]:
        """A broker's figures by name, as texts; which there are depends on its version."""
        return self._portal.call(lambda: self._wrapped.runtime_info(address))

    def counter(self, address: str, name: str, key: str) -> Counter:
        """One counter of a broker."""
        return self._portal.call(lambda: self._wrapped.counter(address, name, key))

    def queue_entries(self, address: str, topic: str, queue_id: int, start: int, count: int) -> QueueEntries:
        """Entries of a queue from queue offset *start* on, *count* at most; brokers of ours give 1000 at once."""
        return self._portal.call(lambda: self._wrapped.queue_entries(address, topic, queue_id, start, count))

    def clean(self, address: str, what: str) -> str:
        """Have one of `CLEANINGS` done; returns what the broker says of it, empty for one of Java's."""
        return self._portal.call(lambda: self._wrapped.clean(address, what))
