"""Offsets of a group in the queues of one topic at one broker: query, plan and set them.

A broker either sets offsets itself (``useServerSideResetOffset``, ours and 5.x: request 222 for one queue; members
learn of it from their next pull) or lets the group's members do it (4.9, and ours with that setting off: request 222 by
time). In the second case, offsets of an offline group are set by plain commits (15).

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java (resetOffsetByTimestampOld, cloneGroupOffset),
broker/.../processor/AdminBrokerProcessor.java (resetOffset).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from gantrymq.client.admin.connections import GroupClients
from gantrymq.client.admin.offsets import EARLIEST, LATEST, OffsetMove, OffsetTarget
from gantrymq.client.admin.requests import each
from gantrymq.errors import InvalidParameter
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.clients import ResetOffsetRequest

_SERVER_SIDE: Final = "useServerSideResetOffset"


class _Asks(Protocol):
    """The methods of `Admin` that are used here."""

    async def request(self, address: str, code: RequestCode, header: ResetOffsetRequest) -> Command: ...
    async def groups(self, address: str) -> dict[str, GroupConfig]: ...
    async def consumer_connections(self, address: str, group: str) -> GroupClients | None: ...
    async def broker_settings(self, address: str) -> dict[str, str]: ...
    async def min_offset(self, queue: MessageQueue) -> int: ...
    async def max_offset(self, queue: MessageQueue) -> int: ...
    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int: ...
    async def committed_offset(self, group: str, queue: MessageQueue) -> int | None: ...
    async def _commit(self, group: str, queue: MessageQueue, queue_offset: int) -> None: ...


class BrokerOffsets:
    """The queues of one topic at one broker."""

    def __init__(self, admin: _Asks, name: str, address: str, topic: str, queue_ids: Sequence[int]) -> None:
        """*name*, *address*: of the broker; *queue_ids*: its read queues to process."""
        self._admin = admin
        self.name = name
        self.address = address
        self._topic = topic
        self.queue_ids = queue_ids

    async def known(self, group: str) -> bool:
        """Return whether the broker knows the group."""
        return group in await self._admin.groups(self.address)

    async def online(self, group: str) -> int:
        """Return the number of connected clients of the group."""
        found = await self._admin.consumer_connections(self.address, group)
        return 0 if found is None else len(found.clients)

    async def server_side(self) -> bool:
        """Return whether the broker sets offsets itself."""
        return (await self._admin.broker_settings(self.address)).get(_SERVER_SIDE, "false").lower() == "true"

    async def committed(self, group: str) -> dict[int, int]:
        """Return the committed offsets by queue id. RocketMQ 4.9 reports 0 for a new group too."""

        async def one(queue_id: int) -> int | None:
            return await self._admin.committed_offset(group, self._queue(queue_id))

        found = await each(self.queue_ids, one)
        return {queue_id: at for queue_id, at in zip(self.queue_ids, found, strict=True) if at is not None}

    async def moves(self, group: str, target: OffsetTarget | dict[int, int]) -> list[OffsetMove]:
        """Return the current and the new offsets; a table of offsets limits them to its queues, within their bounds."""
        before = await self.committed(group)

        async def one(queue_id: int) -> OffsetMove:
            queue = self._queue(queue_id)
            lowest, end = await self._admin.min_offset(queue), await self._admin.max_offset(queue)
            lowest = min(lowest, end)
            after = await self._target_offset(queue, target, lowest, end)
            return OffsetMove(self.name, queue_id, lowest, end, before.get(queue_id), after)

        wanted = [queue_id for queue_id in self.queue_ids if not isinstance(target, dict) or queue_id in target]
        return await each(wanted, one)

    async def set_by_broker(self, group: str, moves: Sequence[OffsetMove]) -> None:
        """Let the broker set the offsets, queue by queue. Requires `server_side`."""

        async def one(move: OffsetMove) -> None:
            header = ResetOffsetRequest(
                topic=self._topic,
                group=group,
                timestamp=-1,
                is_force=True,
                queue_id=move.queue_id,
                offset=move.after,
            )
            await self._admin.request(self.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

        await each(moves, one)

    async def commit(self, group: str, moves: Sequence[OffsetMove]) -> None:
        """Commit the offsets as a member would; only for a group that is offline.

        The first commit is sent alone, see `GroupOffsets.commit`; if it fails, nothing else is sent.
        """

        async def one(move: OffsetMove) -> None:
            await self._admin._commit(group, self._queue(move.queue_id), move.after)

        first, *others = moves
        await one(first)
        await each(others, one)

    async def set_by_members(self, group: str, target: OffsetTarget) -> None:
        """Let the online members set their offsets, which takes about ten seconds.

        Raises:
            InvalidParameter: the target is a queue offset; members accept times only.
        """
        refuse_by_members(self.name, group, target)
        time_ms = {EARLIEST: 0, LATEST: -1}.get(target.edge, target.time_ms)
        header = ResetOffsetRequest(topic=self._topic, group=group, timestamp=time_ms or 0, is_force=True)
        await self._admin.request(self.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    async def _target_offset(
        self, queue: MessageQueue, target: OffsetTarget | dict[int, int], lowest: int, end: int
    ) -> int:
        """Return the offset of *target* in a queue, within its bounds except for an explicit queue offset."""
        if isinstance(target, dict):
            return min(max(target[queue.queue_id], lowest), end)
        known = target.at_once(lowest, end)
        if known is not None:
            return known
        return min(max(await self._admin.offset_for_timestamp(queue, target.time_ms or 0), lowest), end)

    def _queue(self, queue_id: int) -> MessageQueue:
        return MessageQueue(self._topic, self.name, queue_id)


def refuse_by_members(broker: str, group: str, target: OffsetTarget) -> None:
    """Reject targets that older members do not understand. Raises InvalidParameter."""
    if target.queue_offset is not None:
        raise InvalidParameter(
            f"broker {broker} lets the members of {group} set their offsets, which accept times only; stop "
            f"them first, or use a time ({_SERVER_SIDE} is false there, or not known)"
        )
