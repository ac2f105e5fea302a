"""Operations that answer by a call, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gantrymq.errors import GantryError

__all__ = ["outcome_into"]

Answer = TypeVar("Answer")


def outcome_into(future: asyncio.Future[Answer]) -> Callable[[Answer | GantryError], None]:
    """Give *future* the answer, or the error, that the function it returns is called with, while somebody waits."""

    def settle(outcome: Answer | GantryError) -> None:
        if future.done():
            return
        if isinstance(outcome, GantryError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return settle
