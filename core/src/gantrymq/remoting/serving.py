"""Registration of request handlers by decorating methods with request codes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection

__all__ = ["Handler", "HandlerRegistry", "handlers_of", "serves"]

_CODES: Final = "served_codes"

Method = TypeVar("Method", bound=Callable[..., Any])

Handler = Callable[[Command, Connection], Command | Awaitable[Command | None] | None]
"""Handler of one request code. It returns the response, an awaitable of it, or None (directly or awaited) if the
response is sent through ``connection.reply``, or never for one-way requests. If it raises a GantryError, the response
has its code and text."""


class HandlerRegistry(Protocol):
    """Handlers by request code."""

    def add(self, code: int, handler: Handler) -> None:
        """Serve *code*. Raises PluginConflict if another plugin already serves it."""


def serves(*codes: int) -> Callable[[Method], Method]:
    """Mark a method as the handler of requests with one of *codes*, for `handlers_of`."""

    def mark(method: Method) -> Method:
        setattr(method, _CODES, codes)
        return method

    return mark


def handlers_of(family: object) -> dict[int, Any]:
    """Return the bound methods of *family* marked by `serves`, by request code.

    Raises:
        ValueError: two methods serve the same code.
    """
    found: dict[int, Any] = {}
    for name in dir(type(family)):
        for code in getattr(getattr(type(family), name), _CODES, ()):
            if code in found:
                raise ValueError(f"{type(family).__name__} serves request code {code} twice, once in {name}")
            found[code] = getattr(family, name)
    return found
