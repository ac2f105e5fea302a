"""What delayed messages show of themselves: on the metrics page, and in the answer to request 28.

Names are gantrymq_'s: RocketMQ has none for its delay levels but the histogram rocketmq_delay_message_latency, which
counts from when a message was born.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (buildRunningStats: the rows of request 28).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import Broker, MetricFamily
from gantrymq_schedule.levels.delivery import LevelDelivery

__all__ = ["figures_of"]


def figures_of(levels: LevelDelivery, broker: Broker) -> list[Callable[[], MetricFamily]]:
    """What to hand to `Broker.register_metrics`, for the levels."""
    late, clock = levels.lateness, broker.world.clock

    def waiting() -> MetricFamily:
        text = "Messages of a delay level that are not delivered."
        known = list(levels.progress.levels())
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
        text = "How late delivered messages were, all together."
        return MetricFamily("gantrymq_delayed_late_seconds_total", text, (), {(): late.late_ms / 1000}, counter=True)

    def worst_s() -> MetricFamily:
        text = "How late the latest message of the last minute was."
        return MetricFamily(
            "gantrymq_delayed_late_seconds_worst", text, (), {(): late.worst_lately_ms(clock.monotonic()) / 1000}
        )

    return [waiting, delivered, left_behind, late_s, worst_s]
