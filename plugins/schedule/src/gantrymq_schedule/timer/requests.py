"""Requests about timers: 60 (checkpoint), 61 (counts by topic). 370 is `recall`'s.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getTimerCheckPoint, getTimerMetrics).
"""

from __future__ import annotations

import json

from gantrymq.errors import RefusedWith
from gantrymq.interfaces import Connection
from gantrymq.remoting.command import Command, response_to
from gantrymq_schedule.timer.settings import ENABLED
from gantrymq_schedule.timer.timers import Timers
from gantrymq_store_files.timer_checkpoint import TIMER_CHECKPOINT_FIELDS_BYTES, encode_timer_checkpoint

__all__ = ["TimerRequests"]


class TimerRequests:
    """Serves operators and slaves."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def checkpoint(self, asked: Command, connection: Connection) -> Command:
        """60: what was saved last, 56 bytes."""
        self._refuse_without()
        body = encode_timer_checkpoint(self._timers.checkpoint())[:TIMER_CHECKPOINT_FIELDS_BYTES]
        return response_to(asked, 0, None, None, body)

    def metrics(self, asked: Command, connection: Connection) -> Command:
        """61: messages that wait, by topic."""
        self._refuse_without()
        body = json.dumps(self._timers.metrics_json(), separators=(",", ":")).encode()
        return response_to(asked, 0, None, None, body)

    def _refuse_without(self) -> None:
        if not self._timers.enabled:
            raise RefusedWith(1, f"there are no timers on this broker ({ENABLED}=false)")
