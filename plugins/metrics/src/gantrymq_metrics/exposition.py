"""The metrics of a snapshot as Prometheus text.

A metric has its name in rocketmq-exporter, otherwise its name in RocketMQ 5's own exporter, otherwise a name that
begins with ``gantrymq_``. Labels depend on the origin of the name: ``cluster, broker, topic, group`` for
rocketmq-exporter and ``gantrymq_``, and ``cluster, node_type, node_id, topic, consumer_group`` for RocketMQ 5. All have
``broker_id``, which neither of them has: a master and its slaves have the same name, and each exports the same lag.

Source: apache/rocketmq-exporter src/.../collector/RMQMetricsCollector.java; apache/rocketmq
broker/.../metrics/BrokerMetricsConstant.java, store/.../metrics/DefaultStoreMetricsConstant.java.
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq_metrics.lag_families import IN_FLIGHT, lag_families
from gantrymq_metrics.metric_builder import Family, MetricBuilder
from gantrymq_metrics.snapshot import MetricsSnapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def families(snapshot: MetricsSnapshot) -> Iterator[Family]:
    """Yield all families in a fixed order."""
    make = MetricBuilder(snapshot)
    yield from _broker(make, snapshot)
    yield from _topics(make, snapshot)
    yield from _groups(make, snapshot)
    yield from lag_families(make, snapshot)
    yield from _store(make, snapshot)
    yield from _clients(make, snapshot)
    yield from _plugin_metrics(make, snapshot)


def _broker(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    figures = snapshot.figures
    yield make.broker_gauge(
        "rocketmq_broker_tps",
        "Messages stored per second, over the last minute.",
        figures.put.messages_per_s,
        as_exporter=True,
    )
    yield make.broker_gauge(
        "rocketmq_broker_qps",
        "Messages delivered per second, over the last minute.",
        figures.got.messages_per_s,
        as_exporter=True,
    )
    yield make.broker_gauge("rocketmq_broker_permission", "brokerPermission: 4 read, 2 write.", snapshot.permission)
    yield make.broker_gauge("rocketmq_topic_number", "Topics that exist.", snapshot.topics)
    yield make.broker_gauge("rocketmq_consumer_group_number", "Consumer groups that exist.", figures.groups)
    yield make.counter("gantrymq_sends_failed_total", "Sends that were refused.", (), [((), figures.put_failed)])
    yield make.histogram(
        "gantrymq_send_seconds", "Messages by the time from their append to their acknowledgement.", snapshot.send_times
    )
    pulls = [(("found",), figures.pulls_found), (("nothing",), figures.pulls_missed)]
    yield make.counter("gantrymq_pulls_total", "Pulls that were answered, by outcome.", ("outcome",), pulls)
    yield make.broker_gauge("gantrymq_pulls_held", "Pulls that are waiting for a message.", figures.pulls_held)
    yield make.broker_gauge("gantrymq_connections", "Open connections with at least one request.", figures.connections)
    errors = figures.plugin_errors.items()
    yield make.counter(
        "gantrymq_plugin_errors_total", "Exceptions raised by parts of plugins.", ("kind", "name"), errors
    )
    unwritten = [((name,), 1) for name in figures.unwritten]
    yield make.gauge(
        "gantrymq_file_unwritten",
        "1 for each table whose file cannot be written; writing is retried.",
        ("file",),
        unwritten,
    )
    parked = [((name,), 1) for name in figures.parked]
    yield make.gauge(
        "gantrymq_dispatcher_parked", "1 for each dispatcher that raised and is suspended.", ("dispatcher",), parked
    )
    servers = [((address,), float(problem is None)) for address, problem in figures.name_servers.items()]
    yield make.gauge(
        "gantrymq_registered",
        "1 for each name server where this broker is registered, else 0.",
        ("nameserver",),
        servers,
    )


def _topics(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    puts, labels = snapshot.puts, ("topic",)
    yield make.counter(
        "rocketmq_messages_in_total",
        "Messages stored.",
        labels,
        (((topic,), messages) for topic, _, messages, _, _, _ in puts),
    )
    yield make.counter(
        "rocketmq_throughput_in_total",
        "Bytes of the records stored.",
        labels,
        (((topic,), size) for topic, _, _, size, _, _ in puts),
    )
    yield make.gauge(
        "rocketmq_producer_tps",
        "Messages stored per second, over the last minute.",
        labels,
        (((topic,), tps) for topic, _, _, _, tps, _ in puts),
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_producer_message_size",
        "Bytes stored per second, over the last minute.",
        labels,
        (((topic,), rate) for topic, _, _, _, _, rate in puts),
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_producer_offset",
        "Sum of the ends of the topic's queues.",
        labels,
        (((name,), end) for name, end in snapshot.ends.items()),
        as_exporter=True,
    )


def _groups(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    gets = snapshot.gets
    own, exporter = ("topic", "consumer_group"), ("topic", "group")
    yield make.counter(
        "rocketmq_messages_out_total",
        "Messages delivered.",
        own,
        (((topic, group), messages) for topic, group, messages, _, _, _ in gets),
    )
    yield make.counter(
        "rocketmq_throughput_out_total",
        "Bytes of the records delivered.",
        own,
        (((topic, group), size) for topic, group, _, size, _, _ in gets),
    )
    yield make.gauge(
        "rocketmq_consumer_tps",
        "Messages delivered per second, over the last minute.",
        exporter,
        (((topic, group), tps) for topic, group, _, _, tps, _ in gets),
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_consumer_message_size",
        "Bytes delivered per second, over the last minute.",
        exporter,
        (((topic, group), rate) for topic, group, _, _, _, rate in gets),
        as_exporter=True,
    )
    yield make.gauge(
        "rocketmq_consumer_offset",
        "Sum of the offsets the group committed.",
        exporter,
        (((each.topic, each.group), each.committed) for each in snapshot.lags),
        as_exporter=True,
    )


def _store(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    state, disk, figures = snapshot.state, snapshot.disk, snapshot.figures
    used = disk.used_share
    put, put_at_midnight, got, got_at_midnight = (
        figures.put,
        figures.put_at_midnight,
        figures.got,
        figures.got_at_midnight,
    )
    system_put = sum(messages for topic, _, messages, *_ in snapshot.puts if snapshot.is_own_topic(topic))
    system_got = sum(messages for topic, _, messages, *_ in snapshot.gets if snapshot.is_own_topic(topic))
    runtime = "rocketmq_brokeruntime_"
    for name, text, value in (
        ("commitlog_minoffset", "Log offset of the start of the log, bytes.", state.min_log_offset),
        ("commitlog_maxoffset", "Log offset of the end of the log, bytes.", state.max_log_offset),
        (
            "earliest_message_timestamp",
            "Store time of the oldest message, milliseconds since 1970; -1 without one.",
            snapshot.oldest_ms,
        ),
        ("commitlog_disk_ratio", "Used share of the store's file system, 0 to 1.", used),
        ("consumequeue_disk_ratio", "As commitlog_disk_ratio: the queues are on the same file system.", used),
        ("commitlogdir_capacity_total", "Size of the store's file system, bytes.", disk.total),
        ("commitlogdir_capacity_free", "Bytes of the store's file system that the store may still use.", disk.usable),
        ("remain_howmanydata_toflush", "Bytes not durable yet.", state.max_log_offset - state.flushed_offset),
        ("dispatch_behind_bytes", "Bytes not visible to consumers yet.", state.max_log_offset - state.published_offset),
        ("putmessage_times_total", "Messages stored since the start.", put.messages),
        ("put_message_size_total", "Bytes of the records of messages stored since the start.", put.size),
        (
            "msg_put_total_today_now",
            "Messages stored since the start, without system topics.",
            put.messages - figures.copied - system_put,
        ),
        ("msg_puttotal_todaymorning", "Messages stored since the start, at the last midnight.", put_at_midnight.today),
        (
            "msg_puttotal_yesterdaymorning",
            "Messages stored since the start, at the midnight before the last.",
            put_at_midnight.yesterday,
        ),
        (
            "msg_gettotal_today_now",
            "Messages delivered since the start, without system topics.",
            got.messages - system_got,
        ),
        (
            "msg_gettotal_todaymorning",
            "Messages delivered since the start, at the last midnight.",
            got_at_midnight.today,
        ),
        (
            "msg_gettotal_yesterdaymorning",
            "Messages delivered since the start, at the midnight before the last.",
            got_at_midnight.yesterday,
        ),
    ):
        yield make.broker_gauge(runtime + name, text, value, as_exporter=True)
    yield make.broker_gauge(
        "gantrymq_store_flushed_offset", "Everything before it is durable, bytes.", state.flushed_offset
    )
    yield make.broker_gauge("gantrymq_store_writable", "1 while the store accepts writes.", state.refusal is None)
    refusals = [((state.refusal_cause or "other",), 1.0)] if state.refusal is not None else []
    yield make.gauge("gantrymq_store_refusal", "1 for the cause for which writes are refused.", ("cause",), refusals)
    yield make.counter("gantrymq_store_syncs_total", "Times the log was made durable.", (), [((), state.syncs)])
    yield make.counter(
        "gantrymq_store_sync_seconds_total", "Seconds spent making the log durable.", (), [((), state.sync_s)]
    )


def _clients(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    figures = snapshot.figures
    producers = [((group,), float(members)) for group, members in figures.producers.items()]
    yield make.gauge("rocketmq_producer_count", "Members of producer groups.", ("group",), producers, as_exporter=True)
    yield make.broker_gauge(
        "rocketmq_producer_connections", "Members of all producer groups.", sum(figures.producers.values())
    )
    consumers = [((group,), float(each.members)) for group, each in figures.consumers.items()]
    yield make.gauge("rocketmq_group_count", "Members of consumer groups.", ("group",), consumers, as_exporter=True)


def _plugin_metrics(make: MetricBuilder, snapshot: MetricsSnapshot) -> Iterator[Family]:
    for each in sorted(snapshot.plugin_metrics, key=lambda shown: shown.name):
        if each.name == IN_FLIGHT:
            continue  # yielded by `lag_families`
        if each.counter:
            yield make.counter(each.name, each.help, each.labels, tuple(each.values.items()))
        else:
            yield make.gauge(
                each.name, each.help, each.labels, tuple(each.values.items()), as_exporter=each.as_exporter
            )
