"""Offsets of queues and of groups, queried from the master of the queue's broker; targets and results of resets.

Source: apache/rocketmq client/.../impl/MQAdminImpl.java (maxOffset, minOffset, searchOffset, earliestMsgStoreTime).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

import attrs

from gantrymq.client.admin.errors import OffsetOutside
from gantrymq.client.admin.requests import AdminRequests, each
from gantrymq.client.argument_types import check_kind
from gantrymq.client.calls.rpc import reply_header
from gantrymq.client.reading.group_offsets import GroupOffsets
from gantrymq.errors import InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.offsets import GetEarliestMsgStoretimeRequest, GetEarliestMsgStoretimeResponse

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


@attrs.frozen
class OffsetTarget:
    """One of: an end of each queue (*edge*), a store time, a queue offset."""

    edge: str = ""  # EARLIEST or LATEST
    time_ms: int | None = None
    queue_offset: int | None = None

    @classmethod
    def earliest(cls) -> Self:
        """Return the target "oldest message of each queue"."""
        return cls(edge=EARLIEST)

    @classmethod
    def latest(cls) -> Self:
        """Return the target "end of each queue", after all existing messages."""
        return cls(edge=LATEST)

    @classmethod
    def at_time(cls, time_ms: int) -> Self:
        """Return the target "first message of each queue stored at *time_ms* or later"; ms since the epoch."""
        return cls(time_ms=time_ms)

    @classmethod
    def at_offset(cls, queue_offset: int) -> Self:
        """Return the target "queue offset *queue_offset* of each queue"."""
        return cls(queue_offset=queue_offset)

    def at_once(self, min_offset: int, max_offset: int) -> int | None:
        """Return the offset in a queue with these bounds, or None if the broker has to look up a time."""
        if self.edge == EARLIEST:
            return min_offset
        if self.edge == LATEST:
            return max_offset
        return self.queue_offset


@attrs.frozen
class OffsetMove:
    """Current and new offset of a group in one queue."""

    broker: str  # its name
    queue_id: int
    min_offset: int
    max_offset: int
    before: int | None  # committed; None without a commit
    after: int

    @property
    def skipped(self) -> int:
        """Number of messages that the group skips; negative for messages that it reads again."""
        return self.after - min(max(self.before or 0, self.min_offset), self.max_offset)


@attrs.frozen
class OffsetReset:
    """Result of a reset, or of a dry run."""

    topic: str
    dry_run: bool  # nothing was set
    online: int  # members that are connected
    ways: tuple[str, ...]  # methods used: "broker", "members" (within about ten seconds), "commit"; sorted
    moves: tuple[OffsetMove, ...]
    left_out: tuple[str, ...] = ()  # names of brokers that do not know the group
    attributes_left_out: tuple[str, ...] = ()  # attributes of a cloned group that its clone does not have

    @property
    def skipped(self) -> int:
        """Number of messages that the group skips."""
        return sum(max(0, move.skipped) for move in self.moves)

    @property
    def read_again(self) -> int:
        """Number of messages that the group reads again."""
        return sum(max(0, -move.skipped) for move in self.moves)


def refuse_outside(moves: Iterable[OffsetMove]) -> None:
    """Reject offsets outside of their queues.

    Raises:
        OffsetOutside: an offset is below the minimum or beyond the end of its queue; nothing was changed.
    """
    bad = [move for move in moves if not move.min_offset <= move.after <= move.max_offset]
    if bad:
        first = bad[0]
        others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        raise OffsetOutside(
            f"offset {first.after} is not in queue {first.queue_id} of {first.broker}{others}, which has "
            f"{first.min_offset} to {first.max_offset}; nothing was changed"
        )


class OffsetCalls(AdminRequests):
    """Part of `Admin`. Calls raise `NoRoute` if the queue's broker is not known, `BrokerRefused` with its code, and
    ConnectFailed, ConnectionLost or CallTimeout without a response.
    """

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the first offset still in the queue; 0 for an empty queue."""
        return await self._offsets().min_offset(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the queue's next message will get."""
        return await self._offsets().max_offset(queue)

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at *time_ms* or later; near the end if there is none."""
        return await self._offsets().offset_for_timestamp(queue, time_ms)

    async def oldest_stored_ms(self, queue: MessageQueue) -> int | None:
        """Return the store time of the queue's oldest message in ms since 1970, or None for an empty queue."""
        check_kind("queue", queue, MessageQueue)
        header = GetEarliestMsgStoretimeRequest(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        address = await self._started().routes.find_broker(queue.topic, queue.broker_name, 0)
        reply = await self.request(address, RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        stored_ms = reply_header(GetEarliestMsgStoretimeResponse, reply, address).timestamp
        return stored_ms if stored_ms >= 0 else None

    async def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the group's offset in the queue, or None. RocketMQ 4.9 reports 0 for a new group too."""
        return await self._offsets(group).committed(queue, or_zero=False)

    async def committed_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
        """Return the group's offsets in all queues of a topic that have one, sorted."""
        queues = sorted(await self._started().routes.readable_queues(topic))

        async def one(queue: MessageQueue) -> int | None:
            return await self.committed_offset(group, queue)

        found = zip(queues, await each(queues, one), strict=True)
        return {queue: at for queue, at in found if at is not None}

    async def commit_offset(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """Commit for a group as a member would; only for a group that is offline, see `reset_offsets` for others.

        Raises:
            InvalidParameter: the offset is outside of the queue.
        """
        end = await self.max_offset(queue)
        if not 0 <= queue_offset <= end:
            raise InvalidParameter(
                f"offset {queue_offset} cannot be committed: {queue.topic}, {queue.broker_name}, queue "
                f"{queue.queue_id} has offsets from 0 to its end at {end}"
            )
        await self._commit(group, queue, queue_offset)

    async def _commit(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        await self._offsets(group).commit(queue, queue_offset)

    def _offsets(self, group: str = "") -> GroupOffsets:
        """Return the offsets of *group*, or of no group if it is empty."""
        return GroupOffsets(self._started(), group, self.request)
