"""The service ``schedule``: starts and stops what delivers delayed messages."""

from __future__ import annotations

from gantrymq.interfaces import Broker
from gantrymq_schedule.interceptor import DelayInterceptor

__all__ = ["Schedule"]


class Schedule:
    """One broker's delayed messages; may be started again after a stop."""

    name = "schedule"

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.interceptor = DelayInterceptor()

    async def start(self, broker: Broker) -> None:
        """Begin to deliver what is due."""

    async def stop(self) -> None:
        """Save the progress. Idempotent."""
