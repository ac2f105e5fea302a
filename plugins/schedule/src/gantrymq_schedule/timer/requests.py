"""Requests about timers: 60 (checkpoint) and 61 (counts by topic). Request 370 is in `recall`.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getTimerCheckPoint, getTimerMetrics).
"""

from __future__ import annotations

from gantrymq.errors import RequestRefused
from gantrymq.interfaces import Broker
from gantrymq.loose_json import Entries
from gantrymq.model.access import Action
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import serves
from gantrymq.remoting.sliced_responses import SlicedResponses
from gantrymq_schedule.timer.settings import ENABLED
from gantrymq_schedule.timer.timers import Timers
from gantrymq_store_files.timer_checkpoint import TIMER_CHECKPOINT_FIELDS_BYTES, encode_timer_checkpoint


class TimerRequests:
    """Handlers for operators and slaves."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    @serves(RequestCode.GET_TIMER_CHECK_POINT, action=Action.GET)
    def checkpoint(self, request: Command, connection: Connection) -> Command:
        """Answer request 60: the last saved checkpoint, 56 bytes."""
        self._broker()
        body = encode_timer_checkpoint(self._timers.checkpoint())[:TIMER_CHECKPOINT_FIELDS_BYTES]
        return response_to(request, 0, None, None, body)

    @serves(RequestCode.GET_TIMER_METRICS, action=Action.GET)
    async def metrics(self, request: Command, connection: Connection) -> Command:
        """Answer request 61: the number of waiting messages by topic."""
        clock = self._broker().world.clock
        metrics = self._timers.metrics()
        counts = Entries((name, each.to_json()) for name, each in list(metrics.topics.items()))
        body = {"dataVersion": metrics.version.to_json(), "timingCount": counts}
        return await SlicedResponses(clock).make(request, connection, body)

    def _broker(self) -> Broker:
        broker = self._timers.broker
        if broker is None or not self._timers.enabled:
            raise RequestRefused(1, f"there are no timers on this broker now ({ENABLED}=false, or it is a replica)")
        return broker
