"""Progress of delayed messages for operators, slaves and returning masters: requests 45, 60 and 61.

A replica answers 45 and 60 from the files that it copied, or that it wrote while it acted as its master: a returning
master takes them over. RocketMQ's returns only if all of its slaves answer 60 with a checkpoint.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getAllDelayOffset, getTimerCheckPoint,
getTimerMetrics).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gantrymq.errors import RequestRefused, ServiceNotAvailable
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.loose_json import Entries
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, SlicedResponses, response_to, serves
from gantrymq.plugin.world import FileReader
from gantrymq_schedule.levels.positions import DELAY_OFFSETS, DelayOffsetsFile
from gantrymq_schedule.service import Schedule
from gantrymq_schedule.settings import ENABLED
from gantrymq_schedule.timer.checkpoint_files import TIMER_CHECK, TimerHandover
from gantrymq_store_files.timer_checkpoint import (
    TIMER_CHECKPOINT_FIELDS_BYTES,
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)

_PAIR: Final = struct.Struct(">2q")  # read time, queue offset


class ProgressService:
    """Answers in every role."""

    name = "schedule_progress"
    roles = frozenset(Role)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self._timers = schedule, schedule.timers
        self._running: tuple[Broker, SlicedResponses] | None = None

    async def start(self, broker: Broker) -> None:
        """Answer from now on."""
        self._running = broker, SlicedResponses(broker.world.clock)

    async def stop(self) -> None:
        """Answer no more."""
        self._running = None

    def _served(self) -> tuple[Broker, SlicedResponses]:
        if self._running is None:
            raise ServiceNotAvailable("the broker starts or stops")
        return self._running

    @property
    def _broker(self) -> Broker:
        return self._served()[0]

    @serves(RequestCode.GET_ALL_DELAY_OFFSET, action=Action.GET)
    async def delay_offsets(self, request: Command, connection: Connection) -> Command:
        """Answer request 45: the offsets of the delay levels in the form of delayOffset.json."""
        text = self.schedule.delay_offsets()
        body = await self._file(DELAY_OFFSETS) if text is None else text.encode()
        return response_to(request, 0, None, None, body or DelayOffsetsFile().to_text().encode())

    @serves(RequestCode.GET_TIMER_CHECK_POINT, action=Action.GET)
    async def checkpoint(self, request: Command, connection: Connection) -> Command:
        """Answer request 60: the last saved checkpoint, 56 bytes; of a replica also without one, see the module.

        A replica adds the pairs of `TimerHandover`, 16 bytes each, which RocketMQ's brokers do not read.
        """
        pairs = b""
        if self._timers.broker is not None and self._timers.enabled:
            found = self._timers.checkpoint()
        elif self._broker.role.current is Role.MASTER:
            raise self._no_timers()
        else:
            files, root = self._broker.world.files, self._broker.root
            delivered = (await self._broker.world.workers.run(TimerHandover.read, files, root)).delivered
            found = decode_timer_checkpoint(await self._file(TIMER_CHECK)) or _checkpoint_of(delivered)
            pairs = b"".join(_PAIR.pack(*each) for each in delivered)
        fields = encode_timer_checkpoint(found)[:TIMER_CHECKPOINT_FIELDS_BYTES]
        return response_to(request, 0, None, None, fields + pairs)

    @serves(RequestCode.GET_TIMER_METRICS, action=Action.GET)
    async def metrics(self, request: Command, connection: Connection) -> Command:
        """Answer request 61: the number of waiting messages by topic."""
        if self._timers.broker is None or not self._timers.enabled:
            raise self._no_timers()
        _, responses = self._served()
        metrics = self._timers.metrics()
        counts = Entries((name, each.to_json()) for name, each in list(metrics.topics.items()))
        body = {"dataVersion": metrics.version.to_json(), "timingCount": counts}
        return await responses.make(request, connection, body)

    async def _file(self, name: str) -> bytes:
        return await self._broker.world.workers.run(
            _read, self._broker.world.files, self._broker.root / "config" / name
        )

    def _no_timers(self) -> RequestRefused:
        return RequestRefused(1, f"there are no timers on this broker now ({ENABLED}=false, or it is a replica)")


def _checkpoint_of(delivered: Sequence[tuple[int, int]]) -> TimerCheckpoint:
    read_time_ms, queue_offset = delivered[-1] if delivered else (0, 0)
    return TimerCheckpoint(read_time_ms, 0, queue_offset)


def _read(files: FileReader, path: Path) -> bytes:
    try:
        return files.read(path)
    except FileNotFoundError:
        return b""
