"""Requests about timers: 60 (checkpoint) and 61 (counts by topic). Request 370 is in `recall`.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getTimerCheckPoint, getTimerMetrics).
"""

from __future__ import annotations

import json

from gantrymq.errors import RequestRefused
from gantrymq.interfaces import Connection
from gantrymq.remoting.command import Command, response_to
from gantrymq_schedule.timer.settings import ENABLED
from gantrymq_schedule.timer.timers import Timers
from gantrymq_store_files.timer_checkpoint import TIMER_CHECKPOINT_FIELDS_BYTES, encode_timer_checkpoint

__all__ = ["TimerRequests"]


class TimerRequests:
    """Handlers for operators and slaves."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def checkpoint(self, request: Command, connection: Connection) -> Command:
        """Answer request 60: the last saved checkpoint, 56 bytes."""
        self._refuse_without()
        body = encode_timer_checkpoint(self._timers.checkpoint())[:TIMER_CHECKPOINT_FIELDS_BYTES]
        return response_to(request, 0, None, None, body)

    def metrics(self, request: Command, connection: Connection) -> Command:
        """Answer request 61: the number of waiting messages by topic."""
        self._refuse_without()
        body = json.dumps(self._timers.metrics_json(), separators=(",", ":")).encode()
        return response_to(request, 0, None, None, body)

    def _refuse_without(self) -> None:
        if not self._timers.enabled:
            raise RequestRefused(1, f"there are no timers on this broker ({ENABLED}=false)")
