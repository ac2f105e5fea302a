"""What delayed messages show of themselves: on the metrics page, and in the answer to request 28.

Names are gantrymq_'s: RocketMQ has none for its delay levels but the histogram rocketmq_delay_message_latency, which
counts from when a message was born.

Source: apache/rocketmq broker/.../schedule/ScheduleMessageService.java (buildRunningStats: the rows of request 28).
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import Broker, Shown
from gantrymq_schedule.levels.delivery import LevelDelivery

__all__ = ["figures_of"]


def figures_of(levels: LevelDelivery, broker: Broker) -> list[Callable[[], Shown]]:
    """What to hand to `Broker.show`, for the levels."""
    late, clock = levels.lateness, broker.world.clock

    def waiting() -> Shown:
        text = "Messages of a delay level that are not delivered."
        known = list(levels.progress.levels())
        values: dict[tuple[str, ...], float] = {(str(level),): end - position for level, position, end, _ in known}
        rows = {f"scheduleMessageOffset_{level}": f"{position},{end}" for level, position, end, _ in known if end}
        return Shown("gantrymq_delayed_waiting", text, ("level",), values, runtime_rows=rows)

    def delivered() -> Shown:
        text = "Messages of delay levels that were delivered since the start."
        return Shown("gantrymq_delayed_delivered_total", text, (), {(): late.messages}, counts=True)

    def left_behind() -> Shown:
        text = "Messages of delay levels that could not be stored when they were due."
        return Shown("gantrymq_delayed_left_behind_total", text, (), {(): levels.left_behind}, counts=True)

    def late_s() -> Shown:
        text = "How late delivered messages were, all together."
        return Shown("gantrymq_delayed_late_seconds_total", text, (), {(): late.late_ms / 1000}, counts=True)

    def worst_s() -> Shown:
        text = "How late the latest message of the last minute was."
        return Shown(
            "gantrymq_delayed_late_seconds_worst", text, (), {(): late.worst_lately_ms(clock.monotonic()) / 1000}
        )

    return [waiting, delivered, left_behind, late_s, worst_s]
