"""The revive log of this broker: writing, reading, and redelivery of messages that were not acknowledged in time.

Records written here are added to memory as soon as they are stored (`write`). Records delivered by a timer, or stored
while memory was full, are read from the log. Once a second, and when a checkpoint is due, `_tick` revives due
checkpoints and commits the position of the log.

The offsets of all groups are saved together every few seconds. Among them, under KNOWN_GROUP, is the end of the log at
that time: after a crash, checkpoints from there on are not covered by the saved offsets of their groups. Older ones are
not used, as a group may have been reset since, or its topic created again.

A redelivered message and its acknowledgement are one append, so a crash redelivers nothing twice.

Source: apache/rocketmq broker/.../processor/PopReviveService.java.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence

import attrs

from gantrymq.errors import GantryError, RequestError
from gantrymq.plugin.formats import RecordView, iter_records
from gantrymq.plugin.interfaces import Broker, GetLimit, GetResult, GetStatus, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.model import Queue, TopicConfig
from gantrymq.plugin.names import pop_retry_topics
from gantrymq.plugin.world import Timer
from gantrymq_pop.checkpoints import (
    Acknowledgement,
    Checkpoint,
    CheckpointKey,
    ReviveRecord,
    ack_message,
    checkpoint_message,
    delayed_until,
    read_revive_record,
    retry_checkpoint,
)
from gantrymq_pop.held_bytes import HeldBytes
from gantrymq_pop.pop_queue import PopQueue, PopRange
from gantrymq_pop.revive import PendingCheckpoint, ReviveQueue, make_retry_topic, retry_copy
from gantrymq_pop.topics import KNOWN_GROUP, REVIVE_GROUP, producer_topic, revive_topic

log = logging.getLogger(__name__)

_TICK_S = 1.0
_READ = GetLimit(256)
_AT_ONCE = 16  # checkpoints per queue revived concurrently
_MOST_BYTES = 16 * 1024 * 1024  # of copies that are being written, above which no further messages are read

ReviveEntry = Checkpoint | Acknowledgement


class ReviveLog:
    """Checkpoints and acknowledgements of this broker."""

    def __init__(self, broker: Broker, broker_name: str, given_back: Callable[[str, str], None]) -> None:
        """*given_back* is called with topic and group when messages can be popped again."""
        self._broker = broker
        self._clock = broker.world.clock
        self._broker_name = broker_name
        self._given_back = given_back
        self.topic = revive_topic(broker.settings.text("brokerClusterName"))
        self.written_queues = broker.settings.number("reviveQueueNum")
        self.queues = self._served_queues()
        self.in_flight: Counter[tuple[str, str]] = Counter()  # messages in flight by topic and group
        self._logs = [ReviveQueue(self._begin(each), self.in_flight) for each in range(self.queues)]
        self._committed: list[int | None] = [None] * self.queues
        self._behind_at: dict[int, int] = {}  # next entry of lagging queues at the last tick
        self._timer: Timer | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._copying = HeldBytes(_MOST_BYTES)
        self._stopped = True  # until the log is read; otherwise acknowledged messages would be revived
        self._endings = [
            broker.messages.on_arrival(self._arrived, Queue(self.topic, each)) for each in range(self.queues)
        ]

    def _served_queues(self) -> int:
        """Return the number of queues to serve: the setting, or more if it, or another broker's, was higher before."""
        config = self._broker.topics.get(self.topic)
        there = [queue.queue_id + 1 for queue in self._broker.store.queues() if queue.topic == self.topic]
        count = max(self.written_queues, *there, 0 if config is None else config.read_queues)
        if config is None or config.read_queues < count:
            self._prepare_topic(count)
        return count

    def _prepare_topic(self, queues: int) -> None:
        self._broker.topics.put(TopicConfig(self.topic, queues, queues))

    def _begin(self, queue_id: int) -> int:
        queue = Queue(self.topic, queue_id)
        done = self._broker.offsets.committed(REVIVE_GROUP, queue)
        bounds = self._broker.store.bounds(queue)
        begin = bounds.min_offset if done is None else max(bounds.min_offset, done + 1)
        return min(begin, bounds.max_offset)  # a power loss may remove entries before the committed position

    @property
    def waiting(self) -> int:
        """Number of pending checkpoints in memory."""
        return sum(map(len, self._logs))

    def pending(self, revive_queue: int, key: CheckpointKey) -> PendingCheckpoint | None:
        """Return the pending checkpoint with *key*; None if it is not in memory."""
        return self._logs[revive_queue].pending(key)

    def caught_up(self, revive_queue: int) -> bool:
        """Return whether all records of the queue were read into memory."""
        end = self._broker.store.bounds(Queue(self.topic, revive_queue)).max_offset
        return self._logs[revive_queue].next_offset >= end

    async def catch_up(self, on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None) -> None:
        """Read the log from the committed position to its end.

        *on_checkpoint* is called with each checkpoint of a pop that the saved offsets of groups do not cover.
        """
        for revive_queue in range(self.queues):
            while not self.caught_up(revive_queue) and self._room() and await self._read(revive_queue, on_checkpoint):
                pass
            await self._read_the_rest(revive_queue, on_checkpoint)
        self._stopped = False
        self._arm()

    # --- writing ----------------------------------------------------------------------------------------------------

    async def write(
        self, entries: Sequence[tuple[int, ReviveEntry]], *, first: Sequence[StoreMessage] = ()
    ) -> list[PutResult]:
        """Store *entries*, each with its revive queue, after the messages of *first*, as one append.

        Interceptors are skipped: they saw the originals of the redelivered copies.

        Returns a result for each, those of *first* first; stored entries are in memory then.

        Raises:
            StoreError, RequestError: it is unknown whether anything was stored.
        """
        now_ms, host = self._clock.now_ms(), self._broker.store_host
        messages = list(first)
        for revive_queue, each in entries:
            if isinstance(each, Checkpoint):
                messages.append(checkpoint_message(each, self.topic, revive_queue, now_ms, host))
            else:
                messages.append(ack_message(each.key, each.offsets, self.topic, revive_queue, now_ms, host))
        results = list(
            await self._broker.messages.put_all(messages, skip_interceptors=True)
        )  # own records, and copies of messages read before
        ends: dict[int, int] = {}
        for (revive_queue, each), result in zip(entries, results[len(first) :], strict=True):
            if result.status is PutStatus.OK:
                self._feed(revive_queue, result, each)
                ends[revive_queue] = result.queue_offset + 1
        for revive_queue, end in ends.items():
            self.counted(revive_queue, end)
        return results

    def delivered(self, key: CheckpointKey, state: PopQueue, take: PopRange) -> None:
        """Let the group's offset move over the messages of a stored checkpoint."""
        state.stored(take)

    def counted(self, revive_queue: int, end: int) -> None:
        """Record that the groups' offsets cover the log before *end*, or will before they are saved."""
        with contextlib.suppress(RequestError):  # if this offset cannot be committed, those of groups cannot either
            self._broker.offsets.commit(KNOWN_GROUP, Queue(self.topic, revive_queue), end)

    async def write_late(self, revive_queue: int, entry: Acknowledgement, due_ms: int) -> PutResult:
        """Store an acknowledgement through the timer, for a checkpoint that waits there: it arrives after it."""
        now_ms, host = self._clock.now_ms(), self._broker.store_host
        message = ack_message(entry.key, entry.offsets, self.topic, revive_queue, now_ms, host)
        return await self._broker.messages.put(delayed_until(message, due_ms))

    def _feed(self, revive_queue: int, stored: PutResult, entry: ReviveEntry) -> None:
        queue, queue_offset = self._logs[revive_queue], stored.queue_offset
        if queue_offset == queue.next_offset and self._room():
            queue.feed(queue_offset, ReviveRecord(entry, False, 0, stored.log_offset), self._clock.now_ms())
            self._arm()
        else:
            if isinstance(entry, Acknowledgement):
                queue.acknowledge(entry)  # it is stored, so it counts even if earlier entries are not read yet
            if queue_offset > queue.next_offset:
                self._read_now(revive_queue)

    # --- following --------------------------------------------------------------------------------------------------

    def _room(self) -> bool:
        return self.waiting < self._broker.settings.number("popCkMaxBufferSize")

    def _arrived(self, queue: Queue, end: int) -> None:
        self._arm()

    def _read_now(self, revive_queue: int) -> None:
        """Read one page if it is in memory; `_follow` reads the rest."""
        if not self._room():
            return
        queue = Queue(self.topic, revive_queue)
        found = self._broker.store.get(queue, self._logs[revive_queue].next_offset, _READ, None)
        if isinstance(found, GetResult):
            self._take(revive_queue, found)
        elif isinstance(found, Coroutine):
            found.close()

    async def _read(
        self, revive_queue: int, on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None
    ) -> bool:
        """Read the next page. Return whether there was a record."""
        await asyncio.sleep(0)
        queue = Queue(self.topic, revive_queue)
        found = await self._broker.messages.get(queue, self._logs[revive_queue].next_offset, _READ)
        return self._take(revive_queue, found, on_checkpoint)

    def _take(
        self, revive_queue: int, found: GetResult, on_checkpoint: Callable[[Checkpoint], None] = lambda checkpoint: None
    ) -> bool:
        """Add the records of a page. Return whether there was a record."""
        queue, before = self._logs[revive_queue], self._logs[revive_queue].next_offset
        now_ms = self._clock.now_ms()
        for buffer in found.buffers:
            for record in iter_records(buffer):
                if record.queue_offset < queue.next_offset:
                    continue  # added by `write` meanwhile
                queue.skip_to(record.queue_offset)
                read = read_revive_record(record, self._broker_name)
                if isinstance(read.entry, Checkpoint) and self._is_news(revive_queue, record.queue_offset, read):
                    on_checkpoint(read.entry)
                queue.feed(record.queue_offset, read, now_ms)
        if not found.buffers:
            queue.skip_to(found.next_offset)
        self._arm()
        return queue.next_offset > before

    def _is_news(self, revive_queue: int, queue_offset: int, read: ReviveRecord) -> bool:
        """Return whether the saved offset of the group may not cover this checkpoint; used while starting."""
        known = self._broker.offsets.committed(KNOWN_GROUP, Queue(self.topic, revive_queue)) or 0
        again = isinstance(read.entry, Checkpoint) and read.entry.again
        return not (read.by_timer or again) and queue_offset >= known

    async def _read_the_rest(self, revive_queue: int, on_checkpoint: Callable[[Checkpoint], None]) -> None:
        """Scan entries that do not fit in memory for acknowledgements of known checkpoints, and offsets of groups."""
        queue = self._logs[revive_queue]
        offset = queue.next_offset
        place = Queue(self.topic, revive_queue)
        while offset < self._broker.store.bounds(place).max_offset:
            found = await self._broker.messages.get(place, offset, _READ)
            for buffer in found.buffers:
                for record in iter_records(buffer):
                    read = read_revive_record(record, self._broker_name)
                    if isinstance(read.entry, Acknowledgement):
                        queue.acknowledge(read.entry)
                    elif read.entry is not None and self._is_news(revive_queue, record.queue_offset, read):
                        on_checkpoint(read.entry)
            if found.next_offset <= offset:
                return
            offset = found.next_offset

    # --- reviving ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Schedule the next tick: when the earliest checkpoint is due, at most in a second; not at all if idle."""
        if self._stopped or self._timer is not None:
            return
        dues = [due for queue in self._logs if (due := queue.next_due_ms()) is not None]
        if not dues and all(map(self.caught_up, range(self.queues))) and not self._uncommitted():
            return
        wait_s = (min(dues) - self._clock.now_ms()) / 1000 if dues else _TICK_S
        self._timer = self._clock.call_later(min(max(wait_s, 0.01), _TICK_S), self._tick)

    def _uncommitted(self) -> bool:
        return any(
            queue.position >= 0 and queue.position != done
            for queue, done in zip(self._logs, self._committed, strict=True)
        )

    def _tick(self) -> None:
        self._timer = None
        self._ticking = asyncio.get_running_loop().create_task(self._run_tick())

    async def _run_tick(self) -> None:
        wait = False
        try:
            await self._follow()
            for revive_queue, queue in enumerate(self._logs):
                lagging = queue.lagging()
                if lagging is not None:
                    await self.write_again(revive_queue, lagging, attrs.evolve(lagging.checkpoint, again=True))
            wait = not await self._revive_due()
            self._commit()
        except Exception:
            wait = True
            log.exception("reviving unacknowledged messages failed; retrying in a second")
        finally:
            self._ticking = None
            if wait and not self._stopped and self._timer is None:
                self._timer = self._clock.call_later(_TICK_S, self._tick)
            self._arm()

    async def _revive_due(self) -> bool:
        """Revive due checkpoints of all queues concurrently, so that they share appends.

        Returns:
            Whether all succeeded; a queue with a failure is skipped until the next tick.
        """
        failed = set[int]()
        while not self._stopped:
            now_ms = self._clock.now_ms()
            due = [
                (revive_queue, pending)
                for revive_queue, queue in enumerate(self._logs)
                if revive_queue not in failed
                for pending in queue.due(now_ms, _AT_ONCE)
            ]
            if not due:
                break
            done = await asyncio.gather(*(self._revive(*each) for each in due))
            failed |= {revive_queue for (revive_queue, _), worked in zip(due, done, strict=True) if not worked}
        return not failed

    async def _follow(self) -> None:
        """Read records that `write` did not add; entries that are just being written are left to it."""
        for revive_queue, queue in enumerate(self._logs):
            if self.caught_up(revive_queue):
                self._behind_at.pop(revive_queue, None)
            elif self._behind_at.get(revive_queue) == queue.next_offset:
                while not self.caught_up(revive_queue) and self._room() and await self._read(revive_queue):
                    pass
            else:
                self._behind_at[revive_queue] = queue.next_offset

    async def write_again(
        self, revive_queue: int, pending: PendingCheckpoint, checkpoint: Checkpoint
    ) -> list[PutResult]:
        """Write *checkpoint* in place of a pending one with the same key and messages, at the end of the log.

        Its acknowledgements follow it, because the position of the log may move over the earlier ones. None may be
        about to be stored (`PendingCheckpoint.settling`). Raises as `write`.
        """
        entries: list[tuple[int, ReviveEntry]] = [(revive_queue, checkpoint)]
        if pending.acknowledged:
            entries.append((revive_queue, Acknowledgement(checkpoint.key, tuple(pending.acknowledged))))
        return await self.write(entries)

    async def _revive(self, revive_queue: int, pending: PendingCheckpoint) -> bool:
        """Copy unacknowledged messages into the group's retry topic. Return whether that succeeded."""
        key = pending.checkpoint.key
        topic = producer_topic(key.topic, key.group)
        done = False
        try:
            await self._copying.room()
            if pending.left and self._knows(topic, key.group):
                done = await self._give_back(revive_queue, pending, topic)
            else:
                done = True  # acknowledged meanwhile, or topic or group deleted
        except GantryError as error:
            log.warning(
                "%d messages of %s could not be given back to %s yet: %s",
                *(len(pending.left), key.topic, key.group, error),
            )
        except Exception:
            log.exception("messages of %s could not be given back to %s yet", key.topic, key.group)
        if done:
            self._logs[revive_queue].finished(pending)
        else:
            self._logs[revive_queue].again(pending)
        self._given_back(topic, key.group)
        return done

    def _knows(self, topic: str, group: str) -> bool:
        return self._broker.topics.get(topic) is not None and self._broker.groups.get(group) is not None

    async def _give_back(self, revive_queue: int, pending: PendingCheckpoint, topic: str) -> bool:
        """Copy messages into the group's retry topic.

        Returns:
            Whether each is copied, deleted, or waits under a checkpoint of its own; otherwise the messages that
            failed stay in the checkpoint.

        Raises:
            GantryError: no message was copied.
        """
        copies: list[StoreMessage] = []
        try:
            return await self._copy(revive_queue, pending, topic, copies)
        finally:
            self._copying.release(sum(len(each.body) for each in copies))

    async def _copy(
        self, revive_queue: int, pending: PendingCheckpoint, topic: str, copies: list[StoreMessage]
    ) -> bool:
        """Do the work of `_give_back`; adds to *copies*, and to the bytes that the caller releases."""
        key = pending.checkpoint.key
        left = tuple(sorted(pending.left))
        second_form = self._broker.settings.flag("enableRetryTopicV2")
        target = key.topic if key.topic != topic else pop_retry_topics(key.group, topic)[second_form]
        offsets: list[int] = []
        for offset in left:
            record = await self._message(Queue(key.topic, key.queue_id), offset)
            if record is not None and (pending.log_offset is None or record.log_offset < pending.log_offset):
                copies.append(retry_copy(record, target, key.pop_time, self._broker.store_host))
                self._copying.add(len(record.body))
                offsets.append(offset)
        if not self._knows(topic, key.group):
            return True  # deleted while they were read
        if copies:
            make_retry_topic(self._broker, target, key.group)
        *copied, acknowledged = await self.write([(revive_queue, Acknowledgement(key, left))], first=copies)
        refused = {
            offset: result for offset, result in zip(offsets, copied, strict=True) if result.status is not PutStatus.OK
        }
        if not refused:
            return True
        first = next(iter(refused.values()))
        log.warning(
            "%d messages of %s/%d could not be given back to %s yet: %s",
            *(len(refused), key.topic, key.queue_id, key.group, first.problem or first.status.name),
        )
        if acknowledged.status is PutStatus.OK:
            now_ms = self._clock.now_ms()
            later: list[tuple[int, ReviveEntry]] = [
                (revive_queue, retry_checkpoint(pending.checkpoint, offset, now_ms)) for offset in refused
            ]
            if all(each.status is PutStatus.OK for each in await self.write(later)):
                return True
        pending.left = set(refused)
        return False

    async def _message(self, queue: Queue, offset: int) -> RecordView | None:
        """Return the message at *offset*, None if it was deleted."""
        found = await self._broker.messages.get(queue, offset, GetLimit(1))
        if found.status is not GetStatus.FOUND:
            return None
        record = next(iter_records(found.buffers[0]))
        return record if record.queue_offset == offset else None

    def _commit(self) -> None:
        for revive_queue, queue in enumerate(self._logs):
            position = queue.position
            if position >= 0 and position != self._committed[revive_queue]:
                self._broker.offsets.commit(REVIVE_GROUP, Queue(self.topic, revive_queue), position)
                self._committed[revive_queue] = position

    async def stop(self) -> None:
        """Stop reviving, and commit the position of the log."""
        self._stopped = True
        for end in self._endings:
            end()
        if self._timer is not None:
            self._timer.cancel()
        if self._ticking is not None:
            await self._ticking
        self._commit()
