"""The service ``schedule``: starts and stops the delivery of delayed messages."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from gantrymq.plugin.formats import delay_levels_of
from gantrymq.plugin.interfaces import Broker, RecallAnswer, RecallRequest
from gantrymq.plugin.model import Role
from gantrymq.plugin.settings import Settings
from gantrymq_schedule import settings as timers
from gantrymq_schedule.interceptor import DelayInterceptor
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.levels.positions import DELAY_OFFSETS
from gantrymq_schedule.levels.table import LevelTable
from gantrymq_schedule.metric_families import level_metrics, timer_metrics
from gantrymq_schedule.pending import PendingLevels, PendingSource, PendingTimers
from gantrymq_schedule.timer.checkpoint_files import NO_CHECKPOINT, TIMER_CHECK
from gantrymq_schedule.timer.recall import Recall
from gantrymq_schedule.timer.timers import Timers


class Schedule:
    """Delayed messages of one broker; may be started again after a stop."""

    name = "schedule"
    roles = frozenset({Role.MASTER, Role.ACTING_MASTER})

    def __init__(self) -> None:
        """Create the service without opening any file."""
        self.interceptor = DelayInterceptor()
        self._levels: LevelDelivery | None = None
        self._pending: dict[str, PendingSource] = {}
        self.timers = Timers()
        self.interceptor.timers = self.timers
        self.recalls = Recall(self.timers)

    async def start(self, broker: Broker) -> None:
        """Start delivering due messages.

        Raises:
            FormatError: a file with saved offsets cannot be read; the message says what to do.
            StoreError: the timer files are damaged, or their size does not match the settings.
        """
        delays_ms = delay_levels_of(broker.settings)
        warn_of_retention(broker.settings, delays_ms)
        levels = LevelDelivery(broker, broker.root / "config", delays_ms)
        await levels.start()
        self._levels = levels
        self._pending = {"levels": PendingLevels(broker, levels.positions, delays_ms)}
        for figure in level_metrics(levels, broker):
            broker.metrics.register(figure)
        self.interceptor.levels = LevelTable(delays_ms)
        try:
            await self.timers.start(broker)
        except BaseException:
            await self.stop()
            raise
        if self.timers.enabled:
            self._pending["timers"] = PendingTimers(self.timers)
            for figure in timer_metrics(self.timers, broker):
                broker.metrics.register(figure)

    async def stop(self) -> None:
        """Stop delivering and save the positions. Idempotent."""
        await self.timers.stop()
        self.interceptor.levels = None
        levels, self._levels, self._pending = self._levels, None, {}
        if levels is not None:
            await levels.stop()

    def state_texts(self) -> Mapping[str, str]:
        """Return the text of delayOffset.json, and an empty timercheck (`gantrymq.interfaces.ServiceState`).

        Wheel and timer log are not copied. A replica therefore drops its own timercheck, which is about the log that it
        had before, and as a master rebuilds wheel and timer log from the commit log (`timer.rebuild`).
        """
        if self._levels is None:
            return {}
        return {DELAY_OFFSETS: self._levels.offsets_text(), TIMER_CHECK: NO_CHECKPOINT}

    def pending(self) -> Mapping[str, PendingSource]:
        """Return the sources of waiting messages by name; empty while the service is not running."""
        return self._pending

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Recall a waiting timed message (`gantrymq.interfaces.MessageRecall`)."""
        return await self.recalls.recall(request)

    def delay_offsets(self) -> str | None:
        """Return the text of delayOffset.json; None while the service does not run."""
        return None if self._levels is None else self._levels.offsets_text()


log = logging.getLogger(__name__)

_RESERVED_H = "fileReservedTime"  # declared by a store that deletes old files


def warn_of_retention(settings: Settings, delays_ms: Sequence[int]) -> None:
    """Log one warning if the longest accepted delay exceeds the retention. *delays_ms*: delays of the levels."""
    if _RESERVED_H not in settings.schema:
        return
    delays_s = {"messageDelayLevel": max(delays_ms, default=0) / 1000}
    if settings.flag(timers.ENABLED):
        delays_s[timers.LONGEST_S] = settings.number(timers.LONGEST_S)
    key = max(delays_s, key=lambda each: delays_s[each])
    hours = settings.number(_RESERVED_H)
    if delays_s[key] > hours * 3600:
        log.warning(
            "%s allows delays of %d hours and %s=%d removes messages after %d hours, even if they still wait; set "
            "%s to %d or more",
            *(key, -(-delays_s[key] // 3600), _RESERVED_H, hours, hours, _RESERVED_H, -(-delays_s[key] // 3600)),
        )
