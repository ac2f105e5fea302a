"""Wrappers of plugin objects that count exceptions by kind and name, and raise them again.

Interceptors and handlers refuse with a `GantryError`, so these are counted only for gates, where they fail the sends.
Filters are counted in `gantrymq.broker.consuming.filters`, dispatchers in `gantrymq.broker.sending.dispatchers`.

A CancelledError raised by a plain function is a failure of the function, not a cancellation, and is replaced by a
RuntimeError. Otherwise no ``except Exception`` would catch it, and waiting callers would never get a response.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from gantrymq.broker.counting.stats import Stats
from gantrymq.errors import GantryError
from gantrymq.interfaces import Connection, Gate, Guard, Handler, Interceptor, StoreMessage
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command

__all__ = [
    "CountedGate",
    "CountedGuard",
    "counted",
    "counted_handler",
    "counted_interceptor",
    "counted_later",
    "counted_listener",
    "name_of",
]


Answer = TypeVar("Answer")


class CountedGate:
    """A gate."""

    def __init__(self, inner: Gate, stats: Stats) -> None:
        self.name = inner.name
        self._inner = inner
        self._stats = stats

    async def passed(self, log_offset: int) -> None:
        """Wait for the gate."""
        try:
            await self._inner.passed(log_offset)
        except Exception:
            self._stats.plugin_failed("gate", self.name)
            raise


class CountedGuard:
    """A guard."""

    def __init__(self, inner: Guard, stats: Stats) -> None:
        self.order = inner.order
        self._check = counted(inner, lambda: stats.plugin_failed("guard", name_of(inner)))

    def __call__(self, code: int, fields: Mapping[str, str], body: bytes | memoryview, connection: Connection) -> None:
        """Accept the request, or raise."""
        self._check(code, fields, body, connection)


def counted_handler(code: int, inner: Handler, stats: Stats) -> Handler:
    """Wrap the handler of request *code*; the code is its name."""

    def failed() -> None:
        stats.plugin_failed("handler", request_name(code))

    called = counted(inner, failed)

    def serve(asked: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        answer = called(asked, connection)
        return answer if answer is None or not inspect.isawaitable(answer) else counted_later(answer, failed)

    return serve


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


def counted_listener(inner: Callable[..., Any], stats: Stats) -> Callable[..., Any]:
    """Wrap a listener for arrivals, acknowledgements, connections or subscriptions."""
    return counted(inner, partial(stats.plugin_failed, "listener", name_of(inner)), refusals=())


def name_of(registered: object) -> str:
    """Return module and qualified name of a function, or of an object's class."""
    named = registered if hasattr(registered, "__qualname__") else type(registered)
    return f"{named.__module__}.{named.__qualname__}"
