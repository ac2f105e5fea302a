"""Runtime information (28) and all committed offsets (43).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (prepareRuntimeInfo);
store/.../StoreStatsService.java, store/.../stats/BrokerStats.java.
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq import __version__
from gantrymq.broker.counted_plugins import read_metrics
from gantrymq.broker.parts import Parts
from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.broker.wire.disk_figures import disk_figures
from gantrymq.broker.wire.responses import with_json
from gantrymq.formats.config.consumer_offsets import LIGHT_OFFSETS, is_of_light_group, topics_by_group
from gantrymq.loose_json import Entries, Items, RawJson
from gantrymq.model.access import Action
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.responses import MAX_ITEMS
from gantrymq.remoting.serving import serves
from gantrymq.world.clock import TimeSlices

_POOLS = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}  # capacities

_NO_TIMERS = {  # values of a Java broker with timerWheelEnable=false
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
}


class RuntimeRequests:
    """Handlers for runtime information."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.world.clock
        self._workers = parts.world.workers
        self._files = parts.world.files
        self._sliced = parts.sliced_responses.make
        self._state, self._root = parts.state, parts.root
        self._store, self._roles = parts.store, parts.roles
        self._stats = parts.stats
        self._plugin_metrics = parts.plugin_metrics
        self._held = parts.held_pulls
        self._offsets = parts.offsets
        self._settings = parts.settings
        self._light = serves_light_queues(parts.settings)
        self._started_ms = parts.started_ms

    @serves(RequestCode.GET_BROKER_RUNTIME_INFO, action=Action.GET)
    def figures(self, asked: Command, connection: Connection) -> Command:
        """28: return a table of texts under RocketMQ's names."""
        return with_json(asked, {"table": self.table()})

    @serves(RequestCode.GET_ALL_CONSUMER_OFFSET, action=Action.GET)
    async def all_offsets(self, asked: Command, connection: Connection) -> Command:
        """43: return all committed offsets in the format of consumerOffset.json."""
        table, version = self._offsets.table, self._offsets.version.to_json()
        keys, light_keys, slices = list[str](), list[str](), TimeSlices(self._clock, MAX_ITEMS)
        for key in list(table):
            light = self._light and is_of_light_group(key, table.get(key, {}))
            (light_keys if light else keys).append(key)
            await slices.item_done()
        groups = await self._workers.run(topics_by_group, keys)  # in Java's order, at 3 us for each key
        body = {
            "dataVersion": version,
            "groupTopicMap": Entries((group, Items(groups[group])) for group in sorted(groups)),
            "offsetTable": Entries((key, _offsets_text(table[key])) for key in sorted(keys) if key in table),
        }
        if self._light:
            body[LIGHT_OFFSETS] = Entries(
                (key, table[key].get(LIGHT_QUEUE_ID)) for key in sorted(light_keys) if key in table
            )
        return await self._sliced(asked, connection, body)

    def table(self) -> dict[str, str]:
        """Return the runtime information."""
        state = self._store.state()
        stats = self._stats
        now = self._clock.now_ms()
        found, missed = stats.found, stats.missed
        total = " ".join(repr(round(found.rate(each) + missed.rate(each), 6)) for each in (10, 60, 600))
        return {
            "brokerActive": str(self._roles.serves_as_master()).lower(),
            "brokerVersionDesc": f"GantryMQ {__version__}",
            "brokerVersion": "479",
            "bootTimestamp": str(self._started_ms),
            "runtime": run_time(now - self._started_ms),
            "putMessageTimesTotal": str(stats.put.total or 1),  # like Java
            "putMessageSizeTotal": str(stats.put.bytes),
            "putMessageAverageSize": repr(round(stats.put.bytes / stats.put.total, 3) if stats.put.total else 0.0),
            "putMessageEntireTimeMax": str(stats.put_times.max_ms),
            "putMessageDistributeTime": stats.put_times.spread(),
            "putLatency99": f"{stats.put_times.percentile(0.99):.2f}",
            "putLatency999": f"{stats.put_times.percentile(0.999):.2f}",
            "getMessageEntireTimeMax": str(int(stats.longest_get_s * 1000)),
            "putMessageFailedTimes": str(stats.put_failed),
            "putTps": stats.put.rates(),
            "getTransferredTps": stats.got.rates(),
            "getFoundTps": found.rates(),
            "getMissTps": missed.rates(),
            "getTotalTps": total,
            "msgPutTotalTodayNow": str(stats.put.of_users),
            "msgGetTotalTodayNow": str(stats.got.of_users),
            "msgPutTotalTodayMorning": str(stats.put.today_morning),
            "msgGetTotalTodayMorning": str(stats.got.today_morning),
            "msgPutTotalYesterdayMorning": str(stats.put.yesterday_morning),
            "msgGetTotalYesterdayMorning": str(stats.got.yesterday_morning),
            "commitLogMinOffset": str(state.min_log_offset),
            "commitLogMaxOffset": str(state.max_log_offset),
            "dispatchBehindBytes": str(state.max_log_offset - state.published_offset),
            "remainHowManyDataToFlush": f"{state.max_log_offset - state.flushed_offset} B",
            "pullRequestsHeld": str(self._held.count),
            "earliestMessageTimeStamp": str(self._earliest_ms(state.min_log_offset)),
            "startAcceptSendRequestTimeStamp": str(self._settings.number("startAcceptSendRequestTimeStamp")),
            "pageCacheLockTimeMills": "0",
            "dispatchMaxBuffer": "0",  # also a constant in Java
            "remainTransientStoreBufferNumbs": "2147483647",  # Java's value without that pool
            **_NO_TIMERS,
            **self._rows_of_plugins(),
            **disk_figures(self._files, self._root),
            **idle_pools(),
            **state.details,
            **self._problems(state.refusal),
        }

    def _rows_of_plugins(self) -> dict[str, str]:
        rows: dict[str, str] = {}
        for each in read_metrics(self._plugin_metrics):
            rows.update(each.runtime_rows)
            if each.runtime_key:
                rows[each.runtime_key] = str(each.values[()])
        return rows

    def _problems(self, refusal: str | None) -> dict[str, str]:
        """Return problems that need an operator, under GantryMQ's own names; empty if there are none."""
        unwritten = "; ".join(self._state.failing.values())
        return {
            **({"storeRefusal": refusal} if refusal else {}),
            **({"unwrittenFiles": unwritten} if unwritten else {}),
        }

    def _earliest_ms(self, log_offset: int) -> int:
        """Return the store time of the oldest message; -1 if there is none."""
        record = self._store.read(log_offset)
        return record.store_timestamp if record is not None else -1


def _offsets_text(queues: Mapping[int, int]) -> RawJson:
    """Return the offsets by queue id as JSON. Python writes a dict of integers like this, apart from the spaces."""
    return RawJson(str(dict(sorted(queues.items()))).replace(" ", ""))


def idle_pools() -> dict[str, str]:
    """Return values for RocketMQ's thread pools, which tools print; here requests do not wait in queues."""
    figures = {}
    for pool, capacity in _POOLS.items():
        figures[f"{pool}ThreadPoolQueueSize"] = "0"
        figures[f"{pool}ThreadPoolQueueCapacity"] = str(capacity)
        figures[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    figures["EndTransactionQueueSize"] = "0"
    figures["EndTransactionThreadPoolQueueCapacity"] = "100000"
    return figures


def run_time(elapsed_ms: int) -> str:
    """Format a time span like RocketMQ."""
    seconds = elapsed_ms // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
