"""The service ``schedule``: starts and stops what delivers delayed messages."""

from __future__ import annotations

from pathlib import Path

from gantrymq.interfaces import Broker
from gantrymq_schedule.interceptor import DelayInterceptor
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.levels.table import LevelTable, read_table
from gantrymq_schedule.timer.timers import Timers

__all__ = ["Schedule"]


class Schedule:
    """One broker's delayed messages; may be started again after a stop."""

    name = "schedule"

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.interceptor = DelayInterceptor()
        self._levels: LevelDelivery | None = None
        self.timers = Timers()
        self.interceptor.timers = self.timers

    async def start(self, broker: Broker) -> None:
        """Begin to deliver what is due.

        Raises:
            FormatError: a file with progress cannot be read; says what to do.
            StoreError: the files of the timers are damaged, or of another size than the settings say.
        """
        delays_ms = read_table(broker.settings)
        levels = LevelDelivery(broker, config_folder(broker), delays_ms)
        await levels.start()
        self._levels = levels
        self.interceptor.levels = LevelTable(delays_ms)
        await self.timers.start(broker)

    async def stop(self) -> None:
        """Deliver nothing more and save the progress. Idempotent."""
        await self.timers.stop()
        self.interceptor.levels = None
        levels, self._levels = self._levels, None
        if levels is not None:
            await levels.stop()


def config_folder(broker: Broker) -> Path:
    """Where a store has RocketMQ's own small files."""
    given = broker.settings.text("storePathRootDir")
    root = Path(given) if given else Path(broker.world.environ.get("HOME", ".")) / "store"
    return root / "config"
