"""Where a group is in the queues of a topic, and setting it from outside; works at our brokers and Java's.

A broker either sets offsets itself (``useServerSideResetOffset``, ours and 5.x: request 222 for one queue; members are
told by their next pull) or lets the group's members do it (4.9 and ours with that setting off: request 222 by time).
There a group that is offline is set by plain commits (15).

Sources: apache/rocketmq tools/.../admin/DefaultMQAdminExtImpl.java (resetOffsetByTimestampOld, cloneGroupOffset),
broker/.../processor/AdminBrokerProcessor.java (resetOffset).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gantrymq.client.admin import Admin
from gantrymq.errors import BrokerRefused, ClientError, InvalidParameter
from gantrymq.model.names import check_topic
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.clients import ResetOffsetRequest
from gantrymq.remoting.headers.offsets import (
    GetMaxOffsetRequest,
    GetMinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetByTimestampRequest,
    UpdateConsumerOffsetRequest,
)
from gantrymq_admin.groups import BrokerAdmin, GroupAdmin
from gantrymq_admin.offset_targets import EARLIEST, LATEST, QueueMove, Target

__all__ = ["BrokerOffsets", "brokers_with"]

AT_ONCE = 64  # requests under way to one broker
SERVER_SIDE = "useServerSideResetOffset"

Given = TypeVar("Given")
Got = TypeVar("Got")


class BrokerOffsets:
    """The queues of one topic at one broker."""

    def __init__(self, admin: Admin, name: str, address: str, topic: str, queue_ids: Sequence[int]) -> None:
        """*name*, *address*: of the broker; *queue_ids*: its read queues that are meant."""
        self._admin = admin
        self.name = name
        self.address = address
        self._topic = topic
        self.queue_ids = queue_ids

    async def known(self, group: str) -> bool:
        """Whether the broker has the group."""
        return group in await GroupAdmin(self._admin).configs(self.address)

    async def online(self, group: str) -> int:
        """How many clients of the group are connected."""
        found = await GroupAdmin(self._admin).clients(self.address, group)
        return 0 if found is None else len(found.clients)

    async def server_side(self) -> bool:
        """Whether the broker sets offsets itself."""
        settings = await BrokerAdmin(self._admin, self.address).settings()
        return settings.get(SERVER_SIDE, "false").lower() == "true"

    async def committed(self, group: str) -> dict[int, int]:
        """Queue id to what the group committed, where it did. 4.9 tells 0 for a new group as well."""

        async def one(queue_id: int) -> int | None:
            header = QueryConsumerOffsetRequest(
                consumer_group=group, topic=self._topic, queue_id=queue_id, set_zero_if_not_found=False
            )
            try:
                return await self._offset(RequestCode.QUERY_CONSUMER_OFFSET, header)
            except BrokerRefused as refusal:
                if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                    return None
                raise

        found = await each(self.queue_ids, one)
        return {queue_id: at for queue_id, at in zip(self.queue_ids, found, strict=True) if at is not None}

    async def moves(self, group: str, target: Target | dict[int, int]) -> list[QueueMove]:
        """Where the group is and would go on; of a table of offsets only the queues in it, within their bounds."""
        before = await self.committed(group)

        async def one(queue_id: int) -> QueueMove:
            lowest = await self._offset(
                RequestCode.GET_MIN_OFFSET, GetMinOffsetRequest(topic=self._topic, queue_id=queue_id)
            )
            end = await self._offset(
                RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequest(topic=self._topic, queue_id=queue_id)
            )
            lowest = min(lowest, end)
            after = await self._place(queue_id, target, lowest, end)
            return QueueMove(self.name, queue_id, lowest, end, before.get(queue_id), after)

        wanted = [queue_id for queue_id in self.queue_ids if not isinstance(target, dict) or queue_id in target]
        return await each(wanted, one)

    async def set_here(self, group: str, moves: Sequence[QueueMove]) -> None:
        """Let the broker set the offsets, queue by queue. It must set them itself, see `server_side`."""

        async def one(move: QueueMove) -> None:
            header = ResetOffsetRequest(
                topic=self._topic,
                group=group,
                timestamp=-1,
                is_force=True,
                queue_id=move.queue_id,
                offset=move.after,
            )
            await self._admin.ask(self.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

        await each(moves, one)

    async def commit(self, group: str, moves: Sequence[QueueMove]) -> None:
        """Commit the offsets as a member would; right for a group that is offline.

        The first by itself: of two first commits of a group on a topic at once RocketMQ may forget one (commitOffset of
        its ConsumerOffsetManager makes the table of the topic in two steps).
        """

        async def one(move: QueueMove) -> None:
            header = UpdateConsumerOffsetRequest(
                consumer_group=group, topic=self._topic, queue_id=move.queue_id, commit_offset=move.after
            )
            await self._admin.ask(self.address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

        first, *others = moves
        await one(first)
        await each(others, one)

    async def tell_members(self, group: str, target: Target) -> None:
        """Let the members that are online set their offsets, which takes them some ten seconds.

        Raises:
            InvalidParameter: a queue offset is asked for: members understand times alone.
        """
        refuse_by_members(self.name, group, target)
        time_ms = {EARLIEST: 0, LATEST: -1}.get(target.edge, target.time_ms)
        header = ResetOffsetRequest(topic=self._topic, group=group, timestamp=time_ms or 0, is_force=True)
        await self._admin.ask(self.address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)

    async def _place(self, queue_id: int, target: Target | dict[int, int], lowest: int, end: int) -> int:
        """Where *target* is in a queue; within its bounds, but for a queue offset that was asked for."""
        if isinstance(target, dict):
            return min(max(target[queue_id], lowest), end)
        known = target.at_once(lowest, end)
        if known is not None:
            return known
        header = SearchOffsetByTimestampRequest(topic=self._topic, queue_id=queue_id, timestamp=target.time_ms or 0)
        return min(max(await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header), lowest), end)

    async def _offset(self, code: RequestCode, header: Header) -> int:
        return OffsetResponse.from_ext((await self._admin.ask(self.address, code, header)).ext).offset


def refuse_by_members(broker: str, group: str, target: Target) -> None:
    """Refuse what members of an older kind do not understand. Raises InvalidParameter."""
    if target.queue_offset is not None:
        raise InvalidParameter(
            f"broker {broker} lets the members of {group} set their offsets, and they understand times alone; stop "
            f"them first, or use a time ({SERVER_SIDE} is false there, or not known)"
        )


async def brokers_with(admin: Admin, topic: str, queue: int | None = None) -> list[BrokerOffsets]:
    """The masters of a topic with their read queues; with *queue* that one alone.

    Raises:
        NoRoute: no name server knows the topic.
        ClientError: no master of it is registered.
        InvalidParameter: no broker has that queue.
    """
    check_topic(topic)
    route = await admin.route(topic)
    found = []
    for grant in route.queues:
        broker = route.broker(grant.broker_name)
        if broker is None or broker.master is None or not grant.read_queues:
            continue
        ids = [each for each in range(grant.read_queues) if queue is None or each == queue]
        if ids:
            found.append(BrokerOffsets(admin, broker.name, broker.master, topic, ids))
    if not found and queue is not None:
        raise InvalidParameter(f"topic {topic} has no queue {queue}; see: gantrymq topic status -t {topic}")
    if not found:
        raise ClientError(f"no master that holds topic {topic} is registered; see: gantrymq topic route -t {topic}")
    return found


async def each(given: Sequence[Given], ask: Callable[[Given], Awaitable[Got]]) -> list[Got]:
    """Ask for each, AT_ONCE at a time; the results in order.

    Raises:
        what the first that failed raised, when all that were under way have ended.
    """
    results: list[Got] = []
    for begin in range(0, len(given), AT_ONCE):
        done = await asyncio.gather(*(ask(one) for one in given[begin : begin + AT_ONCE]), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results
