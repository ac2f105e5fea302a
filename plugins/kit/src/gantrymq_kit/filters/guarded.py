"""Guard of a custom filter: applies the budget, the watchdog and suspension to its calls."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from gantrymq.errors import FilterFailed, FilterSuspended
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.interfaces import ExtUnit, MessageFilter
from gantrymq_kit.filters.breaker import Breaker
from gantrymq_kit.filters.turn_budget import TurnBudget

log = logging.getLogger(__name__)


class FilterCounts:
    """Counters of the filters of one type, group and topic since the broker's start."""

    __slots__ = ("calls", "failures", "seconds", "slow", "stuck", "suspensions", "turns_over")

    def __init__(self) -> None:
        self.calls = 0  # calls of both stages
        self.seconds = 0.0
        self.turns_over = 0  # reads that ended early
        self.slow = 0  # calls that took too long
        self.failures = 0  # calls that raised
        self.stuck = 0  # calls longer than customFilterStuckMs
        self.suspensions = 0


class GuardedFilter:
    """Guarded filter of one subscription."""

    accepts_all = False

    def __init__(
        self,
        inner: MessageFilter,
        name: str,
        turn: TurnBudget,
        breaker: Breaker,
        counts: FilterCounts,
        monotonic: Callable[[], float],
        *,
        slow_s: float,
        stuck_s: float,
    ) -> None:
        """*name*: type, group and topic, for messages."""
        self.needs_message = inner.needs_message
        self._inner = inner
        self._name = name
        self._turn = turn
        self._counts = counts
        self._monotonic = monotonic
        self._slow_s, self._stuck_s = slow_s, stuck_s
        self.breaker = breaker

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Match the queue entry (first stage)."""
        return self._call(None, self._inner.match_entry, tags_code, ext)

    def match_message(self, record: RecordView) -> bool:
        """Match the message (second stage)."""
        return self._call(record, self._inner.match_message, record)

    def _call(self, record: RecordView | None, call: Callable[..., bool], *given: Any) -> bool:
        """Return the result of *call*.

        Raises:
            FilterSuspended: the filter failed now, or is suspended since an earlier failure.
            FilterBudgetExceeded: the budget of this turn is used up.
        """
        now, turn, counts = self._monotonic(), self._turn, self._counts
        if self.breaker.until is not None and self.breaker.suspended(now):
            raise FilterSuspended(self.sentence(now))
        try:
            turn.begin(self._name, now)
        except FilterFailed:
            counts.turns_over += 1
            raise
        problem: Exception | None = None
        answer = False
        try:
            answer = bool(call(*given))
        except Exception as error:
            problem = error
        now = self._monotonic()
        took = turn.end(now)
        counts.calls += 1
        counts.seconds += took
        if problem is None and took <= self._slow_s:
            return answer
        self._judge(now, took, problem, record)
        return answer

    def _judge(self, now: float, took: float, problem: Exception | None, record: RecordView | None) -> None:
        """Record a failed or slow call. Raises FilterSuspended if the filter is suspended for it."""
        counts, where = self._counts, "" if record is None else f" at {record.topic}/{record.queue_id} offset "
        where += "" if record is None else str(record.queue_offset)
        counts.failures += problem is not None
        counts.slow += took > self._slow_s
        counts.stuck += took >= self._stuck_s
        if problem is not None:
            self.breaker.failed(now, f"it raised {type(problem).__name__}: {problem}{where}")
        elif took >= self._stuck_s:
            self.breaker.failed(now, f"one call took {took:.1f} s{where}")
        elif not self.breaker.slow(now, f"calls take up to {took * 1000:.0f} ms, the latest{where}"):
            return
        counts.suspensions += 1
        log.warning("%s", self.sentence(now), exc_info=problem)
        if problem is not None or took >= self._stuck_s:
            raise FilterSuspended(self.sentence(now))

    def suspended(self, now: float) -> bool:
        """Return whether the filter is suspended."""
        return self.breaker.until is not None and now < self.breaker.until

    def sentence(self, now: float) -> str:
        """Return why the filter is suspended, and for how long."""
        left_s = max(0.0, (self.breaker.until or now) - now)
        return (
            f"{self._name} is suspended: {self.breaker.reason}; it is resumed in {left_s:.0f} s, or when the "
            "expression changes"
        )


class CombinedFilter:
    """Conjunction of a consumer's own filter and the filter of its group."""

    accepts_all = False

    def __init__(self, own: MessageFilter, of_group: MessageFilter) -> None:
        """*own* may raise anything."""
        self._own = own
        self._of_group = of_group
        self.needs_message = own.needs_message or of_group.needs_message

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        """Match the queue entry with both filters."""
        try:
            passes = self._own.match_entry(tags_code, ext)
        except FilterFailed:
            raise
        except Exception as error:
            raise FilterFailed(f"{type(error).__name__}: {error}") from error
        return passes and self._of_group.match_entry(tags_code, ext)

    def match_message(self, record: RecordView) -> bool:
        """Match the message with the filters that need it."""
        try:
            passes = not self._own.needs_message or self._own.match_message(record)
        except FilterFailed:
            raise
        except Exception as error:
            raise FilterFailed(f"{type(error).__name__}: {error}") from error
        return passes and (not self._of_group.needs_message or self._of_group.match_message(record))
