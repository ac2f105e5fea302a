"""Which member reads which queue, as the members say: for brokers that do not report it, which are RocketMQ's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import attrs

from gantrymq.client.admin import GroupClients, ProcessQueueInfo, RunningInfo
from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.asking import Asking
from gantrymq_admin.progress import is_broadcasting
from gantrymq_console.data.cluster import Cluster

_MOST_MEMBERS: Final = 16  # that are asked; the broker forwards each request to the member
_AGE_S: Final = 10.0
_DEADLINE_S: Final = 1.0  # a member that hangs does not answer
_HALTED_MS: Final = 60_000  # without a pull, or with messages in its cache and none consumed


@attrs.frozen
class Holder:
    """The member that reads a queue; None: it has done nothing yet."""

    client_id: str
    cached: int  # messages in its cache
    pulled_ms_ago: int | None
    consumed_ms_ago: int | None

    def halts(self, late_ms: int | None) -> bool:
        """Return whether it has messages and has consumed none for a minute, or has none and has not pulled for one.

        A member that holds as many messages as it may does not pull, one that was idle has consumed nothing for long,
        and the clock of its host may be behind: its next message must be older than a minute too.

        Args:
            late_ms: age of the next message to consume, as its broker says; None if it is not known.
        """
        ago_ms = self.consumed_ms_ago if self.cached else self.pulled_ms_ago
        return min(ago_ms or 0, late_ms or 0) > _HALTED_MS


@attrs.frozen
class HeldQueues:
    """The answers of the members of a group."""

    queues: Mapping[MessageQueue, Holder]
    complete: bool  # whether all members answered, so that nobody reads another queue


async def ask_held_queues(cluster: Cluster, address: str, group: str, online: GroupClients | None) -> HeldQueues:
    """Ask the members that are connected to a broker, at most 10 s ago; members that do not answer are left out."""
    if online is None:
        return HeldQueues({}, True)
    ids = sorted({each.client_id for each in online.clients})
    if online.pops or is_broadcasting(online) or len(ids) > _MOST_MEMBERS:
        return HeldQueues({}, False)
    admin, asking = cluster.admin, Asking(cluster.world.clock, _DEADLINE_S)
    found = await asking.all(
        {
            client_id: cluster.shared(
                ("held", address, group, client_id), _AGE_S, partial(admin.running_info, address, group, client_id)
            )
            for client_id in ids
        }
    )
    held = {
        queue: _holder(client_id, each, answer.as_of_ms)
        for client_id, answer in found.items()
        for queue, each in _queues(answer.value)
    }
    return HeldQueues(held, len(found) == len(ids))


def _queues(info: RunningInfo) -> list[tuple[MessageQueue, ProcessQueueInfo]]:
    return [(queue, each) for queue, each in info.queues.items() if not each.dropped]


def _holder(client_id: str, each: ProcessQueueInfo, now_ms: int) -> Holder:
    def ago(ms: int) -> int | None:
        return max(0, now_ms - ms) if ms else None

    return Holder(client_id, each.cached_count, ago(each.last_pulled_ms), ago(each.last_consumed_ms))
