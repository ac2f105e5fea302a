"""Filters of a batch query over a store's folder that narrow what is read; Spark applies all of them again.

    commitLogOffset    =, <, <=, >, >=    ranges of the log that are not read
    storeTimestamp     =, <, <=, >, >=    records of which no row is made
    topic              =, IN              the same

A clock may step back, so no range is left out for its times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np

from gantrymq_spark.live.pushdown import narrowed
from gantrymq_spark.records import Records
from gantrymq_spark.store_ranges import StoreRange

__all__ = ["Kept", "kept"]


@attrs.frozen
class Kept:
    """What is left of a scan; ends are without the offset or time they name."""

    start: int = 0  # log offset
    end: int | None = None
    topics: frozenset[str] | None = None
    first_ms: int | None = None
    end_ms: int | None = None

    def ranges(self, parts: Iterable[StoreRange]) -> list[StoreRange]:
        """*parts* without what lies before and behind."""
        found = []
        for part in parts:
            start, end = max(part.start, self.start), part.end if self.end is None else min(part.end, self.end)
            if start < end:
                found.append(attrs.evolve(part, start=start, end=end))
        return found

    def records(self, records: Records) -> Records:
        """Those that can be rows."""
        if self.first_ms is not None or self.end_ms is not None:
            times = records.fields.column("store_timestamp")
            wanted = np.ones(len(times), dtype=bool)
            if self.first_ms is not None:
                wanted &= times >= self.first_ms
            if self.end_ms is not None:
                wanted &= times < self.end_ms
            records = records if wanted.all() else records.at(wanted)
        if self.topics is not None and len(records):
            names, indices = records.coded_topics
            numbers = [number for number, raw in enumerate(names) if raw.decode("utf-8", "replace") in self.topics]
            if len(numbers) < len(names):
                records = records.at(np.isin(indices.to_numpy(), numbers))
        return records


def kept(filters: Iterable[Any]) -> Kept:
    """What *filters* (pyspark's, all of which hold) leave to be read."""
    given = list(filters)
    pushed = narrowed(given)
    found = Kept(topics=pushed.topics, first_ms=pushed.first_ms or None, end_ms=pushed.end_ms)
    for each in given:
        value = getattr(each, "value", None)
        if getattr(each, "attribute", None) != ("commitLogOffset",) or type(value) is not int:
            continue
        kind = type(each).__name__
        start, end = found.start, found.end
        if kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
            start = max(start, value + (kind == "GreaterThan"))
        if kind in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
            limit = value + (kind != "LessThan")
            end = limit if end is None else min(end, limit)
        found = attrs.evolve(found, start=start, end=end)
    return found
