"""Progress of consumer groups, in queue offsets and in time.

Sources: apache/rocketmq remoting/.../protocol/admin/{ConsumeStats,OffsetWrapper,ConsumeStatsList}.java,
remoting/.../protocol/body/QueueTimeSpan.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from gantrymq.client.admin.requests import AdminRequests
from gantrymq.loose_json import object_key
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.groups import (
    GetBrokerConsumeStatsRequest,
    GetConsumeStatsRequest,
    QueryConsumeTimeSpanRequest,
)

UNREAD_MS: Final = 10**12  # 31 years: the delay of a message whose store time could not be read


@attrs.frozen
class QueueProgress:
    """Progress of a group in one queue, in queue offsets."""

    max_offset: int
    committed: int  # 0 without a commit
    pulled: int  # at least *committed*
    last_stored_ms: int  # store time of the last message consumed, 0 without one
    lag: int | None = attrs.field()  # messages not consumed yet; None: not known, because members keep their offsets
    deleted: int | None = None  # messages deleted before the group consumed them; None: the broker does not report it

    @lag.default
    def _lag(self) -> int:
        return max(0, self.max_offset - self.committed)


@attrs.frozen
class QueueTimes:
    """Store times of one queue, ms; -1 without such a message."""

    oldest_ms: int
    newest_ms: int
    consumed_ms: int  # of the last message that the group committed
    late_ms: int | None  # age of the group's next message; 0 if it has consumed everything; None: not known


class ProgressCalls(AdminRequests):
    """Part of `Admin`. Unless stated otherwise, calls raise BrokerRefused with the broker's code, or ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    async def group_progress(
        self, address: str, group: str, topic: str | None = None
    ) -> dict[MessageQueue, QueueProgress]:
        """Return the progress of *group* in the queues of one broker, sorted.

        Args:
            address: ip:port of the broker.
            group: the consumer group.
            topic: None for every topic that it has offsets for.
        """
        header = GetConsumeStatsRequest(consumer_group=group, topic=topic)
        return await self.request_parsed(
            address, RequestCode.GET_CONSUME_STATS, _progress, header, what=f"consume stats of {address}"
        )

    async def broker_progress(self, address: str) -> dict[str, dict[MessageQueue, QueueProgress]]:
        """Return the progress of every group in the queues of one broker, sorted by group; without pulled offsets."""
        header, code = GetBrokerConsumeStatsRequest(), RequestCode.GET_BROKER_CONSUME_STATS
        return await self.request_parsed(address, code, _progress_of_all, header, what=f"consume stats of {address}")

    async def group_times(self, address: str, group: str, topic: str) -> dict[MessageQueue, QueueTimes]:
        """Return the progress of *group* in a topic's queues at one broker, in store times, sorted."""
        header = QueryConsumeTimeSpanRequest(topic=topic, group=group)
        code, what = RequestCode.QUERY_CONSUME_TIME_SPAN, f"the time spans of {address}"
        return await self.request_parsed(address, code, partial(_times, topic), header, what=what)


def _progress_of_all(members: Mapping[Any, Any]) -> dict[str, dict[MessageQueue, QueueProgress]]:
    found: dict[str, dict[MessageQueue, QueueProgress]] = {}
    for entry in members.get("consumeStatsList") or ():
        for group, topics in entry.items():
            for stats in topics:
                found.setdefault(str(group), {}).update(_progress(stats))
    return {group: dict(sorted(queues.items())) for group, queues in sorted(found.items())}


def _times(topic: str, members: Mapping[Any, Any]) -> dict[MessageQueue, QueueTimes]:
    found = {
        MessageQueue.from_json({"topic": topic, **each["messageQueue"]}): QueueTimes(
            int(each.get("minTimeStamp") or -1),
            int(each.get("maxTimeStamp") or -1),
            int(each.get("consumeTimeStamp") or -1),
            _late_ms(int(each.get("delayTime") or 0)),
        )
        for each in members.get("consumeTimeSpanSet") or ()
    }
    return dict(sorted(found.items()))


def _late_ms(delay: int) -> int | None:
    """Return the age of a message. RocketMQ subtracts a store time of -1 or 0 from now if it cannot read one."""
    return None if delay > UNREAD_MS else max(0, delay)


def _progress(members: Mapping[Any, Any]) -> dict[MessageQueue, QueueProgress]:
    found = {
        MessageQueue.from_json(object_key(key)): _queue_progress(stats)
        for key, stats in (members.get("offsetTable") or {}).items()
    }
    return dict(sorted(found.items()))


def _queue_progress(stats: Mapping[str, Any]) -> QueueProgress:
    end, committed = int(stats["brokerOffset"]), int(stats["consumerOffset"])
    pulled = int(stats.get("pullOffset") or committed)  # 4.9 has none
    stored_ms = int(stats.get("lastTimestamp") or 0)
    if "behind" not in stats:  # RocketMQ's broker, or an older one, which lets a group commit beyond the end
        return QueueProgress(end, committed, pulled, stored_ms)
    behind = stats["behind"]
    lag = None if behind is None else int(behind)
    return QueueProgress(end, committed, pulled, stored_ms, lag, int(stats["deletedUnread"]))
