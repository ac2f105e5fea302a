"""Offset resets of a group: to a time or offset, to another group's offsets, or to the end.

Supports our brokers and Java's, with members online or offline; see `broker_offsets`.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from gantrymq.client.admin.broker_offsets import BrokerOffsets, refuse_by_members
from gantrymq.client.admin.configuration import ConfigurationCalls
from gantrymq.client.admin.connections import ConnectionCalls
from gantrymq.client.admin.errors import NothingCommitted, PartialReset, QueueUnknown
from gantrymq.client.admin.groups import GroupCalls
from gantrymq.client.admin.offsets import OffsetCalls, OffsetMove, OffsetReset, OffsetTarget, refuse_outside
from gantrymq.client.admin.progress import ProgressCalls
from gantrymq.client.admin.topics import TopicCalls
from gantrymq.errors import ClientError, GroupNotExist
from gantrymq.model import names

_Plan = list[tuple[BrokerOffsets, list[OffsetMove]]]


class ResetCalls(TopicCalls, GroupCalls, ConnectionCalls, ProgressCalls, OffsetCalls, ConfigurationCalls):
    """Part of `Admin`."""

    async def reset_offsets(
        self,
        group: str,
        topic: str,
        target: OffsetTarget,
        *,
        queue_id: int | None = None,
        dry_run: bool = False,
    ) -> OffsetReset:
        """Set the offsets of *group* in a topic, with members online or offline.

        Messages before the new offset are skipped, messages after it are read again. If a broker does not set offsets
        itself, online members receive the time and set their offsets within about ten seconds; without members the
        offsets are committed.

        Args:
            group: the consumer group.
            topic: its topic.
            target: such as `OffsetTarget.earliest()` or `OffsetTarget.at_time(time_ms)`.
            queue_id: only this queue of each broker.
            dry_run: only report, set nothing.

        Raises:
            NoRoute, GroupNotExist, QueueUnknown: there is no such topic, group or queue.
            OffsetOutside: a queue does not have the offset; nothing was changed.
            InvalidParameter: members would have to set a queue offset, which they cannot; nothing was changed.
            PartialReset: a broker failed; some queues may be set, and repeating the call sets the rest.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a broker does not answer; nothing was changed.
        """
        brokers, left_out = await self._split_by_group(await self._brokers_with(topic, queue_id), group)
        plan = [(broker, await broker.moves(group, target)) for broker in brokers]
        refuse_outside(move for _, moves in plan for move in moves)
        done = await self._apply(group, topic, plan, target if queue_id is None else None, dry_run=dry_run)
        return attrs.evolve(done, left_out=left_out)

    async def skip_messages(self, group: str, topic: str) -> OffsetReset:
        """Skip all unconsumed messages of a topic for *group*. Raises as `reset_offsets`."""
        return await self.reset_offsets(group, topic, OffsetTarget.latest())

    async def clone_offsets(
        self,
        source: str,
        group: str,
        topic: str | None = None,
        *,
        cluster: str | None = None,
        dry_run: bool = False,
    ) -> tuple[OffsetReset, ...]:
        """Set the offsets of *group* to those of *source*; a missing group is created with the settings of *source*.

        Queues without an offset of *source*, and its retry topic, are not changed. Attributes are not cloned.

        Args:
            source: the group to copy from.
            group: the group to set.
            topic: None for all topics that *source* has offsets for.
            cluster: cluster to search for those topics; not needed if there is only one.
            dry_run: only report, set nothing.

        Returns:
            A reset for each topic.

        Raises:
            NothingCommitted: *source* has no offsets there; nothing was changed for that topic.
            as `reset_offsets` and `masters`: all other errors.
        """
        done = []
        for name in [topic] if topic else await self._topics_committed(source, cluster):
            plan: _Plan = []
            brokers, left_out = await self._split_by_group(await self._brokers_with(name), source)
            attributes: set[str] = set()
            for broker in brokers:
                offsets = await broker.committed(source)
                if not dry_run and offsets and not await broker.known(group):
                    config = (await self.groups(broker.address))[source]
                    attributes |= set(config.attributes)
                    copy = attrs.evolve(config, name=group, attributes={}, subscriptions=None)
                    await self.create_group(broker.address, copy)
                plan.append((broker, await broker.moves(group, offsets)))
            if not any(moves for _, moves in plan):
                raise NothingCommitted(f"{source} has committed nothing on topic {name}; nothing was changed")
            one = await self._apply(group, name, plan, None, dry_run=dry_run)
            done.append(attrs.evolve(one, left_out=left_out, attributes_left_out=tuple(sorted(attributes))))
        return tuple(done)

    async def _topics_committed(self, source: str, cluster: str | None) -> list[str]:
        """Return the topics that a group has offsets for, except its retry topic."""
        found: set[str] = set()
        for address in await self.masters(cluster):
            found |= {queue.topic for queue in await self.group_progress(address, source)}
        topics = sorted(name for name in found if not name.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)))
        if not topics:
            raise NothingCommitted(f"{source} has committed nothing")
        return topics

    async def _brokers_with(self, topic: str, queue_id: int | None = None) -> list[BrokerOffsets]:
        """Return the masters of a topic with their read queues, or only with *queue_id*."""
        names.check_topic(topic)
        route = await self.route(topic)
        found = []
        for grant in route.queues:
            broker = route.broker(grant.broker_name)
            if broker is None or broker.master is None or not grant.read_queues:
                continue
            ids = [each for each in range(grant.read_queues) if queue_id is None or each == queue_id]
            if ids:
                found.append(BrokerOffsets(self, broker.name, broker.master, topic, ids))
        if not found and queue_id is not None:
            raise QueueUnknown(f"topic {topic} has no queue {queue_id}")
        if not found:
            raise ClientError(f"no master that holds topic {topic} is registered")
        return found

    async def _split_by_group(
        self, brokers: Sequence[BrokerOffsets], group: str
    ) -> tuple[list[BrokerOffsets], tuple[str, ...]]:
        """Return the brokers that know the group, and the names of the others."""
        known = [broker for broker in brokers if await broker.known(group)]
        if not known:
            raise GroupNotExist(f"there is no group {group}")
        return known, tuple(broker.name for broker in brokers if broker not in known)

    async def _apply(
        self, group: str, topic: str, plan: _Plan, by_members: OffsetTarget | None, *, dry_run: bool
    ) -> OffsetReset:
        """Set the planned offsets; with *by_members*, older brokers may let their members do it.

        If one of the brokers cannot do it, nothing is set anywhere.
        """
        ways, online = [], 0
        for broker, moves in plan:
            if not moves:
                ways.append("")
                continue
            here = await broker.online(group)
            online = max(online, here)
            way = "broker" if await broker.server_side() else "members" if here else "commit"
            if way == "members":
                if by_members is None:
                    raise ClientError(
                        f"{here} members of {group} are online at broker {broker.name}, which does not set offsets "
                        "itself (useServerSideResetOffset); they would overwrite the offsets: stop them first. "
                        "Nothing was changed"
                    )
                refuse_by_members(broker.name, group, by_members)
            ways.append(way)
        if not dry_run:
            try:
                await _set(group, plan, ways, by_members)
            except ClientError as problem:
                raise PartialReset(f"{problem}; some queues may be set already") from problem
        queues = tuple(move for _, moves in plan for move in moves)
        return OffsetReset(topic, dry_run, online, tuple(sorted({way for way in ways if way})), queues)


async def _set(group: str, plan: _Plan, ways: Sequence[str], by_members: OffsetTarget | None) -> None:
    for (broker, moves), way in zip(plan, ways, strict=True):
        if way == "broker":
            await broker.set_by_broker(group, moves)
        elif way == "members" and by_members is not None:
            await broker.set_by_members(group, by_members)
        elif way == "commit":
            await broker.commit(group, moves)
