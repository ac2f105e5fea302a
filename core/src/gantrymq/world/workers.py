"""Work that may block (syncs, allocation, deletion, cold reads) leaves the event loop through here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")
Done: TypeAlias = Callable[[T | None, BaseException | None], None]  # one of the two is None


def resolve_future(answer: asyncio.Future[T]) -> Done[T]:
    """Return a ``done`` that settles *answer*; whoever gave up waiting hears nothing."""

    def done(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(result)  # type: ignore[arg-type]  # None only where T allows it
        else:
            answer.set_exception(error)

    return done


class Workers(Protocol):
    """A small pool of threads in the real world, inline and deterministic in a simulation.

    ``run`` and ``submit`` are called on the event loop's thread; after ``close`` they raise RuntimeError.
    """

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run ``work(*args)`` off the loop and return (or raise) what it does."""

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        """Run ``work(*args)`` off the loop, then call ``done(result, error)`` on the loop.

        The cheap form for hot paths: no task and no future per call.
        """

    async def close(self) -> None:
        """Wait for everything handed in, until each ``done`` was called, and release the threads."""
