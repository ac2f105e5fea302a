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
        """Send a request to one server and return its response, whose code is SUCCESS."""
        return self._portal.call(lambda: self._wrapped.request(address, code, header, body))

    def request_json(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes | None = None, *, what: str
    ) -> dict[Any, Any]:
        """Send a request and return the JSON object in its response. *what* names the object in errors."""
        return self._portal.call(lambda: self._wrapped.request_json(address, code, header, body, what=what))

    def clusters(self, server: str | None = None) -> ClusterInfo:
        """Return clusters and brokers."""
        return self._portal.call(lambda: self._wrapped.clusters(server))

    def masters(self, cluster: str | None = None) -> tuple[str, ...]:
        """Return the addresses of the masters of *cluster*, or of the only cluster, sorted by broker name."""
        return self._portal.call(lambda: self._wrapped.masters(cluster))

    def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Stop producers from sending to a broker; lasts until the broker registers again with changed topics."""
        return self._portal.call(lambda: self._wrapped.wipe_write_permission(broker_name))

    def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`: every topic of the broker may be read and written."""
        return self._portal.call(lambda: self._wrapped.add_write_permission(broker_name))

    def topics(self, server: str | None = None) -> tuple[str, ...]:
        """Return the names of all topics, sorted. *server* and errors as for `clusters`."""
        return self._portal.call(lambda: self._wrapped.topics(server))

    def topics_of_cluster(self, cluster: str) -> tuple[str, ...]:
        """Return the names of the topics of *cluster*, sorted. Raises as `clusters`."""
        return self._portal.call(lambda: self._wrapped.topics_of_cluster(cluster))

    def route(self, topic: str) -> TopicRoute:
        """Return the route of one topic."""
        return self._portal.call(lambda: self._wrapped.route(topic))

    def topic_clusters(self, topic: str) -> tuple[str, ...]:
        """Return the clusters that have the topic, sorted. Raises as `route`."""
        return self._portal.call(lambda: self._wrapped.topic_clusters(topic))

    def create_topic(self, address: str, config: TopicConfig) -> None:
        """Create or change a topic at one broker."""
        return self._portal.call(lambda: self._wrapped.create_topic(address, config))

    def create_topic_in(self, config: TopicConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a topic at every master of a cluster."""
        return self._portal.call(lambda: self._wrapped.create_topic_in(config, cluster))

    def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the settings of a topic at one broker."""
        return self._portal.call(lambda: self._wrapped.topic_config(address, topic))

    def topic_configs(self, address: str) -> dict[str, TopicConfig]:
        """Return every topic that one broker knows, sorted by name, system topics included."""
        return self._portal.call(lambda: self._wrapped.topic_configs(address))

    def delete_topic(self, topic: str, cluster: str | None = None) -> tuple[str, ...]:
        """Delete a topic at the masters of a cluster, then at every name server."""
        return self._portal.call(lambda: self._wrapped.delete_topic(topic, cluster))

    def topic_stats(self, address: str, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets of a topic's queues at one broker, sorted."""
        return self._portal.call(lambda: self._wrapped.topic_stats(address, topic))

    def topic_status(self, topic: str) -> dict[MessageQueue, QueueStats]:
        """Return the offsets of a topic's queues at every broker of its route, sorted."""
        return self._portal.call(lambda: self._wrapped.topic_status(topic))

    def groups_of_topic(self, address: str, topic: str) -> tuple[str, ...]:
        """Return the consumer groups of a topic at one broker, online or with offsets, sorted."""
        return self._portal.call(lambda: self._wrapped.groups_of_topic(address, topic))

    def groups(self, address: str) -> dict[str, GroupConfig]:
        """Return every group that one broker knows, sorted by name, system groups included."""
        return self._portal.call(lambda: self._wrapped.groups(address))

    def group_config(self, address: str, group: str) -> GroupConfig:
        """Return the settings of a group at one broker; from a broker before 5.0, all groups are fetched."""
        return self._portal.call(lambda: self._wrapped.group_config(address, group))

    def create_group(self, address: str, config: GroupConfig) -> None:
        """Create or change a group at one broker. Raises InvalidParameter if the name is not legal."""
        return self._portal.call(lambda: self._wrapped.create_group(address, config))

    def create_group_in(self, config: GroupConfig, cluster: str | None = None) -> tuple[str, ...]:
        """Create or change a group at every master of a cluster; return their addresses."""
        return self._portal.call(lambda: self._wrapped.create_group_in(config, cluster))

    def delete_group(self, address: str, group: str, *, clean_offsets: bool = False) -> None:
        """Delete a group at one broker, with *clean_offsets* also its offsets; a missing group is not an error."""
        return self._portal.call(lambda: self._wrapped.delete_group(address, group, clean_offsets=clean_offsets))

    def topics_of_group(self, address: str, group: str) -> tuple[str, ...]:
        """Return the topics that a group subscribes to or has offsets for at one broker, sorted."""
        return self._portal.call(lambda: self._wrapped.topics_of_group(address, group))

    def subscription(self, address: str, group: str, topic: str) -> Subscription | None:
        """Return the subscription to a topic of a group's online members, or None without one."""
        return self._portal.call(lambda: self._wrapped.subscription(address, group, topic))

    def members(self, address: str, group: str) -> tuple[str, ...]:
        """Return the client ids of a consumer group connected to one broker, sorted; one entry for each connection."""
        return self._portal.call(lambda: self._wrapped.members(address, group))

    def consumer_connections(self, address: str, group: str) -> GroupClients | None:
        """Return the connections of a consumer group to one broker, or None without any."""
        return self._portal.call(lambda: self._wrapped.consumer_connections(address, group))

    def producer_connections(self, address: str, group: str) -> tuple[GroupClient, ...]:
        """Return the connections of a producer group to one broker, sorted by id."""
        return self._portal.call(lambda: self._wrapped.producer_connections(address, group))

    def producers(self, address: str) -> dict[str, tuple[GroupClient, ...]]:
        """Return every producer group connected to one broker, sorted by name, with its connections."""
        return self._portal.call(lambda: self._wrapped.producers(address))

    def running_info(self, address: str, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """Query a member of a consumer group, through a broker, for its state."""
        return self._portal.call(lambda: self._wrapped.running_info(address, group, client_id, stacks=stacks))

    def consume_directly(self, address: str, group: str, client_id: str, offset_id: str) -> ConsumedDirectly:
        """Have one member consume a message now, regardless of the group's offsets; commits nothing."""
        return self._portal.call(lambda: self._wrapped.consume_directly(address, group, client_id, offset_id))

    def group_progress(self, address: str, group: str, topic: str | None = None) -> dict[MessageQueue, QueueProgress]:
        """Return the progress of *group* in the queues of one broker, sorted."""
        return self._portal.call(lambda: self._wrapped.group_progress(address, group, topic))

    def broker_progress(self, address: str) -> dict[str, dict[MessageQueue, QueueProgress]]:
        """Return the progress of every group in the queues of one broker, sorted by group; without pulled offsets."""
        return self._portal.call(lambda: self._wrapped.broker_progress(address))

    def group_times(self, address: str, group: str, topic: str) -> dict[MessageQueue, QueueTimes]:
        """Return the progress of *group* in a topic's queues at one broker, in store times, sorted."""
        return self._portal.call(lambda: self._wrapped.group_times(address, group, topic))

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset still in the queue; 0 for an empty queue."""
        return self._portal.call(lambda: self._wrapped.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return self._portal.call(lambda: self._wrapped.max_offset(queue))

    def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return self._portal.call(lambda: self._wrapped.offset_for_timestamp(queue, time_ms))

    def oldest_stored_ms(self, queue: MessageQueue) -> int | None:
        """Return the store time of the queue's oldest message in ms since 1970, or None for an empty queue."""
        return self._portal.call(lambda: self._wrapped.oldest_stored_ms(queue))

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the group's offset in the queue, or None. RocketMQ 4.9 reports 0 for a new group too."""
        return self._portal.call(lambda: self._wrapped.committed_offset(group, queue))

    def committed_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Return the group's offsets in all queues of a topic that have one, sorted."""
        return self._portal.call(lambda: self._wrapped.committed_offsets(group, topic))

    def commit_offset(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for a group as a member would; only for a group that is offline, see `reset_offsets` for others."""
        return self._portal.call(lambda: self._wrapped.commit_offset(group, queue, queue_offset))

    def reset_offsets(
        self, group: str, topic: str, target: OffsetTarget, *, queue_id: int | None = None, dry_run: bool = False
    ) -> OffsetReset:
        """Set the offsets of *group* in a topic, with members online or offline."""
        return self._portal.call(
            lambda: self._wrapped.reset_offsets(group, topic, target, queue_id=queue_id, dry_run=dry_run)
        )

    def skip_messages(self, group: str, topic: str) -> OffsetReset:
        """Skip all unconsumed messages of a topic for *group*. Raises as `reset_offsets`."""
        return self._portal.call(lambda: self._wrapped.skip_messages(group, topic))

    def clone_offsets(
        self, source: str, group: str, topic: str | None = None, *, cluster: str | None = None, dry_run: bool = False
    ) -> tuple[OffsetReset, ...]:
        """Set the offsets of *group* to those of *source*; a missing group is created with the settings of *source*."""
        return self._portal.call(
            lambda: self._wrapped.clone_offsets(source, group, topic, cluster=cluster, dry_run=dry_run)
        )

    def query_message(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS, limit: int = 64
    ) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with *key* among their keys, sorted by store time."""
        return self._portal.call(lambda: self._wrapped.query_message(topic, key, begin_ms, end_ms, limit))

    def query_unique(self, topic: str, unique_key: str, begin_ms: int | None = None) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with a client's unique id; several if it was sent twice or in a batch."""
        return self._portal.call(lambda: self._wrapped.query_unique(topic, unique_key, begin_ms))

    def view_message(self, offset_id: str) -> ReceivedMessage:
        """Return the message with an offset id from the broker named in the id; the first message of an inner batch."""
        return self._portal.call(lambda: self._wrapped.view_message(offset_id))

    def broker_settings(self, address: str) -> dict[str, str]:
        """Return all settings of one broker as text, sorted by key."""
        return self._portal.call(lambda: self._wrapped.broker_settings(address))

    def change_broker_settings(self, address: str, settings: Mapping[str, str]) -> None:
        """Change settings of a running broker; Java brokers write changes to their file."""
        return self._portal.call(lambda: self._wrapped.change_broker_settings(address, settings))

    def name_server_settings(self, server: str | None = None) -> dict[str, str]:
        """Return all settings of *server*, or of the first configured name server, as text, sorted by key."""
        return self._portal.call(lambda: self._wrapped.name_server_settings(server))

    def change_name_server_settings(self, settings: Mapping[str, str], server: str | None = None) -> tuple[str, ...]:
        """Change settings of *server*, or of all configured name servers; return their addresses."""
        return self._portal.call(lambda: self._wrapped.change_name_server_settings(settings, server))

    def kv_values(self, namespace: str) -> dict[str, str]:
        """Return all keys of a namespace with their values, sorted; empty for an unused namespace."""
        return self._portal.call(lambda: self._wrapped.kv_values(namespace))

    def kv_value(self, namespace: str, key: str) -> str | None:
        """Return one value, or None if it is not set."""
        return self._portal.call(lambda: self._wrapped.kv_value(namespace, key))

    def put_kv_value(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every configured name server; after an error, earlier servers have it."""
        return self._portal.call(lambda: self._wrapped.put_kv_value(namespace, key, value))

    def delete_kv_value(self, namespace: str, key: str) -> None:
        """Remove a value at every configured name server; a missing value is not an error."""
        return self._portal.call(lambda: self._wrapped.delete_kv_value(namespace, key))

    def runtime_info(self, address: str) -> dict[str, str]:
        """Return a broker's runtime info as text by name; the names depend on its version."""
        return self._portal.call(lambda: self._wrapped.runtime_info(address))

    def counter(self, address: str, name: str, key: str) -> Counter:
        """Return one counter of a broker."""
        return self._portal.call(lambda: self._wrapped.counter(address, name, key))

    def queue_entries(self, address: str, topic: str, queue_id: int, start: int, count: int) -> QueueEntries:
        """Return up to *count* entries of a queue, from queue offset *start*."""
        return self._portal.call(lambda: self._wrapped.queue_entries(address, topic, queue_id, start, count))

    def clean(self, address: str, what: str) -> str:
        """Run one of `CLEANINGS`; return the broker's report, which is empty for Java brokers."""
        return self._portal.call(lambda: self._wrapped.clean(address, what))
