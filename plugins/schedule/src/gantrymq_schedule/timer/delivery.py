"""Storing due messages in their topics: each exactly once, however often the put is retried.

A failed put is retried until it succeeds; only a message that broker or store refuse permanently is dropped, with a log
line. After a crash, or a put with an unknown result, the end of the commit log is searched for messages that were
delivered already; they are recognized by topic, queue, id, slot time, rolls and keys.

Source: apache/rocketmq store/.../timer/TimerMessageStore.java (doPut). A Java broker drops a message after three
failures, and repeats the deliveries of the last second before a crash.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from gantrymq.errors import FormatError, RequestError, StoreError
from gantrymq.plugin.formats import iter_records
from gantrymq.plugin.interfaces import (
    BoundaryType,
    BrokerStorage,
    GetLimit,
    MessageStore,
    PutResult,
    PutStatus,
    StoreMessage,
)
from gantrymq_schedule.due_message import DeletedTopics
from gantrymq_schedule.timer.messages import TIMER_QUEUE, delivery_key

log = logging.getLogger(__name__)

_RETRY_S = 0.5
_MOST_QUEUES: Final = 200  # each costs some 20 small reads


class TimerDelivery:
    """Stores the due messages of one broker."""

    def __init__(self, broker: BrokerStorage) -> None:
        self._broker = broker
        self.deleted = DeletedTopics(broker)
        self.known: Counter[tuple[str, ...]] = Counter()  # keys of deliveries made before the start
        self.end = 0  # commit log offset after the last delivery
        self.delivered = 0
        self.given_up = 0
        self.stopping = False  # set at stop: no more retries

    async def recall_from(self, log_offset: int) -> None:
        """Find the deliveries made before the start, from *log_offset* of the commit log on. Raises StoreError."""
        self.known = await self._delivered_from(log_offset)

    async def recall_since(self, time_ms: int) -> None:
        """Find the deliveries made after *time_ms*, as `recall_from` does. Raises StoreError.

        The search begins at the newest message stored at or before that time, in the timer queue and some others.
        """
        store = self._broker.store
        begin = store.state().min_log_offset
        for queue in islice(dict.fromkeys((TIMER_QUEUE, *store.queues())), _MOST_QUEUES):
            offset = await self._broker.messages.offset_at(queue, time_ms, BoundaryType.UPPER)
            found = await self._broker.messages.get(queue, offset, GetLimit(1))
            with suppress(FormatError):
                for record in (each for buffer in found.buffers for each in iter_records(buffer)):
                    if record.store_timestamp <= time_ms:
                        begin = max(begin, record.log_offset)
        size = store.state().max_log_offset - begin
        log.info("searching %d bytes of the log for timed messages that were delivered before the stop", size)
        await self.recall_from(begin)

    async def _delivered_from(self, log_offset: int) -> Counter[tuple[str, ...]]:
        store = self._broker.store
        await store.flushed(store.state().max_log_offset)
        return await self._broker.world.workers.run(_deliveries, store, log_offset, store.state().max_log_offset)

    async def put(
        self, messages: Sequence[StoreMessage], made_at: int, unsure: list[StoreMessage] | None = None
    ) -> None:
        """Store *messages* in order; return when each is stored, was stored before, or its topic is deleted.

        Args:
            messages: without messages of deleted topics.
            made_at: end of the commit log when *messages* were built; topics deleted later are dropped here.
            unsure: is kept to those that are not known to be stored.

        Raises:
            StoreError: a message could not be stored before the broker stopped.
        """
        logged_status: PutStatus | None = None  # the logged reason; its text may change with each try
        unsure = [] if unsure is None else unsure
        waiting = list(messages) if not self.known else [each for each in messages if not _known(each, self.known)]
        while waiting := [each for each in waiting if not self.deleted.has(each.topic, max(0, made_at - 1))]:
            unsure[:] = waiting
            began = self._broker.store.state().max_log_offset
            try:
                results = await self._stored(waiting)
            except Exception as error:
                bug = not isinstance(error, StoreError | RequestError)
                log.warning("timed messages could not be stored, retrying: %s", error, exc_info=bug)
                waiting = await self._not_stored(waiting, began)
                continue
            if all(result.status is PutStatus.OK for result in results):
                self.end = max(self.end, results[-1].end)
                self.delivered += len(results)
                break
            left: list[StoreMessage] = []
            refusal: PutResult | None = None
            for message, result in zip(waiting, results, strict=True):
                if result.status is PutStatus.OK:
                    self.end = max(self.end, result.end)
                    self.delivered += 1
                elif result.status.is_illegal:
                    self.given_up += 1
                    log.error("a timed message of topic %s cannot be delivered: %s", message.topic, result.problem)
                else:
                    left.append(message)
                    refusal = refusal or result
            waiting = unsure[:] = left
            if refusal is not None:
                if refusal.status is not logged_status:
                    logged_status = refusal.status
                    log.warning(
                        "%d timed messages wait for the store: %s", len(left), refusal.problem or logged_status.name
                    )
                await self._pause()
        unsure.clear()

    async def _stored(self, messages: Sequence[StoreMessage]) -> Sequence[PutResult]:
        """Store *messages* as one append, or one by one if the broker refuses one of them. Return a result for each."""
        try:
            return await self._broker.messages.put_all(messages, skip_interceptors=True)
        except RequestError as error:
            if error.retriable:
                raise
            if len(messages) == 1:
                return [PutResult(PutStatus.MESSAGE_ILLEGAL, -1, -1, 0, 0, str(error))]
        return [(await self._stored([message]))[0] for message in messages]

    async def _pause(self) -> None:
        if self.stopping:
            raise StoreError(
                "timed messages were not stored before their service stopped; they come when it starts again"
            )
        await self._broker.world.clock.sleep(_RETRY_S)

    async def _not_stored(self, messages: Sequence[StoreMessage], log_offset: int) -> list[StoreMessage]:
        """Return the *messages* missing in the commit log from *log_offset* on; retry until the log is readable."""
        while True:
            await self._pause()
            try:
                found = await self._delivered_from(log_offset)
            except StoreError as error:
                log.warning("the end of the commit log cannot be made durable: %s", error)
            else:
                self.end = max(self.end, self._broker.store.state().max_log_offset)
                return [each for each in messages if not _known(each, found)]


def _known(message: StoreMessage, known: Counter[tuple[str, ...]]) -> bool:
    """Return whether *message* is among *known*, and remove one occurrence if so."""
    key = delivery_key(message.topic, message.queue_id, message.properties)
    if key is None or not known[key]:
        return False
    known[key] -= 1
    return True


def _deliveries(store: MessageStore, start: int, end: int) -> Counter[tuple[str, ...]]:
    """Return the keys of timer deliveries in ``[start, end)`` of the commit log. Runs in a worker."""
    found: Counter[tuple[str, ...]] = Counter()
    for entry in store.scan(max(start, store.state().min_log_offset), end):
        key = delivery_key(entry.topic, entry.queue_id, entry.properties)
        if key is not None:
            found[key] += 1
    return found
