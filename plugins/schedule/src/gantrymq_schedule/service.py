"""The service ``schedule``: starts and stops what delivers delayed messages."""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq.formats.tags_code import delay_levels_of
from gantrymq.interfaces import Broker, Connection
from gantrymq.remoting.command import Command, response_to
from gantrymq_schedule.figures import figures_of
from gantrymq_schedule.interceptor import DelayInterceptor
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.levels.offsets_file import DelayOffsetsFile
from gantrymq_schedule.levels.pending import PendingLevels
from gantrymq_schedule.levels.table import LevelTable
from gantrymq_schedule.pending import PendingSource
from gantrymq_schedule.retention import warn_of_retention
from gantrymq_schedule.timer.figures import timer_figures
from gantrymq_schedule.timer.pending import PendingTimers
from gantrymq_schedule.timer.timers import Timers

__all__ = ["Schedule"]


class Schedule:
    """One broker's delayed messages; may be started again after a stop."""

    name = "schedule"

    def __init__(self) -> None:
        """Nothing is opened yet."""
        self.interceptor = DelayInterceptor()
        self._levels: LevelDelivery | None = None
        self._pending: dict[str, PendingSource] = {}
        self.timers = Timers()
        self.interceptor.timers = self.timers

    async def start(self, broker: Broker) -> None:
        """Begin to deliver what is due.

        Raises:
            FormatError: a file with progress cannot be read; says what to do.
            StoreError: the files of the timers are damaged, or of another size than the settings say.
        """
        delays_ms = delay_levels_of(broker.settings)
        warn_of_retention(broker.settings, delays_ms)
        levels = LevelDelivery(broker, broker.root / "config", delays_ms)
        await levels.start()
        self._levels = levels
        self._pending = {"levels": PendingLevels(broker, levels.progress, delays_ms)}
        for figure in figures_of(levels, broker):
            broker.register_metrics(figure)
        self.interceptor.levels = LevelTable(delays_ms)
        try:
            await self.timers.start(broker)
        except BaseException:
            await self.stop()
            raise
        if self.timers.enabled:
            self._pending["timers"] = PendingTimers(self.timers)
            for figure in timer_figures(self.timers, broker):
                broker.register_metrics(figure)

    async def stop(self) -> None:
        """Deliver nothing more and save the progress. Idempotent."""
        await self.timers.stop()
        self.interceptor.levels = None
        levels, self._levels, self._pending = self._levels, None, {}
        if levels is not None:
            await levels.stop()

    def pending(self) -> Mapping[str, PendingSource]:
        """What waits, by kind; empty while the service does not run."""
        return self._pending

    def delay_offsets(self, asked: Command, connection: Connection) -> Command:
        """45: the progress of the levels, as delayOffset.json has it."""
        text = self._levels.offsets_text() if self._levels is not None else DelayOffsetsFile().to_text()
        return response_to(asked, 0, None, None, text.encode())
