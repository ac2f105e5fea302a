"""Functions of the application: which are accepted, how they are called, and which of their errors count as failures.

A function may be plain or async and may return an awaitable: `await_result` waits for it. Where nothing can be awaited,
as in hooks and selectors, `require_plain` rejects an awaitable, so that it is never dropped unnoticed.

An exception of any class is a failure of that call only (`is_failure`), except

    KeyboardInterrupt, SystemExit   propagate and end the program
    CancelledError, GeneratorExit   if the running task is being cancelled, or its coroutine closed. They are failures
                                    if raised by the application itself, for example after an inner task was cancelled.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from gantrymq.errors import InvalidParameter

logger = logging.getLogger("gantrymq.client")

T = TypeVar("T")

EXITS: Final = (KeyboardInterrupt, SystemExit)  # never swallowed

# In a coroutine or future these would be mistaken for its end, or for a cancellation of the task.
_MISTAKEN: Final = (asyncio.CancelledError, concurrent.futures.CancelledError, StopIteration)


def check_function(function: object, name: str, *, plain: str = "") -> None:
    """Reject *function* if it cannot be used as *name*, such as "the handler".

    Args:
        function: given by the application.
        name: for the error.
        plain: set if the result is not awaited: the reason why an async function is rejected.

    Raises:
        InvalidParameter: not callable, a generator function, or with *plain* an async function.
    """
    if not callable(function):
        raise InvalidParameter(f"{name} is {function!r}; expected a function")
    for each in _code_of(function):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise InvalidParameter(f"{name} {_GENERATOR}")
    if plain and is_async(function):
        raise InvalidParameter(f"{name} is async; expected a plain function: {plain}")


def is_async(function: object) -> bool:
    """Return whether *function* is async, a partial of an async function, or an object with an async ``__call__``."""
    return any(map(inspect.iscoroutinefunction, _code_of(function)))


def call_function(function: Callable[..., T], *args: Any) -> T:
    """Call a plain function, such as in a thread.

    Raises:
        RuntimeError: it raised CancelledError or StopIteration.
        any other exception that it raises.
    """
    try:
        return function(*args)
    except _MISTAKEN as error:
        raise RuntimeError(f"{_name(function)} raised {type(error).__name__}") from error


async def await_result(result: Any, name: str) -> Any:
    """Return *result* of *name*; if it is awaitable or a future of a thread pool, wait for it first.

    Raises:
        InvalidParameter: it is a generator, which would never run.
        any exception that the awaitable raises.
    """
    while result is not None:
        if inspect.isawaitable(result):
            result = await result
        elif isinstance(result, concurrent.futures.Future):
            result = await asyncio.wrap_future(result)
        else:
            _check_result(result, name)
            break
    return result


def require_plain(result: T, name: str) -> T:
    """Return *result* of *name*, where nothing can be awaited.

    Raises:
        InvalidParameter: it is awaitable, or a generator.
    """
    if result is not None:
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()  # avoids the "never awaited" warning
            raise InvalidParameter(
                f"{name} returned {type(result).__name__}, which is not awaited here; make it a plain function"
            )
        _check_result(result, name)
    return result


async def notify(name: str, listener: Callable[..., object], *what: object) -> None:
    """Call a listener, plain or async; log any exception."""
    task = running_task()
    try:
        await await_result(listener(*what), name)
    except BaseException as error:
        if not is_failure(error, task):
            raise
        logger.exception("%s raised", name)


def is_failure(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Return whether *error*, raised by a function that *task* called, is only a failure of that call.

    Args:
        error: caught where the function was called.
        task: the running task at the time of the call, None without an event loop.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or not task.cancelling()
    if isinstance(error, GeneratorExit):
        return running_task() is task  # otherwise the task's coroutine is being closed from outside
    return not isinstance(error, EXITS)


def running_task() -> asyncio.Task[Any] | None:
    """Return the running task, or None without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


_GENERATOR: Final = (
    "is a generator function (it has 'yield'), whose body a call does not run; expected one that returns"
)


def _check_result(result: object, name: str) -> None:
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise InvalidParameter(f"{name} returned a generator: it {_GENERATOR}")


def _code_of(function: object) -> tuple[Any, ...]:
    """Return the function itself and the ``__call__`` of its type."""
    inner = _unwrapped(function)
    return (inner, type(inner).__call__) if callable(inner) else (inner,)


def _unwrapped(function: object) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name(function: object) -> str:
    inner = _unwrapped(function)
    return getattr(inner, "__qualname__", None) or type(inner).__name__
