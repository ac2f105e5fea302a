"""Acknowledgements, and changes of the invisible time of messages.

Acknowledgements that arrive close together are stored as one append, with one record per checkpoint: a record with
several acknowledgements is RocketMQ's record of a batch. Those of a pop are written when its last message is
acknowledged, or together with all others after one millisecond. A request is answered when its record is stored;
responses of the same moment are sent with one write per client.

A message without a pending checkpoint in memory needs no record: it was redelivered or acknowledged before. A
checkpoint written by a Java broker, before this process, may still wait in a timer; its acknowledgement is sent through
the timer too. A change that is repeated, because its answer was lost, gets the first answer again.

Source: apache/rocketmq broker/.../processor/AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import attrs

from gantrymq.errors import (
    GantryError,
    MessageIllegal,
    PoppedMessageGone,
    ReceiptIllegal,
    ServerFault,
    ServiceNotAvailable,
    TopicNotExist,
)
from gantrymq.plugin.interfaces import BrokerConsumers, BrokerStorage, PutResult, PutStatus
from gantrymq.plugin.model import POP_ORDER_REVIVE_QUEUE, Queue, Receipt
from gantrymq.plugin.remoting import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    PREFIX,
    SERIALIZE_JSON,
    Command,
    Connection,
    encode,
    response_to,
)
from gantrymq.plugin.world import Timer
from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey
from gantrymq_pop.order_info import OrderTable
from gantrymq_pop.revive import PendingCheckpoint
from gantrymq_pop.revive_log import ReviveLog

WaitingRequest = tuple[Command, Connection]  # a request and the connection for its response
AckCallback = Callable[[GantryError | None], None]
_DONE: Final = encode(Command(0, opaque=-999, flag=FLAG_RESPONSE))[8:].replace(b"-999", b"%d")
log = logging.getLogger(__name__)
_GATHER_S = 0.001
_SETTLING_TRIES: Final = 1000  # about a second
_CHANGES: Final = 4096  # remembered
RoutedEntry = tuple[int, Checkpoint | Acknowledgement]
CheckpointId = tuple[int, CheckpointKey]  # revive queue and key of a checkpoint
MessageId = tuple[int, CheckpointKey, int]  # and the offset of a message


def answer_all(answers: Iterable[WaitingRequest | AckCallback], problem: GantryError | None) -> None:
    """Answer requests, and call callbacks, with success or the *problem*."""
    frames: dict[Connection, list[bytes]] = {}
    for each in answers:
        if not isinstance(each, tuple):
            each(problem)
            continue
        request, connection = each
        if not request.flag & FLAG_ONEWAY:
            written = frames.get(connection)
            if written is None:
                written = frames[connection] = []
            written.append(_frame(request, problem))
    for connection, written in frames.items():
        connection.reply_parts((b"".join(written),))


def _frame(request: Command, problem: GantryError | None) -> bytes:
    if problem is not None:
        return encode(response_to(request, problem.response_code, str(problem)))
    if request.serialize != SERIALIZE_JSON:
        return encode(response_to(request))
    header = _DONE % request.opaque
    return _prefix(len(header)) + header


@cache
def _prefix(size: int) -> bytes:
    """Return what precedes a JSON header of *size* bytes; there are as many sizes as lengths of an opaque."""
    return PREFIX.pack(4 + size, size)


class NewInvisibleTime(NamedTuple):
    """Pop time and invisible time for the new handle of a message."""

    pop_time: int  # ms
    invisible_ms: int


class AckBatch:
    """Acknowledgements of one checkpoint that are not written yet."""

    __slots__ = ("answers", "offsets")

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.answers: list[WaitingRequest | AckCallback] = []


class Acknowledger:
    """Stores acknowledgements and changed invisible times."""

    def __init__(
        self, broker: BrokerConsumers, revive: ReviveLog, orders: OrderTable, notify: Callable[[str, str], None]
    ) -> None:
        """*notify* is called with topic and group when a queue can be popped in order again."""
        self._broker = broker
        self._clock = broker.world.clock
        self._revive = revive
        self._orders = orders
        self._notify = notify
        self._gathered: dict[CheckpointId, AckBatch] = {}
        self._complete: dict[CheckpointId, None] = {}  # batches that acknowledge all remaining messages of a pop
        self._changing: dict[MessageId, asyncio.Task[NewInvisibleTime]] = {}
        self._changes: dict[MessageId, NewInvisibleTime] = {}  # the newest ones, oldest first
        self._started_ms = self._clock.now_ms()
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def acknowledge(
        self, key: CheckpointKey, handle: Receipt, offsets: Sequence[int], answered: WaitingRequest | AckCallback
    ) -> None:
        """Acknowledge messages of a pop; *answered* is answered, or called, once the record is stored.

        Raises:
            RequestError: with RocketMQ's code; *answered* is not called.
        """
        if handle.revive_queue == POP_ORDER_REVIVE_QUEUE:
            problem: GantryError | None = None
            for offset in offsets:
                try:
                    self._in_order(key, handle.pop_ms, offset)
                except GantryError as error:
                    problem = problem or error
            answer_all([answered], problem)
            return
        pending = self._revive.pending(handle.revive_queue, key)
        if pending is not None:
            new = [offset for offset in offsets if offset in pending.left]
            pending.settling.update(new)
        elif self._revive.caught_up(handle.revive_queue):
            new = []
            if offsets and self._may_wait_in_timer(handle, self._clock.now_ms()):
                self.start_task(self._late(key, handle, tuple(offsets), answered))
                return
        else:
            new = list(offsets)
        if not new:
            answer_all([answered], None)
            return
        self._gather((handle.revive_queue, key), pending, new, [answered])

    def acknowledge_pending(
        self,
        revive_queue: int,
        key: CheckpointKey,
        pending: PendingCheckpoint,
        offsets: Sequence[int],
        answered: Sequence[WaitingRequest],
    ) -> None:
        """Acknowledge unacknowledged messages of a pending checkpoint, *answered* in the order of *offsets*."""
        pending.settling.update(offsets)
        self._gather((revive_queue, key), pending, offsets, answered)

    def _gather(
        self,
        place: CheckpointId,
        pending: PendingCheckpoint | None,
        offsets: Sequence[int],
        answered: Sequence[WaitingRequest | AckCallback],
    ) -> None:
        gathered = self._gathered.get(place)
        if gathered is None:
            gathered = self._gathered[place] = AckBatch()
        gathered.offsets += offsets
        gathered.answers += answered
        if pending is None or len(pending.settling) >= len(pending.left):
            if not self._complete:
                asyncio.get_running_loop().call_soon(self._flush_complete)
            self._complete[place] = None
        elif self._timer is None:
            self._timer = self._clock.call_later(_GATHER_S, self._flush)

    async def change(self, key: CheckpointKey, handle: Receipt, offset: int, invisible_ms: int) -> NewInvisibleTime:
        """Make one message visible again *invisible_ms* from now, under a new handle.

        If the message was changed under the same handle before, or is just being changed, that result is returned.

        Raises:
            RequestError, StoreError: the change could not be stored; the old handle stays valid.
        """
        now_ms = self._clock.now_ms()
        if handle.revive_queue == POP_ORDER_REVIVE_QUEUE:
            place = (key.topic, key.group, key.queue_id)
            committed = self._broker.offsets.committed(key.group, Queue(key.topic, key.queue_id))
            if committed is None or offset >= committed:
                self._orders.visible_later(place, offset, handle.pop_ms, now_ms + invisible_ms)
                self._notify(key.topic, key.group)  # pops that wait for the queue look again when it is free
            return NewInvisibleTime(handle.pop_ms, now_ms + invisible_ms - handle.pop_ms)
        message = handle.revive_queue, key, offset
        under_way = self._changing.get(message)
        if under_way is None:
            under_way = asyncio.get_running_loop().create_task(self._changed(key, handle, offset, invisible_ms))
            self._changing[message] = under_way
            under_way.add_done_callback(lambda done: self._changing.pop(message))
        # A cancelled caller must not cancel the change: others may wait for it, and its two records belong together.
        return await asyncio.shield(under_way)

    async def _changed(self, key: CheckpointKey, handle: Receipt, offset: int, invisible_ms: int) -> NewInvisibleTime:
        now_ms = self._clock.now_ms()
        pending = self._revive.pending(handle.revive_queue, key)
        unknown = pending is None and self._revive.caught_up(handle.revive_queue)
        settled = pending is not None and (offset not in pending.left - pending.settling or pending.reviving)
        message = handle.revive_queue, key, offset
        if settled or (unknown and not self._may_wait_in_timer(handle, now_ms)):
            # Finished: another checkpoint would duplicate it.
            return self._changes.get(message) or NewInvisibleTime(now_ms, invisible_ms)
        again = CheckpointKey(key.topic, key.group, key.queue_id, offset, now_ms, key.broker_name)
        # A pop and a change of a message within one millisecond would otherwise have the same key. A pop time after the
        # clock would look like a clock that was set back, and the message would be visible too early.
        while self._revive.pending(handle.revive_queue, again) is not None:
            again = again._replace(pop_time=again.pop_time - 1)
        invisible_ms += now_ms - again.pop_time
        entries: list[RoutedEntry] = [(handle.revive_queue, Checkpoint(again, invisible_ms, (offset,), again=True))]
        # Acknowledged after the new checkpoint, as in ChangeInvisibleTimeProcessor: a crash in between repeats the
        # message instead of losing it.
        old = Acknowledgement(key, (offset,))
        if not unknown:
            entries.append((handle.revive_queue, old))
        if pending is not None:
            pending.settling.add(offset)
        try:
            _raise_refused(await self._revive.write(entries))
            if unknown:
                _raise_refused([await self._revive.write_late(handle.revive_queue, old, handle.due_ms)])
        finally:
            if pending is not None:
                pending.settling.discard(offset)
        changed = self._changes[message] = NewInvisibleTime(again.pop_time, invisible_ms)
        if len(self._changes) > _CHANGES:
            del self._changes[next(iter(self._changes))]
        return changed

    def _may_wait_in_timer(self, handle: Receipt, now_ms: int) -> bool:
        """Return whether the checkpoint of *handle*, which is not in memory, may be a Java broker's."""
        return handle.pop_ms < self._started_ms and now_ms < handle.due_ms

    def is_delivered(self, key: CheckpointKey, receipt: Receipt) -> bool:
        """Return whether a message is neither acknowledged nor visible again; True if that is not known yet."""
        offset = receipt.queue_offset
        if receipt.revive_queue == POP_ORDER_REVIVE_QUEUE:
            return self._orders.is_open((key.topic, key.group, key.queue_id), offset, receipt.pop_ms)
        pending = self._revive.pending(receipt.revive_queue, key)
        if pending is None:
            return not self._revive.caught_up(receipt.revive_queue)
        return offset in pending.left and offset not in pending.settling and not pending.reviving

    async def renew(self, key: CheckpointKey, handle: Receipt, invisible_ms: int) -> list[int]:
        """Let the unacknowledged messages of a pop stay invisible until *invisible_ms* from now, under their handles.

        The checkpoint is written again under its key, with another time, so that all handles of the pop stay valid,
        also after a restart. Return the queue offsets of these messages, none if all are acknowledged or redelivered.

        Raises:
            ServiceNotAvailable: acknowledgements of the pop take too long, or the record cannot be stored or is not
                read yet.
            StoreError: it is unknown whether the record is stored.
        """
        at_ms = self._clock.now_ms() + invisible_ms
        if handle.revive_queue == POP_ORDER_REVIVE_QUEUE:
            return self._orders.renew((key.topic, key.group, key.queue_id), handle.pop_ms, at_ms)
        for _ in range(_SETTLING_TRIES):
            pending = self._revive.pending(handle.revive_queue, key)
            if pending is None and not self._revive.caught_up(handle.revive_queue):
                raise ServiceNotAvailable("the revive log has records that are not read yet; renew again in a moment")
            if pending is None or pending.reviving:
                return []
            # An acknowledgement that is before the new checkpoint in the log would not count for it.
            if not pending.settling:
                checkpoint = attrs.evolve(pending.checkpoint, invisible_ms=at_ms - key.pop_time, again=True)
                _raise_refused(await self._revive.write_again(handle.revive_queue, pending, checkpoint))
                return sorted(pending.left)
            await self._clock.sleep(_GATHER_S)
        raise ServiceNotAvailable("acknowledgements of the pop are being stored; renew again in a moment")

    async def close(self) -> None:
        """Wait for pending writes."""
        self._flush()
        waiting = [*self._tasks, *self._changing.values()]
        if waiting:
            await asyncio.wait(waiting)

    def _in_order(self, key: CheckpointKey, pop_time: int, offset: int) -> None:
        queue = Queue(key.topic, key.queue_id)
        committed = self._broker.offsets.committed(key.group, queue)
        if committed is not None and offset < committed:
            return
        place = (key.topic, key.group, key.queue_id)
        try:
            position = self._orders.acknowledged(place, offset, pop_time)
        except KeyError:
            raise ReceiptIllegal(
                f"offset {offset} of {queue} was not delivered by the last pop of group {key.group} in order; pass on "
                "POP_CK as the message had it"
            ) from None
        if position is not None:
            self._broker.offsets.commit(key.group, queue, position)
            if self._orders.blocked_until_ms(place, None, self._clock.now_ms()) is None:
                self._notify(key.topic, key.group)

    def _flush_complete(self) -> None:
        complete, self._complete = self._complete, {}
        found = [(place, self._gathered.pop(place)) for place in complete if place in self._gathered]
        if not self._gathered:
            self._stop_timer()
        self._store(found)

    def _flush(self) -> None:
        self._stop_timer()
        gathered, self._gathered = self._gathered, {}
        self._store(gathered.items())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _store(self, gathered: Iterable[tuple[CheckpointId, AckBatch]]) -> None:
        entries: list[RoutedEntry] = []
        answers: list[WaitingRequest | AckCallback] = []
        for (revive_queue, key), each in gathered:
            entries.append((revive_queue, Acknowledgement(key, tuple(dict.fromkeys(each.offsets)))))
            answers += each.answers
        if entries:
            self.start_task(self._write(entries, answers))

    async def _write(self, entries: list[RoutedEntry], answers: list[WaitingRequest | AckCallback]) -> None:
        problem: GantryError | None = None
        try:
            _raise_refused(await self._revive.write(entries))
        except GantryError as error:
            problem = error
        except Exception:
            log.exception("acknowledgements could not be stored")
            problem = ServerFault()
        for revive_queue, each in entries:
            pending = self._revive.pending(revive_queue, each.key) if isinstance(each, Acknowledgement) else None
            if pending is not None:
                pending.settling.difference_update(each.offsets)
        answer_all(answers, problem)

    async def _late(
        self,
        key: CheckpointKey,
        handle: Receipt,
        offsets: tuple[int, ...],
        answered: WaitingRequest | AckCallback,
    ) -> None:
        problem: GantryError | None = None
        try:
            entry = Acknowledgement(key, offsets)
            _raise_refused([await self._revive.write_late(handle.revive_queue, entry, handle.due_ms)])
        except GantryError as error:
            problem = error
        except Exception:
            log.exception("an acknowledgement could not be stored")
            problem = ServerFault()
        answer_all([answered], problem)

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        """Run *work*, which raises nothing, before `close` returns."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def checked_queue(broker: BrokerStorage, topic: str, queue_id: int, offset: int | None, *, to_end: bool) -> None:
    """Check that a queue exists and contains *offset*.

    Args:
        to_end: whether the offset after the last message is accepted, as for acknowledgements.

    Raises:
        TopicNotExist, MessageIllegal: the topic or queue does not exist.
        PoppedMessageGone: the queue does not have the message.
    """
    config = broker.topics.get(topic)
    if config is None:
        raise TopicNotExist(
            f"topic {topic} does not exist on this broker; name the topic that the message was popped from, see: "
            "gantrymq topic list"
        )
    if not 0 <= queue_id < config.read_queues:
        raise MessageIllegal(
            f"queueId {queue_id} is outside topic {topic}, with {config.read_queues} read queues; name the queue "
            "that the message was popped from"
        )
    if offset is not None:
        bounds = broker.store.bounds(Queue(topic, queue_id))
        if not bounds.min_offset <= offset < bounds.max_offset + to_end:
            raise PoppedMessageGone(
                f"offset {offset} is outside queue {topic}/{queue_id}, which has messages from {bounds.min_offset} to "
                f"{bounds.max_offset - 1}; name the message's own queueOffset",
            )


def _raise_refused(results: Sequence[PutResult]) -> None:
    """Raise ServiceNotAvailable if the store refused one of the writes."""
    for result in results:
        if result.status is not PutStatus.OK:
            raise ServiceNotAvailable(result.problem or result.status.name)
