"""Writes trace records: collects them, packs them into messages and sends those in the background.

    append -> waiting, up to a limit -> messages of as many records as are waiting -> up to 8 in flight

A message is sent when `batch` records are waiting, or when the first of them has waited for ``flush_every_s``; it
contains all waiting records that fit. Records that find no room or cannot be sent are dropped and counted: tracing
never delays a message and takes bounded memory.

Source: apache/rocketmq client/.../trace/AsyncTraceDispatcher.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gantrymq.client.calls.rpc import within
from gantrymq.client.message import Message
from gantrymq.client.sending.encoded_message import Compressor, prepare
from gantrymq.client.sending.message_sender import MessageSender, Submission
from gantrymq.client.sending.producer_settings import ProducerSettings
from gantrymq.client.sending.retries import RetryPolicy
from gantrymq.client.sending.send_requests import ProducerFields
from gantrymq.client.tracing.records import TraceRecord, encode_trace, trace_keys
from gantrymq.errors import GantryError
from gantrymq.model.names import MAX_GROUP_CHARS

if TYPE_CHECKING:
    from gantrymq.client.connection.instance import ClientInstance
    from gantrymq.client.tracing.message_trace import MessageTrace
    from gantrymq.world import Timer

logger = logging.getLogger("gantrymq.client")

MOST_BODY_BYTES: Final = 128_000  # maxMsgSize of AsyncTraceDispatcher
_MOST_KEY_BYTES: Final = 16_000  # of the KEYS property: half of the limit for all properties
_MOST_UNDER_WAY: Final = 8
_TIMEOUT_S: Final = 5.0
CLOSE_S: Final = 5.0  # for waiting records when a client is closed
LAST_S: Final = 1.0  # for records added while it unregisters from its brokers
_COMPRESS_OVER: Final = 4096
_ATTEMPTS: Final = RetryPolicy(attempts=3)


class TraceWriter:
    """Writes the trace of one producer or consumer, from its start to its close."""

    def __init__(self, trace: MessageTrace, instance: ClientInstance, group: str, role: str) -> None:
        """*role* is PRODUCE or CONSUME."""
        self._trace = trace
        self._instance = instance
        self._clock = instance.world.clock
        producer = ProducerFields(f"_INNER_TRACE_PRODUCER-{group}-{role}-1"[:MAX_GROUP_CHARS])
        self._sender = MessageSender(instance, producer, ProducerSettings(), _nothing)
        self._compressor = Compressor("zlib", 5)
        self._waiting: deque[TraceRecord] = deque()
        self._due = asyncio.Event()
        self._everything = False  # whether to send a partial batch as well
        self._timer: Timer | None = None
        self._room = asyncio.Semaphore(_MOST_UNDER_WAY)
        self._under_way: dict[asyncio.Task[None], int] = {}  # number of records per task
        self._idle = asyncio.Event()  # no record is waiting or in flight
        self._idle.set()
        self._said = False
        self._closed = False
        self._job = instance.job(self._run())

    def append(self, records: Sequence[TraceRecord]) -> None:
        """Queue *records*; those that find no room are dropped and counted."""
        room = 0 if self._closed else max(0, self._trace.most_waiting - len(self._waiting))
        if room < len(records):
            self._lost(len(records) - room, "the client was closed" if self._closed else "too many of them wait")
            records = records[:room]
        if not records:
            return
        self._waiting.extend(records)
        self._idle.clear()
        if len(self._waiting) >= self._trace.batch:
            self._due.set()
        elif self._timer is None:
            self._timer = self._clock.call_later(self._trace.flush_every_s, self._flush_soon)

    async def flush(self, limit_s: float = CLOSE_S) -> None:
        """Wait until no record is waiting or in flight, at most *limit_s* seconds."""
        if not self._idle.is_set():
            self._flush_soon()
            await within(self._clock, limit_s, self._idle.wait())

    async def close(self) -> None:
        """Write waiting records within `LAST_S` seconds; the rest is dropped and counted."""
        try:
            await self.flush(LAST_S)
        finally:
            self._end()

    def _end(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._sender.end()
        self._job.cancel()
        left = len(self._waiting)
        self._waiting.clear()
        for task, count in list(self._under_way.items()):
            task.remove_done_callback(self._done)
            if task.done():
                self._done(task)
            else:
                task.cancel()
                left += count
        self._lost(left, "the client was closed before they could be sent")

    def _flush_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._everything = True
        self._due.set()

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            everything, self._everything = self._everything, False
            while len(self._waiting) >= (1 if everything else self._trace.batch):
                await self._room.acquire()
                count, message = self._packed()
                task = asyncio.get_running_loop().create_task(self._send(message))
                self._under_way[task] = count
                task.add_done_callback(self._done)
            if self._waiting and self._timer is None:
                self._timer = self._clock.call_later(self._trace.flush_every_s, self._flush_soon)

    def _done(self, task: asyncio.Task[None]) -> None:
        count = self._under_way.pop(task)
        self._room.release()
        error = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
        if error is None:
            self._trace.written += count
        else:
            self._lost(count, str(error))
            if not isinstance(error, GantryError | asyncio.CancelledError):
                logger.error("writing a message trace", exc_info=error)
        if not self._waiting and not self._under_way:
            self._idle.set()

    def _packed(self) -> tuple[int, Message]:
        """Return a message with the next records, and their number: all waiting ones, or as many as fit."""
        texts, keys = list[str](), dict[str, None]()
        body_bytes = key_bytes = 0
        while self._waiting:
            text, more = encode_trace((self._waiting[0],)), tuple(trace_keys(self._waiting[0]))
            body_bytes += len(text.encode())
            key_bytes += sum(len(key.encode()) + 1 for key in more if key not in keys)
            if texts and (body_bytes > MOST_BODY_BYTES or key_bytes > _MOST_KEY_BYTES):
                break
            texts.append(text)
            keys.update(dict.fromkeys(more))
            self._waiting.popleft()
        return len(texts), Message(self._trace.topic, "".join(texts).encode(), keys=tuple(keys))

    async def _send(self, message: Message) -> None:
        size = len(message.body)
        submission = Submission(
            message.topic,
            size,
            lambda: prepare(message, self._instance.ids.next),
            self._compressor if size >= _COMPRESS_OVER else None,
        )
        await self._sender.send(submission, None, _TIMEOUT_S, _ATTEMPTS)

    def _lost(self, count: int, why: str) -> None:
        self._trace.dropped += count
        if count and not self._said:
            self._said = True
            text = (
                "records of the message trace are not written to %s: %s; counted in MessageTrace.dropped, logged once"
            )
            logger.warning(text, self._trace.topic, why)


def _nothing() -> None:
    """Do nothing: the writer sends no oneway messages."""
