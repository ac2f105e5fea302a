"""Compiled subscription filters, one per distinct expression.

Compiling may be slow and heartbeats repeat the same text, so results are kept, least recently used going first. A
filter that raises while it runs rejects its subscription from then on, with the reason; the broker goes on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gantrymq.config import Settings
from gantrymq.errors import (
    FilterFailed,
    FilterSuspended,
    FilterTurnOver,
    GantryError,
    RefusedWith,
    SubscriptionParseFailed,
)
from gantrymq.formats.record import RecordView
from gantrymq.interfaces.filtering import ExtUnit, FilterType, MessageFilter
from gantrymq.model.subscription import TAG, Subscription

Guard = Callable[[Subscription, FilterType], MessageFilter | None]
_KEPT = 4096

T = TypeVar("T")


class _Everything:
    """What a tag subscription to ``*`` compiles to when no plugin serves TAG: the store is asked for all."""

    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        return True

    def match_message(self, record: RecordView) -> bool:
        return True


class _Guarded:
    """Turns whatever a filter raises into `FilterFailed`, so that the store and the broker go on."""

    accepts_all = False

    def __init__(self, inner: MessageFilter) -> None:
        self.needs_message = inner.needs_message
        self.match_entry = _guarded(inner.match_entry)
        self.match_message = _guarded(inner.match_message)


class _GuardedProperties(_Guarded):
    """The same of a `PropertiesFilter`."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.needles = inner.needles
        self.match_units = _guarded(inner.match_units)
        self.match_properties = _guarded(inner.match_properties)
        self.candidates = _guarded(inner.candidates)


def _guarded(call: Callable[..., T]) -> Callable[..., T]:
    def guarded(*args: Any) -> T:
        try:
            return call(*args)
        except Exception as error:
            raise FilterFailed(f"{type(error).__name__}: {error}") from error

    return guarded


class Filters:
    """Filter types by name, and the expressions compiled so far."""

    def __init__(
        self,
        settings: Settings,
        types: Mapping[str, FilterType],
        failed: Callable[[str], None] = lambda type_name: None,
    ) -> None:
        """*failed* is called with the type of each filter that raised."""
        self._settings = settings
        self._types = types
        self._failed = failed
        self._guard: Guard = lambda subscription, kind: None
        self._compiled: OrderedDict[tuple[str, str, str, str], MessageFilter] = OrderedDict()
        self._rejected: dict[tuple[str, str, str, str], str] = {}

    def guard_with(self, guard: Guard) -> None:
        """Have *guard* compile from now on, see `gantrymq.interfaces.Broker.guard_filters`."""
        self._guard = guard
        self._compiled.clear()

    def forget(self, group: str) -> None:
        """Compile the subscriptions of *group* anew: what its filters depend on has changed."""
        for kept in (self._compiled, self._rejected):
            for key in [key for key in kept if key[1] == group]:
                del kept[key]

    def compiled(self, subscription: Subscription) -> MessageFilter:
        """The filter of a subscription.

        Raises:
            SubscriptionParseFailed: the expression does not compile, or failed while running.
            RefusedWith: no plugin serves its type, or the operator switched it off (code 1, as RocketMQ answers).
        """
        if subscription.type != TAG and not self._settings.flag("enablePropertyFilter"):
            raise RefusedWith(
                1,
                f"the broker does not support consumer to filter message by {subscription.type} "
                "(enablePropertyFilter=false)",
            )
        key = (subscription.type, subscription.group, subscription.topic, subscription.expression)
        if (found := self._compiled.get(key)) is not None:
            self._compiled.move_to_end(key)
            return found
        if key in self._rejected:
            raise SubscriptionParseFailed(self._rejected[key])
        subscription = subscription.resolved()
        kind = self._types.get(subscription.type)
        if kind is None:
            if subscription.type == TAG and subscription.expression == "*":
                return _Everything()
            raise RefusedWith(
                1,
                f"the broker does not support consumer to filter message by {subscription.type}; no plugin serves this "
                f"type (see gantrymq plugins)",
            )
        try:
            compiled = self._guard(subscription, kind)
            if compiled is None:
                compiled = kind.compile(subscription)
                if not compiled.accepts_all:
                    compiled = (_GuardedProperties if hasattr(compiled, "needles") else _Guarded)(compiled)
        except GantryError:
            raise
        except Exception:
            self._failed(subscription.type)
            raise
        self._compiled[key] = compiled
        if len(self._compiled) > _KEPT:
            self._compiled.popitem(last=False)
        return compiled

    def reject(self, subscription: Subscription, error: FilterFailed) -> str:
        """Refuse a subscription whose filter raised while it ran, for good or this once; returns the sentence."""
        if isinstance(error, FilterSuspended | FilterTurnOver):
            return str(error)
        key = (subscription.type, subscription.group, subscription.topic, subscription.expression)
        sentence = (
            f"the filter of group {subscription.group} on topic {subscription.topic} failed and is switched off until "
            f"the subscription changes: {error}"
        )
        self._failed(subscription.type)
        if len(self._rejected) >= _KEPT:
            self._rejected.clear()
        self._rejected[key] = sentence
        self._compiled.pop(key, None)
        return sentence
