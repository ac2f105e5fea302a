"""Which method serves which request code, said where the method stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["handlers_of", "serves"]

_CODES: Final = "served_codes"

Method = TypeVar("Method", bound=Callable[..., Any])


def serves(*codes: int) -> Callable[[Method], Method]:
    """Mark a method that answers requests with one of *codes*; `handlers_of` finds it."""

    def mark(method: Method) -> Method:
        setattr(method, _CODES, codes)
        return method

    return mark


def handlers_of(family: object) -> dict[int, Any]:
    """Request code to bound method, of every method of *family* that `serves` marked.

    Raises:
        ValueError: two methods serve one code.
    """
    found: dict[int, Any] = {}
    for name in dir(type(family)):
        for code in getattr(getattr(type(family), name), _CODES, ()):
            if code in found:
                raise ValueError(f"{type(family).__name__} serves request code {code} twice, once in {name}")
            found[code] = getattr(family, name)
    return found
