"""Metrics of timed messages, for the metrics page and the runtime info (request 28).

Source: apache/rocketmq store/.../metrics/DefaultStoreMetricsConstant.java (names of the metrics),
broker/.../processor/AdminBrokerProcessor.java (prepareRuntimeInfo).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import BrokerEnvironment, MetricFamily
from gantrymq_schedule.timer.timers import Timers


def timer_metrics(timers: Timers, broker: BrokerEnvironment) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register as the broker's metrics of timed messages."""
    late, clock = timers.lateness, broker.world.clock

    def gauge(name: str, text: str, stat: str, key: str = "") -> Callable[[], MetricFamily]:
        return lambda: MetricFamily(name, text, (), {(): timers.stats()[stat]}, runtime_key=key)

    def count(name: str, text: str, stat: str) -> Callable[[], MetricFamily]:
        return lambda: MetricFamily(name, text, (), {(): timers.stats()[stat]}, counter=True)

    def by_topic() -> MetricFamily:
        values: dict[tuple[str, ...], float] = {(topic,): each.count for topic, each in timers.topics().items()}
        return MetricFamily(
            "rocketmq_timing_messages", "Timed messages of a topic that are not delivered yet.", ("topic",), values
        )

    def worst_s() -> MetricFamily:
        values: dict[tuple[str, ...], float] = {(): late.worst_lately_ms(clock.monotonic()) / 1000}
        return MetricFamily(
            "gantrymq_timed_late_seconds_worst",
            "Longest time from the due time to the delivery of a message in the last minute.",
            (),
            values,
        )

    def late_s() -> MetricFamily:
        text = "Total time from the due time to the delivery of timed messages."
        return MetricFamily("gantrymq_timed_late_seconds_total", text, (), {(): late.late_ms / 1000}, counter=True)

    return [
        by_topic,
        worst_s,
        late_s,
        gauge("rocketmq_timer_enqueue_lag", "Messages that are not in the wheel.", "queue_behind", "timerOffsetBehind"),
        gauge("rocketmq_timer_dequeue_lag", "Timed messages that are not delivered yet.", "waiting", "timerCongestNum"),
        gauge(
            "gantrymq_timed_behind_seconds", "Delay of the slot that is being delivered.", "behind_s", "timerReadBehind"
        ),
        count("rocketmq_timer_enqueue_total", "Timed messages that were put into the wheel.", "taken"),
        count("rocketmq_timer_dequeue_total", "Timed messages that were delivered.", "delivered"),
        count(
            "gantrymq_timed_given_up_total",
            "Timed messages that were dropped because the store refuses them.",
            "given_up",
        ),
    ]
