"""Queries of Prometheus for the series of `KINDS`.

The names are those of ``gantrymq-metrics``, which include those of RocketMQ 5's brokers and of rocketmq-exporter. Only
masters count, as slaves have the lags of their masters too; rocketmq-exporter has no label ``broker_id``.

Each point is made of the samples of a period that ends at its time, never of an older one, so scrapes that failed are a
gap. The labels of ``rocketmq_group_diff`` change with the members of a group: of series that differ in these labels
only, the largest counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from gantrymq_console.history.reading import KINDS

BROKERS: Final = "brokers"  # word of the number of masters with samples
WORD: Final = "word"  # label of the word in the result
_PRESENT: Final = "rocketmq_broker_tps"  # every broker has it
_SUBJECT: Final = {"cluster": "", "broker": "broker", "topic": "topic", "group": "group"}


@attrs.frozen
class Ranges:
    """Periods of which a point is made, in seconds."""

    level_s: int
    rate_s: int


def quoted(text: str) -> str:
    """Return a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(label: str, names: Collection[str]) -> str:
    """Return a matcher of a label that has one of *names*."""
    if len(names) == 1:
        return f"{label}={quoted(next(iter(names)))}"
    return f"{label}=~{quoted('|'.join(map(re.escape, sorted(names))))}"


def in_clusters(clusters: Collection[str], labels: Mapping[str, str]) -> str:
    """Return the matchers that all queries have: of the cluster, and of *labels* that the operator gave."""
    names = "|".join(["", *map(re.escape, sorted(clusters))])  # rocketmq-exporter's lags have no cluster
    return ",".join([f"cluster=~{quoted(names)}", *(f"{name}={quoted(value)}" for name, value in labels.items())])


def series(kind: str, names: Collection[str] | None, words: Sequence[str], matchers: str, ranges: Ranges) -> str:
    """Return a query for *words* of the subjects with *names*, None: of all.

    Results have the labels of `subject_of`, and `WORD`. The number of masters is added with the word `BROKERS`.
    """
    made = _Queries(kind, names, matchers, ranges)
    parts = [(word, made.of(word)) for word in words]
    if kind != "broker":
        parts.append((BROKERS, f"count({made.level(_PRESENT, made.masters)})"))
    return " or ".join(f'label_replace({query}, "{WORD}", "{word}", "", "")' for word, query in parts)


def scrapes(matchers: str) -> str:
    """Return a query for the raw samples of the last minutes, whose times show how often brokers are scraped."""
    return f"{_PRESENT}{{{matchers}}}[5m]"


def presence(matchers: str) -> str:
    """Return a query that has a value where brokers were scraped."""
    return f"count({_PRESENT}{{{matchers}}})"


def subject_of(kind: str, labels: Mapping[str, str]) -> str:
    """Return the name of the subject that a result is about."""
    if kind == "broker":
        number = labels.get("broker_id", "0")
        return labels.get("broker", "") + (f":{number}" if number not in ("", "0") else "")
    return labels.get(_SUBJECT[kind], "")


