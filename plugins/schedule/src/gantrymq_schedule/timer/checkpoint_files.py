"""Checkpoint, metrics and handover of the timers of one store: files in config/.

``timercheck`` and ``timermetrics`` are read at start and saved while the timers run.

``timerHandover.json`` names timed messages that another broker delivered, which the commit log does not show:

    {"delivered":[[read time ms, queue offset], ...]}

Of each pair: messages of the timer queue before the queue offset, with a slot before the read time, were delivered. An
acting master writes what it sent elsewhere; for a slot that it could not finish there is a pair of its own, with the
offset of the first message that was not sent. A returning master gets the pairs of its slaves (plugin replication).
Both read the file when they rebuild the wheel, at any later time as well, because what it says stays true.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (prepareTimerCheckPoint), TimerMetrics.java (persist).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.world import FileReader, FileTree, make_durable_dirs
from gantrymq_store_files.timer_checkpoint import (
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from gantrymq_store_files.timer_metrics import TimerMetrics

log = logging.getLogger(__name__)
TIMER_CHECK: Final = "timercheck"
NO_CHECKPOINT: Final = "{}"  # shorter than a checkpoint, so that it counts as missing
TAKEN_OVER: Final = "this broker has taken over tables of another one"
_FILE: Final = "timerHandover.json"
_MOST: Final = 100  # pairs; older ones are about messages that retention has removed


class TimerCheckpointFiles:
    """The two files. `load` and `save` run in a worker."""

    def __init__(self, files: FileTree, root: Path) -> None:
        self._files = files
        self._folder = root / "config"
        self._check = self._folder / TIMER_CHECK
        self._metrics = self._folder / "timermetrics"
        self.checkpoint = TimerCheckpoint()
        self.metrics = TimerMetrics()
        self._saved_metrics = b""

    def load(self) -> str:
        """Read both files. Return why they are of no use: damage or `TAKEN_OVER`; empty if both are valid."""
        with contextlib.suppress(FileNotFoundError):
            text = self._files.read(self._check)
            if text == NO_CHECKPOINT.encode():
                return TAKEN_OVER
            found = decode_timer_checkpoint(text)
            self.checkpoint = found or self.checkpoint
        if self.checkpoint.read_time_ms <= 0:
            return f"{self._check} is missing or empty"
        try:
            text = self._files.read(self._metrics)
            self.metrics = TimerMetrics.decode(text)
            self._saved_metrics = text
        except FileNotFoundError:
            return f"{self._metrics} is missing" if self.checkpoint.in_slots > 0 else ""
        except FormatError as error:
            return f"{self._metrics}: {error}"
        return ""

    def forget(self) -> None:
        """Remove the checkpoint, so that a start rebuilds wheel and log unless it is saved again. Raises OSError."""
        if self._files.stat(self._check) is not None:
            self._files.remove(self._check)
            self._files.sync_dir(self._folder)
        self.checkpoint, self.metrics = TimerCheckpoint(), TimerMetrics()

    def save(self, checkpoint: TimerCheckpoint, metrics: bytes) -> None:
        """Write the files that changed. Raises OSError."""
        make_durable_dirs(self._files, self._folder)
        if metrics != self._saved_metrics:
            if self._saved_metrics:
                self._files.replace(self._metrics.with_name(self._metrics.name + ".bak"), self._saved_metrics)
            self._files.replace(self._metrics, metrics)
            self._saved_metrics = metrics
        if checkpoint != self.checkpoint:
            self._files.replace(self._check, encode_timer_checkpoint(checkpoint))
            self.checkpoint = checkpoint


@attrs.frozen
class TimerHandover:
    """The pairs, the newest last."""

    delivered: tuple[tuple[int, int], ...] = ()

    @classmethod
    def read(cls, files: FileReader, root: Path) -> Self:
        """Read the file, which may be missing. Raises FormatError."""
        path = root / "config" / _FILE
        try:
            found = loads(files.read(path))
            return cls(tuple((int(time_ms), int(offset)) for time_ms, offset in found["delivered"]))
        except FileNotFoundError:
            return cls()
        except (FormatError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} cannot be read: {error!r}") from error

    def has(self, slot_ms: int, queue_offset: int) -> bool:
        """Return whether a message of the timer queue was delivered."""
        return any(slot_ms < time_ms and queue_offset < offset for time_ms, offset in self.delivered)

    def written(self, files: FileTree, root: Path, more: Sequence[tuple[int, int]]) -> None:
        """Write the file with *more* pairs. Raises OSError."""
        make_durable_dirs(files, root / "config")
        pairs = (*self.delivered, *more)[-_MOST:]
        files.replace(root / "config" / _FILE, dumps({"delivered": [list(each) for each in pairs]}))
