"""The service ``custom_filters``: guards filters other than TAG and SQL92, and adds the filter of a group's attribute.

A client that supports only TAG and SQL92 uses a filter type through ``bySql("NAME:: text")``. If its subscription
cannot be changed, the operator sets the attribute ``filter`` of its group to the same text. Messages on the group's
retry topic have passed the filter before, and are not filtered again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

import attrs

from gantrymq.errors import RequestError, SubscriptionParseFailed
from gantrymq.plugin.interfaces import Broker, FilterType, MessageFilter, MetricFamily
from gantrymq.plugin.model import SQL92, TAG, Role, Subscription
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq_kit.filters.breaker import Breaker
from gantrymq_kit.filters.guarded import CombinedFilter, FilterCounts, GuardedFilter
from gantrymq_kit.filters.turn_budget import TurnBudget
from gantrymq_kit.filters.watchdog import Watchdog
from gantrymq_kit.settings import BUDGET, PAUSE, STUCK

ATTRIBUTE: Final = "filter"  # attribute of a group
_BOUNDED: Final = frozenset({TAG, SQL92})  # types with calls of microseconds for any expression
_LABELS: Final = ("type", "group", "topic")
_MOST_COUNTED: Final = 10_000  # combinations of type, group and topic


class CustomFilters:
    """Guards the filters of one broker; may be started again after a stop."""

    name = "custom_filters"
    roles = frozenset(Role)  # also on a replica

    def __init__(self) -> None:
        """Create the service."""
        self._counts: dict[tuple[str, ...], FilterCounts] = {}
        self._filters: dict[tuple[str, ...], WeakSet[GuardedFilter]] = {}
        self._watchdog: Watchdog | None = None

    async def start(self, broker: Broker) -> None:
        """Start guarding the broker's filters."""
        self._broker = broker
        settings, self._monotonic = broker.settings, broker.world.clock.monotonic
        self._budget_s = settings.number(BUDGET) / 1000
        self._stuck_s = settings.number(STUCK) / 1000
        self._pause_s = settings.number(PAUSE) / 1000
        self._turn = TurnBudget(self._budget_s, asyncio.get_running_loop().call_soon)
        self._watchdog = Watchdog(self._turn, self._stuck_s, self._monotonic)
        self._counts, self._filters = {}, {}
        broker.filters.guard_with(self.compile)
        for metric in self._metrics():
            broker.metrics.register(metric)

    async def stop(self) -> None:
        """Stop the watchdog."""
        if self._watchdog is not None:
            self._watchdog.stop()

    def compile(self, subscription: Subscription, kind: FilterType) -> MessageFilter | None:
        """Return the filter of a subscription; None if the filter of its type needs no guard.

        Raises:
            GantryError: it, or the filter of the group's attribute, does not compile.
        """
        own = None if subscription.type in _BOUNDED else self._guarded(subscription, kind)
        wanted = self._of_group(subscription)
        if wanted is None:
            return own
        try:
            of_group = self._broker.filters.compiled(wanted)
        except RequestError as error:
            raise SubscriptionParseFailed(
                f"attribute {ATTRIBUTE} of group {subscription.group} is {wanted.type}:: {wanted.expression}: {error}"
            ) from error
        inner = own or kind.compile(subscription)
        return of_group if inner.accepts_all else CombinedFilter(inner, of_group)

    def _guarded(self, subscription: Subscription, kind: FilterType) -> MessageFilter:
        """Return *kind*'s filter, guarded unless it accepts everything; the compilation is watched as well."""
        assert self._watchdog is not None
        self._watchdog.start()
        labels = (subscription.type, subscription.group, subscription.topic)
        name = f"filter {subscription.type} of group {subscription.group} on topic {subscription.topic}"
        self._turn.watch(name, self._monotonic())
        try:
            inner = kind.compile(subscription)
        finally:
            self._turn.end(self._monotonic())
        if inner.accepts_all:
            return inner
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
            self._filters.clear()
        counts = self._counts.setdefault(labels, FilterCounts())
        found = GuardedFilter(
            inner,
            name,
            self._turn,
            Breaker(self._pause_s),
            counts,
            self._monotonic,
            slow_s=min(2 * self._budget_s, self._stuck_s),
            stuck_s=self._stuck_s,
        )
        self._filters.setdefault(labels, WeakSet()).add(found)
        return found

    def _of_group(self, subscription: Subscription) -> Subscription | None:
        """Return the subscription of the group's attribute; None without one, or if it equals *subscription*."""
        group = self._broker.groups.get(subscription.group)
        if group is None or subscription.topic.startswith(RETRY_PREFIX):
            return None
        text = group.attributes.get(ATTRIBUTE)
        if not text:
            return None
        wanted = attrs.evolve(subscription, type=SQL92, expression=text).resolved()
        same = (wanted.type, wanted.expression) == (subscription.type, subscription.expression)
        return None if same else wanted

    def _metrics(self) -> list[Callable[[], MetricFamily]]:
        def counted(name: str, text: str, value: Callable[[FilterCounts], float]) -> Callable[[], MetricFamily]:
            def show() -> MetricFamily:
                values = {labels: value(counts) for labels, counts in self._counts.items()}
                return MetricFamily(f"gantrymq_custom_filter_{name}_total", text, _LABELS, values, counter=True)

            return show

        return [
            self._suspended,
            counted("calls", "Calls of custom filters.", lambda counts: counts.calls),
            counted("seconds", "Seconds that custom filters took.", lambda counts: counts.seconds),
            counted("turns_over", "Reads that a custom filter's budget ended early.", lambda c: c.turns_over),
            counted("slow", "Calls of custom filters beyond twice customFilterBudgetMs.", lambda c: c.slow),
            counted("stuck", "Calls of custom filters beyond customFilterStuckMs.", lambda c: c.stuck),
            counted("failures", "Calls of custom filters that raised.", lambda counts: counts.failures),
            counted("suspensions", "How often custom filters were suspended.", lambda c: c.suspensions),
        ]

    def _suspended(self) -> MetricFamily:
        now = self._monotonic()
        values, sentences = dict[tuple[str, ...], float](), dict[tuple[str, ...], str]()
        for labels, filters in self._filters.items():
            found = [each for each in filters if each.suspended(now)]
            if found:
                values[labels] = len(found)
                sentences[labels] = max(found, key=lambda each: each.breaker.until or 0.0).sentence(now)
        text = "Custom filters that are suspended now; gantrymq group explain says why."
        return MetricFamily("gantrymq_custom_filters_suspended", text, _LABELS, values, sentences=sentences)