class _Queries:
    def __init__(self, kind: str, names: Collection[str] | None, matchers: str, ranges: Ranges) -> None:
        self._kind = kind
        self._names = names
        self._ranges = ranges
        self._matchers = matchers
        self.masters = f'{matchers},broker_id=~"0|"'

    def of(self, word: str) -> str:
        """Return the query for one word. Raises KeyError: the kind has no such word."""
        assert word in KINDS[self._kind]
        return str(getattr(self, f"_{self._kind}_{word}")())

    def level(self, name: str, matchers: str) -> str:
        """Return the largest value of each series of a gauge."""
        return f"max_over_time({name}{{{matchers}}}[{self._ranges.level_s}s])"

    def _average(self, name: str, matchers: str) -> str:
        return f"avg_over_time({name}{{{matchers}}}[{self._ranges.rate_s}s])"

    def _rate(self, name: str, matchers: str) -> str:
        return f"rate({name}{{{matchers}}}[{self._ranges.rate_s}s])"

    def _named(self, label: str, matchers: str) -> str:
        return matchers if self._names is None else f"{matchers},{one_of(label, self._names)}"

    # --- cluster ---

    def _cluster_in(self) -> str:
        return self._sums(_PRESENT, "rocketmq_messages_in_total")

    def _cluster_out(self) -> str:
        return self._sums("rocketmq_broker_qps", "rocketmq_messages_out_total")

    def _sums(self, gauge: str, counter: str) -> str:
        return f"(sum({self._average(gauge, self.masters)}) or sum({self._rate(counter, self.masters)}))"

    # --- brokers ---

    def _of_broker(self) -> str:
        """Return matchers of the broker, master or slave."""
        if self._names is None:
            return self._matchers
        parts = [name.partition(":") for name in self._names]
        ids = "|".join(sorted({number or "0|" for _, _, number in parts}))
        return f"{self._matchers},{one_of('broker', {name for name, _, _ in parts})},broker_id=~{quoted(ids)}"

    def _broker_in(self) -> str:
        return f"max by (broker, broker_id) ({self._average(_PRESENT, self._of_broker())})"

    def _broker_out(self) -> str:
        return f"max by (broker, broker_id) ({self._average('rocketmq_broker_qps', self._of_broker())})"

    def _broker_disk(self) -> str:
        ratio = self.level("rocketmq_brokeruntime_commitlog_disk_ratio", self._of_broker())
        return f"(100 * max by (broker, broker_id) ({ratio}))"

    def _broker_oldest_s(self) -> str:
        oldest = self.level("rocketmq_brokeruntime_earliest_message_timestamp", self._of_broker())
        return f"(time() - max by (broker, broker_id) ({oldest} > 0) / 1000)"

    def _broker_replica_lag(self) -> str:
        return f"max by (broker, broker_id) ({self.level('gantrymq_replication_lag_bytes', self._of_broker())})"

    # --- topics ---

    def _topic_in(self) -> str:
        return self._of_topic("rocketmq_messages_in_total", "rocketmq_producer_tps")

    def _topic_out(self) -> str:
        return self._of_topic("rocketmq_messages_out_total", "rocketmq_consumer_tps")

    def _of_topic(self, counter: str, gauge: str) -> str:
        matchers = self._named("topic", self.masters)
        return f"({self._by_topic(self._rate(counter, matchers))} or {self._by_topic(self._average(gauge, matchers))})"

    @staticmethod
    def _by_topic(query: str) -> str:
        return f"sum by (topic) ({query})"

    # --- groups ---

    def _group_lag(self) -> str:
        own = self._of_group("rocketmq_group_diff")
        other = self.level(
            "rocketmq_consumer_lag_messages", f'{self._named("consumer_group", self.masters)},is_retry="false"'
        )
        return f"({own} or {self._renamed(f'sum by (consumer_group) ({other})')})"

    def _group_late_s(self) -> str:
        own = self.level("rocketmq_group_get_latency_by_storetime", self._named("group", self.masters))
        other = self.level("rocketmq_consumer_lag_latency", self._named("consumer_group", self.masters))
        renamed = self._renamed(f"max by (consumer_group) ({other})")
        return f"((max by (group) ({own}) or {renamed}) / 1000)"

    def _group_out(self) -> str:
        counted = self._rate("rocketmq_messages_out_total", self._named("consumer_group", self.masters))
        gauge = self._average("rocketmq_consumer_tps", self._named("group", self.masters))
        return f"({self._renamed(f'sum by (consumer_group) ({counted})')} or sum by (group) ({gauge}))"

    def _group_retries(self) -> str:
        return self._or_none(self._of_group("rocketmq_group_retrydiff"))

    def _group_dead_letters(self) -> str:
        return self._or_none(self._of_group("rocketmq_group_dlqdiff"))

    def _of_group(self, name: str) -> str:
        each = f"max by (broker, topic, group) ({self.level(name, self._named('group', self.masters))})"
        return f"sum by (group) ({each})"

    def _or_none(self, query: str) -> str:
        """Return a query with 0 for a known group that has no such series: it never had such a message."""
        return f"({query} or 0 * {self._of_group('rocketmq_group_diff')})"

    @staticmethod
    def _renamed(query: str) -> str:
        """Return a query about consumer_group, the label of RocketMQ 5, with the label of rocketmq-exporter."""
        return f'sum by (group) (label_replace({query}, "group", "$1", "consumer_group", "(.*)"))'
