"""``config/timercheck`` and ``config/timermetrics`` of one store: read at start, saved while timers go on.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (prepareTimerCheckPoint), TimerMetrics.java (persist).
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.world.files import Files
from gantrymq.world.folders import make_durable_dirs
from gantrymq_store_files.timer_checkpoint import (
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from gantrymq_store_files.timer_metrics import TimerMetrics

__all__ = ["Progress"]

log = logging.getLogger(__name__)


class Progress:
    """The two files. `load` and `save` are for a thread."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._folder = root / "config"
        self._check = self._folder / "timercheck"
        self._metrics = self._folder / "timermetrics"
        self.checkpoint = TimerCheckpoint()
        self.metrics = TimerMetrics()
        self._saved_metrics = b""

    def load(self) -> bool:
        """Read both; whether there was a checkpoint. Metrics that cannot be read begin at 0."""
        found = None
        with contextlib.suppress(FileNotFoundError):
            found = decode_timer_checkpoint(self._files.read(self._check))
        if found is not None:
            self.checkpoint = found
        with contextlib.suppress(FileNotFoundError):
            text = self._files.read(self._metrics)
            try:
                self.metrics = TimerMetrics.decode(text)
                self._saved_metrics = text
            except FormatError as error:
                log.warning("%s: %s; the counts of timed messages begin at 0", self._metrics, error)
        return found is not None

    def save(self, checkpoint: TimerCheckpoint, metrics: bytes) -> None:
        """Write both as far as they changed. Raises OSError."""
        make_durable_dirs(self._files, self._folder)
        if metrics != self._saved_metrics:
            if self._saved_metrics:
                self._files.replace(self._metrics.with_name(self._metrics.name + ".bak"), self._saved_metrics)
            self._files.replace(self._metrics, metrics)
            self._saved_metrics = metrics
        if checkpoint != self.checkpoint:
            self._files.replace(self._check, encode_timer_checkpoint(checkpoint))
            self.checkpoint = checkpoint
