"""Requests with one deadline for all; what could not be asked is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from gantrymq.client.calls.rpc import within
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.world import Clock
from gantrymq_admin.consumption.facts import Fact, Missing

__all__ = ["Asking"]

AT_ONCE: Final = 16  # concurrent requests

T = TypeVar("T")


class Asking:
    """Runs requests until the deadline, which begins when the object is created."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds
        self._seconds = seconds
        self._turns = asyncio.Semaphore(AT_ONCE)
        self.missing: list[Missing] = []

    @property
    def left_s(self) -> float:
        """Seconds before the deadline."""
        return max(0.0, self._until - self._clock.monotonic())

    async def ask(
        self, fact: Fact, broker: str, request: Coroutine[Any, Any, T], group: str | None = None
    ) -> tuple[T] | None:
        """Return the answer in a tuple, or None with an entry in `missing` if there was none before the deadline."""
        try:
            async with self._turns:
                answer = await within(self._clock, self.left_s, _held(request)) if self.left_s else None
        except ClientError as problem:
            code = problem.response_code if isinstance(problem, BrokerRefused) else None
            why = "unreachable" if code is None else "refused"
            self.missing.append(Missing(fact, broker, why, str(problem), code, group))
            return None
        finally:
            request.close()
        if answer is None:
            sentence = f"no answer within {self._seconds:g} s"
            self.missing.append(Missing(fact, broker, "deadline", sentence, None, group))
        return answer

    def incomplete(self, fact: Fact, broker: str, detail: str, group: str | None = None) -> None:
        """Note that an answer has only a part of what was asked."""
        self.missing.append(Missing(fact, broker, "incomplete", detail, None, group))


async def _held(request: Coroutine[Any, Any, T]) -> tuple[T]:
    return (await request,)
