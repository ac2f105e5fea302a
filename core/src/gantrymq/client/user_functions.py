"""Functions of the application: which ones are taken, how they are called, and which of their errors are failures.

A function may be plain or async and may return an awaitable: `await_result` waits for it. Where nothing can be
awaited, as in hooks and selectors, `require_plain` rejects an awaitable, so that it is never dropped unnoticed.

An exception of any class is a failure of that call alone (`is_failure`), except

    KeyboardInterrupt, SystemExit   end the program, and go on to the caller
    CancelledError, GeneratorExit   when the running task is being cancelled, or its coroutine closed. Raised by the
                                    application itself, such as after an inner task was cancelled, they are failures.
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

__all__ = [
    "EXITS",
    "await_result",
    "call_function",
    "check_function",
    "is_async",
    "is_failure",
    "notify",
    "require_plain",
    "running_task",
]

logger = logging.getLogger("gantrymq.client")

T = TypeVar("T")

EXITS: Final = (KeyboardInterrupt, SystemExit)  # end the program, and are never swallowed

# Raised into a coroutine or a future these would be taken for its end, or for the cancellation of the task.
_MISTAKEN: Final = (asyncio.CancelledError, concurrent.futures.CancelledError, StopIteration)


def check_function(function: object, name: str, *, plain: str = "") -> None:
    """Refuse what cannot be called as *name*, such as "the handler".

    Args:
        function: what the application gave.
        name: for the error.
        plain: set where what it returns is not awaited: where an async one belongs instead.

    Raises:
        InvalidParameter: it is not callable, a generator function, or with *plain* an async one.
    """
    if not callable(function):
        raise InvalidParameter(f"{name} is {function!r}; expected a function")
    for each in _code_of(function):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            raise InvalidParameter(f"{name} {_GENERATOR}")
    if plain and is_async(function):
        raise InvalidParameter(f"{name} is async; expected a plain function: {plain}")


def is_async(function: object) -> bool:
    """Whether it is an async function, a partial of one, or an object whose ``__call__`` is async."""
    return any(map(inspect.iscoroutinefunction, _code_of(function)))


def call_function(function: Callable[..., T], *args: Any) -> T:
    """Call a plain function, such as in a thread.

    Raises:
        RuntimeError: it raised CancelledError or StopIteration.
        what else it raises.
    """
    try:
        return function(*args)
    except _MISTAKEN as error:
        raise RuntimeError(f"{_name(function)} raised {type(error).__name__}") from error


async def await_result(result: Any, name: str) -> Any:
    """What *name* returned, awaited as long as it is awaitable or a future of a pool.

    Raises:
        InvalidParameter: it is a generator, of which nothing would run.
        what the awaitable raises.
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
    """What *name* returned, where nothing can be awaited.

    Raises:
        InvalidParameter: it is awaitable, or a generator.
    """
    if result is not None:
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()  # and no warning that it was never awaited
            raise InvalidParameter(
                f"{name} returned {type(result).__name__}, which is not awaited here; make it a plain function"
            )
        _check_result(result, name)
    return result


async def notify(name: str, listener: Callable[..., object], *what: object) -> None:
    """Call a listener, plain or async; log what it raises."""
    task = running_task()
    try:
        await await_result(listener(*what), name)
    except BaseException as error:
        if not is_failure(error, task):
            raise
        logger.exception("%s raised", name)


def is_failure(error: BaseException, task: asyncio.Task[Any] | None) -> bool:
    """Whether *error*, raised by a function that *task* called, is a failure of that call and nothing else.

    Args:
        error: caught where the function was called.
        task: the running task when it was called, None without an event loop.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is None or not task.cancelling()
    if isinstance(error, GeneratorExit):
        return running_task() is task  # else the task's coroutine is being closed, by whatever runs now
    return not isinstance(error, EXITS)


def running_task() -> asyncio.Task[Any] | None:
    """The running task; None without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


_GENERATOR: Final = "is a generator function (it has 'yield'), of which a call runs nothing; expected one that returns"


def _check_result(result: object, name: str) -> None:
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise InvalidParameter(f"{name} returned a generator: it {_GENERATOR}")


def _code_of(function: object) -> tuple[Any, ...]:
    """The function itself, and what runs when an object is called."""
    inner = _unwrapped(function)
    return (inner, type(inner).__call__) if callable(inner) else (inner,)


def _unwrapped(function: object) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name(function: object) -> str:
    inner = _unwrapped(function)
    return getattr(inner, "__qualname__", None) or type(inner).__name__
