"""The client's classes for threads: each method is made from that of the async class, with signature and docstring.

Functions given as arguments, such as selectors and listeners, are called in the client's own thread: they must not call
the client, nor block. What is special to threads is in the base classes of `parts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.client.admin import Admin as AsyncAdmin
from gantrymq.client.group.consumer import Consumer as AsyncConsumer
from gantrymq.client.group.lite_pull import LitePullConsumer as AsyncLitePullConsumer
from gantrymq.client.pop.consumer import PopConsumer as AsyncPopConsumer
from gantrymq.client.producing.producer import Producer as AsyncProducer
from gantrymq.client.reading.reader import Reader as AsyncReader
from gantrymq.client.sync.parts import (
    ConsumerPart,
    IteratedPart,
    ProducerPart,
    SyncBaseClient,
    TracedPart,
    TransactionPart,
    from_async,
    from_iterator,
    from_sync,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gantrymq.client.group.settings import ConsumerSettings, LitePullSettings
    from gantrymq.client.pop.consumer import PopSettings
    from gantrymq.client.reading.reader import ReaderSettings
    from gantrymq.client.sending.producer_settings import ProducerSettings
    from gantrymq.model.queue import MessageQueue


class Producer(ProducerPart):
    """As `gantrymq.client.Producer`, for any number of threads."""

    @property
    def settings(self) -> ProducerSettings:
        """Settings, with defaults."""
        return self._wrapped.settings

    @property
    def oneways_dropped(self) -> int:
        """Messages of `send_oneway` that were accepted but could not be written."""
        return self._wrapped.oneways_dropped

    queues = from_async(AsyncProducer.queues)
    send = from_async(AsyncProducer.send)
    send_oneway = from_async(AsyncProducer.send_oneway)
    send_batch = from_async(AsyncProducer.send_batch)
    send_batches = from_async(AsyncProducer.send_batches)
    flush = from_async(AsyncProducer.flush)
    request = from_async(AsyncProducer.request)
    recall = from_async(AsyncProducer.recall)


class TransactionProducer(TransactionPart, Producer):
    """As `gantrymq.client.TransactionProducer`, for any number of threads."""


class Consumer(ConsumerPart):
    """As `gantrymq.client.Consumer`, for any number of threads."""

    @property
    def settings(self) -> ConsumerSettings:
        """Settings, with defaults."""
        return self._wrapped.settings

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The queues of this member, sorted."""
        return self._portal.call_sync(lambda: self._wrapped.assignment)

    ack = from_sync(AsyncConsumer.ack)
    nack = from_async(AsyncConsumer.nack)
    processing = from_sync(AsyncConsumer.processing)
    subscribe = from_async(AsyncConsumer.subscribe)
    unsubscribe = from_async(AsyncConsumer.unsubscribe)
    pause = from_sync(AsyncConsumer.pause)
    resume = from_sync(AsyncConsumer.resume)
    wait_assigned = from_async(AsyncConsumer.wait_assigned)
    commit = from_async(AsyncConsumer.commit)


class LitePullConsumer(IteratedPart[AsyncLitePullConsumer], TracedPart[AsyncLitePullConsumer]):
    """As `gantrymq.client.LitePullConsumer`, polled by one thread at a time."""

    @property
    def settings(self) -> LitePullSettings:
        """Settings, with defaults."""
        return self._wrapped.settings

    @property
    def assignment(self) -> tuple[MessageQueue, ...]:
        """The assigned queues, sorted."""
        return self._portal.call_sync(lambda: self._wrapped.assignment)

    subscribe = from_async(AsyncLitePullConsumer.subscribe)
    unsubscribe = from_async(AsyncLitePullConsumer.unsubscribe)
    assign = from_async(AsyncLitePullConsumer.assign)
    wait_assigned = from_async(AsyncLitePullConsumer.wait_assigned)
    queues = from_async(AsyncLitePullConsumer.queues)
    on_queues_changed = from_async(AsyncLitePullConsumer.on_queues_changed)
    poll = from_async(AsyncLitePullConsumer.poll)
    pause = from_sync(AsyncLitePullConsumer.pause)
    resume = from_sync(AsyncLitePullConsumer.resume)
    seek = from_async(AsyncLitePullConsumer.seek)
    seek_to_begin = from_async(AsyncLitePullConsumer.seek_to_begin)
    seek_to_end = from_async(AsyncLitePullConsumer.seek_to_end)
    position = from_sync(AsyncLitePullConsumer.position)
    offset_for_timestamp = from_async(AsyncLitePullConsumer.offset_for_timestamp)
    committed = from_async(AsyncLitePullConsumer.committed)
    commit = from_async(AsyncLitePullConsumer.commit)


class PopConsumer(IteratedPart[AsyncPopConsumer], TracedPart[AsyncPopConsumer]):
    """As `gantrymq.client.PopConsumer`, for any number of threads."""

    @property
    def topic(self) -> str | None:
        """Name of the topic; None if none was given."""
        return self._wrapped.topic

    @property
    def settings(self) -> PopSettings:
        """Settings, with defaults."""
        return self._wrapped.settings

    pop = from_async(AsyncPopConsumer.pop)
    ack = from_async(AsyncPopConsumer.ack)
    nack = from_async(AsyncPopConsumer.nack)
    change_invisible_time = from_async(AsyncPopConsumer.change_invisible_time)


