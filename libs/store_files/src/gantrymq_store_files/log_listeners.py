"""Listeners and floors of a raw log, for every store that has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LogListeners:
    """The registrations of `gantrymq.interfaces.RawLog`."""

    def __init__(self, report: Callable[[str], object]) -> None:
        """*report* is called with one sentence for each listener that raises an exception."""
        self._report = report
        self._floors: list[Callable[[], int]] = []
        self._appended: list[Callable[[int], object]] = []
        self._truncated: list[Callable[[int], object]] = []
        self._limit_moved: list[Callable[[], object]] = []
        self._sealed: list[Callable[[Any], object]] = []

    def retain_from(self, floor: Callable[[], int]) -> Callable[[], None]:
        """See `RawLog`."""
        return _add(self._floors, floor)

    def on_appended(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return _add(self._appended, listener)

    def on_truncated(self, listener: Callable[[int], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return _add(self._truncated, listener)

    def on_limit_moved(self, listener: Callable[[], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return _add(self._limit_moved, listener)

    def on_sealed(self, listener: Callable[[Any], object]) -> Callable[[], None]:
        """See `RawLog`."""
        return _add(self._sealed, listener)

    def floor(self, otherwise: int) -> int:
        """Return the lowest floor, at most *otherwise*. Raises what a floor raises."""
        return min([otherwise, *(each() for each in self._floors)])

    def _tell(self, listeners: list[Callable[..., object]], *args: Any) -> None:
        for listener in list(listeners):
            try:
                listener(*args)
            except Exception as error:
                self._report(f"a listener of the raw log failed: {type(error).__name__}: {error}")


def _add(registered: list[Callable[..., Any]], each: Callable[..., Any]) -> Callable[[], None]:
    registered.append(each)

    def remove() -> None:
        if each in registered:
            registered.remove(each)

    return remove
