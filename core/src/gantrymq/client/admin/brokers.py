"""Single brokers: runtime info, counters, entries of queues, and clean-up.

Sources: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java,
remoting/.../protocol/body/{BrokerStatsData,QueryConsumeQueueResponseBody}.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gantrymq.client.admin.errors import parsing
from gantrymq.client.admin.requests import AdminRequests
from gantrymq.errors import InvalidParameter
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.admin import CleanRequest, ViewBrokerStatsDataRequest
from gantrymq.remoting.headers.groups import QueryConsumeQueueRequest

CLEANINGS: Final[Mapping[str, RequestCode]] = {
    "log": RequestCode.DELETE_EXPIRED_COMMITLOG,
    "queues": RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    "topics": RequestCode.CLEAN_UNUSED_TOPIC,
}
"""Clean-up tasks of a broker: expired log files, expired queues, queues of unknown topics."""


@attrs.frozen
class CounterWindow:
    """A counter over a time window."""

    sum: float
    per_s: float
    average: float  # per increment


@attrs.frozen
class Counter:
    """A counter of a broker over its last minute, hour and day."""

    minute: CounterWindow
    hour: CounterWindow
    day: CounterWindow


@attrs.frozen
class QueueEntryInfo:
    """One entry of a queue."""

    log_offset: int  # bytes from the start of the log
    size_bytes: int
    tags_code: int


@attrs.frozen
class QueueEntries:
    """Entries of a queue, and its bounds, as queue offsets."""

    min_offset: int
    max_offset: int
    entries: tuple[QueueEntryInfo, ...]


class BrokerCalls(AdminRequests):
    """Part of `Admin`. Unless stated otherwise, calls raise BrokerRefused with the broker's code, or ConnectFailed,
    ConnectionLost or CallTimeout without a response.
    """

    async def runtime_info(self, address: str) -> dict[str, str]:
        """Return a broker's runtime info as text by name; the names depend on its version."""
        found = await self.request_json(address, RequestCode.GET_BROKER_RUNTIME_INFO, what="figures")
        with parsing(f"the figures of {address}"):
            return {str(name): str(value) for name, value in sorted((found.get("table") or {}).items())}

    async def counter(self, address: str, name: str, key: str) -> Counter:
        """Return one counter of a broker.

        Args:
            address: ip:port of the broker.
            name: such as TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS,
                BROKER_PUT_NUMS, BROKER_GET_NUMS.
            key: a topic, ``topic@group``, or for the last two the cluster.

        Raises:
            BrokerRefused: no value with that name and key since the broker started.
        """
        header = ViewBrokerStatsDataRequest(stats_name=name, stats_key=key)
        found = await self.request_json(address, RequestCode.VIEW_BROKER_STATS_DATA, header, what="counters")
        with parsing(f"the counter {name} of {address}"):
            return Counter(*(_window(found.get(each) or {}) for each in ("statsMinute", "statsHour", "statsDay")))

    async def queue_entries(self, address: str, topic: str, queue_id: int, start: int, count: int) -> QueueEntries:
        """Return up to *count* entries of a queue, from queue offset *start*.

        Our brokers return at most 1000 at once.

        Raises:
            BrokerRefused: the broker has no such queue.
        """
        header = QueryConsumeQueueRequest(topic=topic, queue_id=queue_id, index=start, count=count)
        found = await self.request_json(address, RequestCode.QUERY_CONSUME_QUEUE, header, what="entries")
        with parsing(f"the entries of queue {queue_id} of {topic} at {address}"):
            entries = tuple(
                QueueEntryInfo(int(each["physicOffset"]), int(each["physicSize"]), int(each["tagsCode"]))
                for each in found.get("queueData") or ()
            )
            return QueueEntries(int(found["minQueueIndex"]), int(found["maxQueueIndex"]), entries)

    async def clean(self, address: str, what: str) -> str:
        """Run one of `CLEANINGS`; return the broker's report, which is empty for Java brokers.

        Raises:
            InvalidParameter: *what* is not one of them.
        """
        if not isinstance(what, str) or what not in CLEANINGS:
            raise InvalidParameter(f"unknown clean-up {what!r}; expected one of {', '.join(CLEANINGS)}")
        return (await self.request(address, CLEANINGS[what], CleanRequest(report=True))).remark or ""


def _window(members: Mapping[str, Any]) -> CounterWindow:
    return CounterWindow(*(float(members.get(name) or 0) for name in ("sum", "tps", "avgpt")))
