"""Metrics of the delay levels, for the metrics page and the runtime info (request 28).

The names begin with gantrymq_, because RocketMQ's only metric of its delay levels is the histogram
rocketmq_delay_message_latency, which measures from the born time of a message.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (buildRunningStats: the rows of request 28).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import BrokerEnvironment, MetricFamily
from gantrymq_schedule.levels.delivery import LevelDelivery


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
