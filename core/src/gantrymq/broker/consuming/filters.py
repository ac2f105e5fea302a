"""Cache of compiled subscription filters, one per distinct expression.

Compiling may be slow and clients repeat the same text, so results and errors are cached in an LRU cache. If a filter
raises an exception while running, its subscription is rejected from then on, with the reason; the broker continues.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from gantrymq.broker.counted_plugins import counted
from gantrymq.config import Settings
from gantrymq.errors import FilterFailed, FilterSuspended, RequestRefused, SubscriptionParseFailed
from gantrymq.formats.record import RecordView
from gantrymq.interfaces.filtering import ExtUnit, FilterType, MessageFilter
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.settings_load import nearest

Guard = Callable[[Subscription, FilterType], MessageFilter | None]
_KEPT_CHARACTERS = 1 << 20  # total length of expressions; compiled ones take some hundred bytes per character
_EACH = 64  # overhead of one expression, in characters

T = TypeVar("T")


class _Everything:
    """Filter and filter type for tag subscriptions to ``*``, for use without a TAG plugin. It accepts every message."""

    name = TAG
    accepts_all = True
    needs_message = False

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        return True

    def match_message(self, record: RecordView) -> bool:
        return True

    def compile(self, subscription: Subscription) -> MessageFilter:
        return self


class _Guarded:
    """Wrapper that converts all exceptions of a filter to `FilterFailed`, so that store and broker continue."""

    accepts_all = False

    def __init__(self, inner: MessageFilter) -> None:
        self.needs_message = inner.needs_message
        self.match_entry = _guarded(inner.match_entry)
        self.match_message = _guarded(inner.match_message)


class _GuardedProperties(_Guarded):
    """The same wrapper for a `PropertiesFilter`."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.needles = inner.needles
        self.match_units = _guarded(inner.match_units)
        self.match_properties = _guarded(inner.match_properties)
        for name in ("match_slice", "candidates", "narrowed", "examined"):
            if hasattr(inner, name):
                setattr(self, name, _guarded(getattr(inner, name)))


def _guarded(call: Callable[..., T]) -> Callable[..., T]:
    def guarded(*args: Any) -> T:
        try:
            return call(*args)
        except (Exception, asyncio.CancelledError) as error:  # the filter's own: no task is cancelled in a plain call
            raise FilterFailed(f"{type(error).__name__}: {error}") from error

    return guarded


class Filters:
    """Filter types by name, and the cache of compiled expressions."""

    def __init__(
        self,
        settings: Settings,
        types: Mapping[str, FilterType],
        failed: Callable[[str], None] = lambda type_name: None,
    ) -> None:
        """*failed* is called with the type of each filter that raises."""
        self._settings = settings
        self._types = types
        self._failed = failed
        self._guard: Guard = lambda subscription, kind: None
        self._kept: OrderedDict[tuple[str, str, str, str], MessageFilter | str] = OrderedDict()  # filter or error
        self._characters = 0

    def guard_with(self, guard: Guard) -> None:
        """Compile new subscriptions with *guard*, see `gantrymq.interfaces.consuming.Filters.guard_with`."""
        self._guard = guard
        self._kept.clear()
        self._characters = 0

    def forget(self, name: str) -> None:
        """Drop the compiled filters of a group or topic, because something that they depend on has changed."""
        for key in [key for key in self._kept if name in key[1:3]]:
            self._drop(key)

    def compiled(self, subscription: Subscription) -> MessageFilter:
        """Return the filter of a subscription.

        Raises:
            SubscriptionParseFailed: the expression does not compile, or raised an error while running.
            RequestRefused: no plugin serves its type, or the operator disabled it (code 1, like RocketMQ).
        """
        if subscription.type != TAG and not self._settings.flag("enablePropertyFilter"):
            raise RequestRefused(
                1,
                f"the broker does not support consumer to filter message by {subscription.type} "
                "(enablePropertyFilter=false)",
            )
        key = (subscription.type, subscription.group, subscription.topic, subscription.expression)
        if (found := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            if isinstance(found, str):
                raise SubscriptionParseFailed(found)
            return found
        subscription = subscription.resolved()
        kind = self._types.get(subscription.type)
        if kind is None and subscription.type == TAG and subscription.expression == "*":
            kind = _Everything()
        if kind is None:
            raise RequestRefused(
                1,
                f"the broker does not support consumer to filter message by {subscription.type}"
                f"{nearest(subscription.type, self._types)}; no plugin serves this type (see gantrymq plugins)",
            )
        failed = partial(self._failed, subscription.type)
        try:
            compiled: MessageFilter | None = counted(self._guard, failed)(subscription, kind)
            if compiled is None:
                compiled = counted(kind.compile, failed)(subscription)
                if not compiled.accepts_all:
                    compiled = (_GuardedProperties if hasattr(compiled, "needles") else _Guarded)(compiled)
        except SubscriptionParseFailed as error:
            self._keep(key, str(error))
            raise
        self._keep(key, compiled)
        return compiled

    def reject(self, subscription: Subscription, error: FilterFailed) -> str:
        """Reject a subscription after its filter raised *error*, permanently or only this time. Return the reason."""
        if isinstance(error, FilterSuspended):
            return str(error)
        key = (subscription.type, subscription.group, subscription.topic, subscription.expression)
        sentence = (
            f"the filter of group {subscription.group} on topic {subscription.topic} failed and is switched off until "
            f"the subscription changes: {error}"
        )
        self._failed(subscription.type)
        self._keep(key, sentence)
        return sentence

    def _keep(self, key: tuple[str, str, str, str], outcome: MessageFilter | str) -> None:
        self._drop(key)
        self._kept[key] = outcome
        self._characters += _EACH + len(key[3])
        while self._characters > _KEPT_CHARACTERS:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, str, str, str]) -> None:
        if self._kept.pop(key, None) is not None:
            self._characters -= _EACH + len(key[3])
