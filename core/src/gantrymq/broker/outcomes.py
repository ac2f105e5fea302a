"""Awaiting operations with callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from gantrymq.errors import GantryError
from gantrymq.world.workers import resolve_future

Answer = TypeVar("Answer")


def outcome_into(future: asyncio.Future[Answer]) -> Callable[[Answer | GantryError], None]:
    """Return a callback that settles *future* with its argument, unless the future is already done."""

    settle = resolve_future(future)

    def settled(outcome: Answer | GantryError) -> None:
        if isinstance(outcome, GantryError):
            settle(None, outcome)
        else:
            settle(outcome, None)

    return settled
