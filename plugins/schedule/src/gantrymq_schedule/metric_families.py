"""Metrics of delayed and timed messages, for the metrics page and the runtime info (request 28).

The names of the delay levels begin with gantrymq_, because RocketMQ's only metric of its delay levels is the histogram
rocketmq_delay_message_latency, which measures from the born time of a message.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (buildRunningStats: the rows of request 28),
store/.../metrics/DefaultStoreMetricsConstant.java (names of the metrics of timed messages),
broker/.../processor/AdminBrokerProcessor.java (prepareRuntimeInfo).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import BrokerEnvironment, MetricFamily
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.timer.timers import Timers


def level_metrics(levels: LevelDelivery, broker: BrokerEnvironment) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register as the broker's metrics of the delay levels."""
    late, clock = levels.lateness, broker.world.clock

    def waiting() -> MetricFamily:
        text = "Messages of a delay level that are not delivered yet."
        known = list(levels.positions.levels())
        values: dict[tuple[str, ...], float] = {(str(level),): end - position for level, position, end, _ in known}
        rows = {f"scheduleMessageOffset_{level}": f"{position},{end}" for level, position, end, _ in known if end}
        return MetricFamily("gantrymq_delayed_waiting", text, ("level",), values, runtime_rows=rows)

    def delivered() -> MetricFamily:
        text = "Messages of delay levels that were delivered since the start."
        return MetricFamily("gantrymq_delayed_delivered_total", text, (), {(): late.messages}, counter=True)

    def left_behind() -> MetricFamily:
        text = "Messages of delay levels that could not be stored when they were due."
        return MetricFamily("gantrymq_delayed_left_behind_total", text, (), {(): levels.left_behind}, counter=True)

    def late_s() -> MetricFamily:
        text = "Total time from the due time to the delivery of messages."
        return MetricFamily("gantrymq_delayed_late_seconds_total", text, (), {(): late.late_ms / 1000}, counter=True)

    def worst_s() -> MetricFamily:
        text = "Longest time from the due time to the delivery of a message in the last minute."
        return MetricFamily(
            "gantrymq_delayed_late_seconds_worst", text, (), {(): late.worst_lately_ms(clock.monotonic()) / 1000}
        )

    return [waiting, delivered, left_behind, late_s, worst_s]


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
