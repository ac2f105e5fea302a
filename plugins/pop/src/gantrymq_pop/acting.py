"""Pops of an acting master, which cannot append to its log: checkpoints and acknowledgements are in memory.

    a pop                the group's offset stays before its messages until all of them are acknowledged
    not acknowledged     the messages are read again, from where they are: there is no copy in a retry topic
    the master returns   it takes over the offsets of groups, and delivers from there on

So a message that was not acknowledged is never lost; it may come again with others that were popped after it. Pending
checkpoints of the master are read from the revive log, so that their handles stay good, and their messages come again
when they are due. The position of the log is not committed: the master, whose log has no acknowledgements of that
time, delivers their messages again.

RocketMQ stores checkpoints, acknowledgements and copies of this time on another broker instead (EscapeBridge).

Source: apache/rocketmq broker/.../BrokerController.java (changeSpecialServiceStatus), failover/EscapeBridge.java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from gantrymq.plugin.interfaces import Broker, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.model import Queue
from gantrymq_pop.checkpoints import Acknowledgement, Checkpoint, CheckpointKey, ReviveRecord
from gantrymq_pop.pop_queue import PopQueue, PopRange
from gantrymq_pop.revive import PendingCheckpoint
from gantrymq_pop.revive_log import ReviveEntry, ReviveLog

_IN_MEMORY: Final = PutResult(PutStatus.OK, -1, -1, 0, 0)
_NO_ROOM: Final = (
    "an acting master keeps no more than popCkMaxBufferSize={} pops in memory; acknowledge some, or raise it with: "
    "gantrymq broker config set popCkMaxBufferSize=N"
)


class PopOffsets(Protocol):
    """The pop offsets of groups (`pop_reader.PopReader`)."""

    def offsets_of(self, group: str, queue: Queue) -> PopQueue | None:
        """Return the state of a queue; None if the group has no offset of it."""

    def commit(self, group: str, queue: Queue, state: PopQueue) -> None:
        """Commit the position of *state*, unless it was replaced."""


class MemoryReviveLog(ReviveLog):
    """Checkpoints and acknowledgements of an acting master, in the place of the revive log."""

    def __init__(
        self,
        broker: Broker,
        broker_name: str,
        given_back: Callable[[str, str], None],
        offsets: Callable[[], PopOffsets],
    ) -> None:
        """*given_back*: see `ReviveLog`; *offsets* is called once messages are popped or due."""
        super().__init__(broker, broker_name, given_back)
        self._offsets = offsets
        self._held: dict[CheckpointKey, tuple[PopQueue, PopRange]] = {}  # ranges that hold back a group's offset

    def delivered(self, key: CheckpointKey, state: PopQueue, take: PopRange) -> None:
        """Hold back the group's offset until the checkpoint is acknowledged."""
        self._held[key] = state, take

    async def write(
        self, entries: Sequence[tuple[int, ReviveEntry]], *, first: Sequence[StoreMessage] = ()
    ) -> list[PutResult]:
        """Add *entries*; see `ReviveLog.write`. Checkpoints of new pops are refused if there is no room for them."""
        results = []
        for revive_queue, each in entries:
            if isinstance(each, Acknowledgement):
                self._logs[revive_queue].acknowledge(each)
                self._settle(revive_queue, each.key)
                results.append(_IN_MEMORY)
            elif each.again or self._room():
                self._add(revive_queue, each)
                results.append(_IN_MEMORY)
            else:
                most = self._broker.settings.number("popCkMaxBufferSize")
                results.append(PutResult(PutStatus.SERVICE_NOT_AVAILABLE, -1, -1, 0, 0, _NO_ROOM.format(most)))
        self._arm()
        return results

    async def write_late(self, revive_queue: int, entry: Acknowledgement, due_ms: int) -> PutResult:
        """Ignore an acknowledgement of a checkpoint that waits in the master's timer; its message comes again."""
        return _IN_MEMORY

    def counted(self, revive_queue: int, end: int) -> None:
        """Do nothing: the end of the log that the offsets cover is the master's."""

    def _add(self, revive_queue: int, checkpoint: Checkpoint) -> None:
        key, queue = checkpoint.key, self._logs[revive_queue]
        if checkpoint.again and key not in self._held:
            state = self._offsets().offsets_of(key.group, Queue(key.topic, key.queue_id))
            if state is not None:
                self._held[key] = state, state.hold(checkpoint.offsets[0], checkpoint.offsets[-1] + 1)
        queue.feed(queue.next_offset, ReviveRecord(checkpoint, False, 0), self._clock.now_ms())

    def _settle(self, revive_queue: int, key: CheckpointKey) -> None:
        """Let the group's offset move over the messages of a checkpoint if all of them are acknowledged."""
        if self.pending(revive_queue, key) is None and (held := self._held.pop(key, None)) is not None:
            state, take = held
            state.stored(take)
            self._offsets().commit(key.group, Queue(key.topic, key.queue_id), state)

    async def _give_back(self, revive_queue: int, pending: PendingCheckpoint, topic: str) -> bool:
        """Let unacknowledged messages be read again, unless the group was reset since they were popped."""
        key = pending.checkpoint.key
        queue = Queue(key.topic, key.queue_id)
        state, held = self._offsets().offsets_of(key.group, queue), self._held.pop(key, None)
        if state is not None and (held is None or held[0] is state):
            state.give_back(sorted(pending.left), held and held[1])
            self._offsets().commit(key.group, queue, state)
        return True

    def _prepare_topic(self, queues: int) -> None:
        """Do nothing: only a master creates topics."""

    def _uncommitted(self) -> bool:
        return False

    def _commit(self) -> None:
        """Do nothing: the master continues at its own position."""
