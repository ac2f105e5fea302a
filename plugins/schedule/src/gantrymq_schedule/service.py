"""The service ``schedule``: starts and stops what delivers delayed messages."""

from __future__ import annotations

from gantrymq.interfaces import Broker
from gantrymq_schedule.interceptor import DelayInterceptor
from gantrymq_schedule.timer.timers import Timers

__all__ = ["Schedule"]


class Schedule:
    """One broker's delayed messages; may be started again after a stop."""

    name = "schedule"

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.interceptor = DelayInterceptor()
        self.timers = Timers()
        self.interceptor.timers = self.timers

    async def start(self, broker: Broker) -> None:
        """Begin to deliver what is due."""
        await self.timers.start(broker)

    async def stop(self) -> None:
        """Save the progress. Idempotent."""
        await self.timers.stop()