class Reader(IteratedPart[AsyncReader]):
    """As `gantrymq.client.Reader`, for any number of threads."""

    @property
    def topic(self) -> str | None:
        """Name of the topic; None if none was given."""
        return self._wrapped.topic

    @property
    def settings(self) -> ReaderSettings:
        """Settings, with defaults."""
        return self._wrapped.settings

    @property
    def positions(self) -> Mapping[MessageQueue, int]:
        """Next offset of each queue in the latest loop; may be passed as ``start``."""
        return self._portal.call_sync(lambda: self._wrapped.positions)

    queues = from_async(AsyncReader.queues)
    read = from_iterator(AsyncReader.read)
    read_back = from_async(AsyncReader.read_back)
    pull = from_async(AsyncReader.pull)
    pull_records = from_async(AsyncReader.pull_records)
    min_offset = from_async(AsyncReader.min_offset)
    max_offset = from_async(AsyncReader.max_offset)
    offset_for_timestamp = from_async(AsyncReader.offset_for_timestamp)
    committed = from_async(AsyncReader.committed)
    commit = from_async(AsyncReader.commit)


class Admin(SyncBaseClient[AsyncAdmin]):
    """As `gantrymq.client.Admin`, for any number of threads."""

    request = from_async(AsyncAdmin.request)
    request_json = from_async(AsyncAdmin.request_json)
    request_parsed = from_async(AsyncAdmin.request_parsed)
    clusters = from_async(AsyncAdmin.clusters)
    brokers = from_async(AsyncAdmin.brokers)
    masters = from_async(AsyncAdmin.masters)
    wipe_write_permission = from_async(AsyncAdmin.wipe_write_permission)
    add_write_permission = from_async(AsyncAdmin.add_write_permission)
    topics = from_async(AsyncAdmin.topics)
    topics_of_cluster = from_async(AsyncAdmin.topics_of_cluster)
    route = from_async(AsyncAdmin.route)
    topic_clusters = from_async(AsyncAdmin.topic_clusters)
    create_topic = from_async(AsyncAdmin.create_topic)
    create_topic_in = from_async(AsyncAdmin.create_topic_in)
    topic_config = from_async(AsyncAdmin.topic_config)
    topic_configs = from_async(AsyncAdmin.topic_configs)
    delete_topic = from_async(AsyncAdmin.delete_topic)
    topic_stats = from_async(AsyncAdmin.topic_stats)
    topic_status = from_async(AsyncAdmin.topic_status)
    groups_of_topic = from_async(AsyncAdmin.groups_of_topic)
    groups = from_async(AsyncAdmin.groups)
    group_config = from_async(AsyncAdmin.group_config)
    create_group = from_async(AsyncAdmin.create_group)
    create_group_in = from_async(AsyncAdmin.create_group_in)
    unreadable_topics = from_async(AsyncAdmin.unreadable_topics)
    set_topic_readable = from_async(AsyncAdmin.set_topic_readable)
    delete_group = from_async(AsyncAdmin.delete_group)
    topics_of_group = from_async(AsyncAdmin.topics_of_group)
    subscription = from_async(AsyncAdmin.subscription)
    members = from_async(AsyncAdmin.members)
    consumer_connections = from_async(AsyncAdmin.consumer_connections)
    producer_connections = from_async(AsyncAdmin.producer_connections)
    producers = from_async(AsyncAdmin.producers)
    running_info = from_async(AsyncAdmin.running_info)
    consume_directly = from_async(AsyncAdmin.consume_directly)
    group_progress = from_async(AsyncAdmin.group_progress)
    broker_progress = from_async(AsyncAdmin.broker_progress)
    group_times = from_async(AsyncAdmin.group_times)
    min_offset = from_async(AsyncAdmin.min_offset)
    max_offset = from_async(AsyncAdmin.max_offset)
    offset_for_timestamp = from_async(AsyncAdmin.offset_for_timestamp)
    oldest_stored_ms = from_async(AsyncAdmin.oldest_stored_ms)
    committed_offset = from_async(AsyncAdmin.committed_offset)
    committed_offsets = from_async(AsyncAdmin.committed_offsets)
    commit_offset = from_async(AsyncAdmin.commit_offset)
    reset_offsets = from_async(AsyncAdmin.reset_offsets)
    skip_messages = from_async(AsyncAdmin.skip_messages)
    clone_offsets = from_async(AsyncAdmin.clone_offsets)
    query_message = from_async(AsyncAdmin.query_message)
    query_message_page = from_async(AsyncAdmin.query_message_page)
    query_unique = from_async(AsyncAdmin.query_unique)
    view_message = from_async(AsyncAdmin.view_message)
    broker_settings = from_async(AsyncAdmin.broker_settings)
    change_broker_settings = from_async(AsyncAdmin.change_broker_settings)
    name_server_settings = from_async(AsyncAdmin.name_server_settings)
    change_name_server_settings = from_async(AsyncAdmin.change_name_server_settings)
    kv_values = from_async(AsyncAdmin.kv_values)
    kv_value = from_async(AsyncAdmin.kv_value)
    put_kv_value = from_async(AsyncAdmin.put_kv_value)
    delete_kv_value = from_async(AsyncAdmin.delete_kv_value)
    runtime_info = from_async(AsyncAdmin.runtime_info)
    counter = from_async(AsyncAdmin.counter)
    queue_entries = from_async(AsyncAdmin.queue_entries)
    ha_status = from_async(AsyncAdmin.ha_status)
    epochs = from_async(AsyncAdmin.epochs)
    controller_metadata = from_async(AsyncAdmin.controller_metadata)
    broker_sets = from_async(AsyncAdmin.broker_sets)
    elect_master = from_async(AsyncAdmin.elect_master)
    clean_broker_metadata = from_async(AsyncAdmin.clean_broker_metadata)
    controller_settings = from_async(AsyncAdmin.controller_settings)
    change_controller_settings = from_async(AsyncAdmin.change_controller_settings)
    clean = from_async(AsyncAdmin.clean)
