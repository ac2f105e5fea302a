"""Counters by name (315).

Available are TOPIC_PUT_NUMS and TOPIC_PUT_SIZE by topic, GROUP_GET_NUMS, GROUP_GET_SIZE and SNDBCK_PUT_NUMS by
topic@group, BROKER_PUT_NUMS and BROKER_GET_NUMS by cluster. RocketMQ's other names are refused.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (viewBrokerStatsData),
store/.../stats/BrokerStatsManager.java.
"""

from __future__ import annotations

from typing import Any

from gantrymq.broker.counting.sliding_sums import BYTES, DAY, HOUR, MESSAGES, MINUTE, SlidingSums
from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import with_json
from gantrymq.errors import RequestRefused
from gantrymq.model.access import Action
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.admin import ViewBrokerStatsDataRequest
from gantrymq.remoting.serving import serves


class CounterRequests:
    """Handler for counters."""

    def __init__(self, parts: Parts) -> None:
        self._cluster = parts.identity.cluster
        self._totals = parts.stats.totals
        self._by_name = {
            "TOPIC_PUT_NUMS": (parts.stats.puts, MESSAGES),
            "TOPIC_PUT_SIZE": (parts.stats.puts, BYTES),
            "GROUP_GET_NUMS": (parts.stats.gets, MESSAGES),
            "GROUP_GET_SIZE": (parts.stats.gets, BYTES),
            "SNDBCK_PUT_NUMS": (parts.stats.sent_back, MESSAGES),
        }
        self._of_broker = {"BROKER_PUT_NUMS": "put", "BROKER_GET_NUMS": "get"}

    @serves(RequestCode.VIEW_BROKER_STATS_DATA, action=Action.GET)
    def view(self, asked: Command, connection: Connection) -> Command:
        """315: return sum, rate and average of one counter over the last minute, hour and day."""
        header = ViewBrokerStatsDataRequest.from_ext(asked.ext)
        name, key = header.stats_name, header.stats_key
        if name in self._of_broker and key == self._cluster:
            return with_json(asked, _windows(self._totals, self._of_broker[name], MESSAGES))
        if name not in self._by_name and name not in self._of_broker:
            kept = ", ".join([*self._by_name, *self._of_broker])
            raise RequestRefused(1, f"the counter {name} is not kept by this broker; it keeps {kept}")
        tally, what = self._by_name.get(name, (self._totals, MESSAGES))
        if name in self._of_broker or not tally.knows(key):
            raise RequestRefused(1, f"The stats <{name}> <{key}> not exist")
        return with_json(asked, _windows(tally, key, what))


def _windows(tally: SlidingSums, key: str, what: int) -> dict[str, Any]:
    shown = {}
    for name, window in (("statsDay", DAY), ("statsHour", HOUR), ("statsMinute", MINUTE)):
        found = tally.over(key, window, what)
        shown[name] = {"avgpt": found.per_time, "sum": found.sum, "tps": found.tps}
    return shown
