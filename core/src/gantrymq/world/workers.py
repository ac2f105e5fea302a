"""Execution of blocking calls (syncs, allocation, deletion, cold reads) outside the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from gantrymq.errors import GantryError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Done: TypeAlias = Callable[[T | None, BaseException | None], None]  # one of the two is None


def resolve_future(answer: asyncio.Future[T]) -> Done[T]:
    """Return a ``done`` callback that sets the outcome of *answer*, unless that is already done."""

    def done(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]  # None only if T allows it
        else:
            answer.set_exception(error)

    return done


def outcome_into(answer: asyncio.Future[T]) -> Callable[[T | GantryError], None]:
    """Return a callback that sets its argument as the outcome of *answer*, unless that is already done."""
    done = resolve_future(answer)

    def settled(outcome: T | GantryError) -> None:
        if isinstance(outcome, GantryError):
            done(None, outcome)
        else:
            done(outcome, None)

    return settled


class Workers(Protocol):
    """Small thread pool; inline and deterministic in a simulation.

    ``run`` and ``submit`` must be called in the event loop thread. After ``close`` they raise RuntimeError.
    """

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` in a worker; return its result or raise its exception."""

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Run ``work(*args)`` in a worker, then call ``done(result, error)`` on the loop.

        For hot paths, as it creates no task and no future.
        """

    async def close(self) -> None:
        """Wait until all submitted work and its ``done`` callbacks have run, then end the threads."""
