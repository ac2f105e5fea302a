"""Calls of plugin objects: wrappers that count exceptions by kind and name and raise them again, and their metrics.

Interceptors and handlers refuse with a `GantryError`, so these are counted only for gates, where they fail the sends.
Filters are counted in `gantrymq.broker.consuming.filters`, dispatchers in `gantrymq.broker.sending.dispatchers`.

A CancelledError raised by a plain function is a failure of the function, not a cancellation, and is replaced by a
RuntimeError. Otherwise no ``except Exception`` would catch it, and waiting callers would never get a response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from gantrymq.broker.counting.stats import Stats
from gantrymq.errors import FlushDiskTimeout, GantryError, Unconfirmed
from gantrymq.interfaces import Gate, Interceptor, MetricFamily, StoreMessage

Answer = TypeVar("Answer")
Event = ParamSpec("Event")
CountFailure = Callable[[str, str], object]  # kind and name of the plugin's object

log = logging.getLogger(__name__)


class CountedGate:
    """A gate."""

    def __init__(self, inner: Gate, stats: Stats) -> None:
        self.name = inner.name
        self.late_error: type[Unconfirmed] = getattr(inner, "late_error", FlushDiskTimeout)
        self._inner = inner
        self._stats = stats
        if hasattr(inner, "ask"):
            self.ask = self._ask
        if hasattr(inner, "last_look"):
            self.last_look: Callable[[int], Unconfirmed | None] = inner.last_look

    @property
    def late_s(self) -> float | None:
        """How long senders wait for it, seconds; None: as for the disk."""
        return getattr(self._inner, "late_s", None)

    async def passed(self, log_offset: int) -> None:
        """Wait for the gate."""
        try:
            await self._inner.passed(log_offset)
        except Unconfirmed:
            raise
        except Exception:
            self._stats.plugin_failed("gate", self.name)
            raise

    def _ask(self, log_offset: int, answer: Callable[[Exception | None], object]) -> None:
        def counted_answer(error: Exception | None) -> None:
            if error is not None and not isinstance(error, Unconfirmed):
                self._stats.plugin_failed("gate", self.name)
            answer(error)

        try:
            self._inner.ask(log_offset, counted_answer)  # type: ignore[attr-defined]
        except Exception:
            self._stats.plugin_failed("gate", self.name)
            raise


def counted(
    inner: Callable[..., Any],
    failed: Callable[[], object],
    *,
    refusals: tuple[type[Exception], ...] = (GantryError,),
) -> Callable[..., Any]:
    """Wrap *inner* so that *failed* is called before any exception other than *refusals* is raised.

    Adds 0.1 us per call.
    """

    def call(*given: Any) -> Any:
        try:
            return inner(*given)
        except refusals:
            raise
        except (Exception, asyncio.CancelledError) as error:
            failed()
            if isinstance(error, asyncio.CancelledError):
                raise RuntimeError(f"{name_of(inner)} raised CancelledError") from error
            raise

    return call


async def counted_later(answer: Awaitable[Answer], failed: Callable[[], object]) -> Answer:
    """Return the result of *answer*, counting exceptions like `counted`."""
    try:
        return await answer
    except GantryError:
        raise
    except Exception:
        failed()
        raise


def counted_interceptor(inner: Interceptor, stats: Stats) -> Callable[[StoreMessage], StoreMessage]:
    """Wrap an interceptor."""
    return counted(inner, partial(stats.plugin_failed, "interceptor", name_of(inner)))


def logged_listener(inner: Callable[Event, object], failed: CountFailure, event: str) -> Callable[Event, None]:
    """Wrap a listener so that its exceptions are counted and logged, and not raised; *event*: for the log line."""

    def call(*args: Event.args, **kwargs: Event.kwargs) -> None:
        try:
            inner(*args, **kwargs)
        except (Exception, asyncio.CancelledError):
            failed("listener", name_of(inner))
            log.exception("a listener for %s failed: %s", event, name_of(inner))

    return call


class Listeners(Generic[Event]):
    """Listeners for one kind of event, called in the order in which they were added."""

    def __init__(self, event: str, failed: CountFailure = lambda kind, name: None) -> None:
        self._event = event
        self._failed = failed
        self._listeners: dict[Callable[Event, None], None] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, listener: Callable[Event, object]) -> Callable[[], None]:
        """Call *listener* with each event from now on. Return a function that removes it."""
        added = logged_listener(listener, self._failed, self._event)
        self._listeners[added] = None
        return lambda: self._listeners.pop(added, None)

    def call(self, *args: Event.args, **kwargs: Event.kwargs) -> None:
        """Call every listener."""
        for listener in tuple(self._listeners):
            listener(*args, **kwargs)


def name_of(registered: object) -> str:
    """Return module and qualified name of a function, or of an object's class."""
    named = registered if hasattr(registered, "__qualname__") else type(registered)
    return f"{named.__module__}.{named.__qualname__}"


def read_metrics(metrics: Iterable[Callable[[], MetricFamily]]) -> Iterator[MetricFamily]:
    """Read the metrics of plugins one by one; those that raise are logged and omitted."""
    for each in metrics:
        try:
            yield each()
        except Exception:
            log.exception("a plugin's metric cannot be read")
