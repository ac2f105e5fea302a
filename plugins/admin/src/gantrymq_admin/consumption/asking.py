"""Requests with one deadline for all; what could not be asked is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import attrs

from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, ConnectFailed, ConnectionLost
from gantrymq.plugin.client import within
from gantrymq.plugin.world import Clock
from gantrymq_admin.asking import Deadline
from gantrymq_admin.consumption.facts import Fact, MissingFact

__all__ = ["FactAsking"]

AT_ONCE: Final = 16  # concurrent requests
MOST_COMPARED: Final = 32  # entries that a new one is compared with; each is of one broker and one fact
UNREACHABLE: Final = (ConnectFailed, ConnectionLost, CallTimeout)

T = TypeVar("T")


class FactAsking(Deadline[MissingFact]):
    """Asks for facts until the deadline.

    A broker that does not answer within a third of the time is not asked again, so that it does not use up the time for
    the others.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(clock, seconds)
        self._patience_s = seconds / 3
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._away: dict[str, MissingFact] = {}  # by broker

    async def ask(
        self, fact: Fact, broker: str, request: Coroutine[Any, Any, T], group: str | None = None
    ) -> tuple[T] | None:
        """Return the answer in a tuple, or None with an entry in `missing`.

        Args:
            fact: what is asked.
            broker: name of the broker that is asked; empty for name servers.
            request: is closed if it is not run.
            group: the group that it concerns; None for all.
        """
        try:
            async with self._turns:
                away = self._away.get(broker)
                if away is not None:
                    self._note(attrs.evolve(away, fact=fact, group=None))
                    return None
                answer = await within(self._clock, min(self.left_s, self._patience_s), _held(request))
        except UNREACHABLE as problem:
            self._note_away(MissingFact(fact, broker, "unreachable", str(problem), group=group))
            return None
        except ClientError as problem:
            code = problem.response_code if isinstance(problem, BrokerRefused) else None
            why = "failed" if code is None else "refused"
            self._note(MissingFact(fact, broker, why, str(problem), code, group))
            return None
        finally:
            request.close()
        if answer is None:
            waited_s = self._patience_s if self.left_s else self._seconds
            sentence = f"no answer within {waited_s:.1f} s"
            self._note_away(MissingFact(fact, broker, "deadline", sentence, group=group))
        return answer

    def _note_away(self, missing: MissingFact) -> None:
        if missing.fact is not Fact.POSITIONS:  # the broker waits for the member
            missing = attrs.evolve(missing, group=None)
            self._away[missing.broker] = missing
        self._note(missing)

    def _note(self, missing: MissingFact) -> None:
        if missing not in self.missing[-MOST_COMPARED:]:
            self.missing.append(missing)

    def incomplete(self, fact: Fact, broker: str, detail: str, group: str | None = None) -> None:
        """Note that an answer has only a part of what was asked."""
        self.missing.append(MissingFact(fact, broker, "incomplete", detail, None, group))


async def _held(request: Coroutine[Any, Any, T]) -> tuple[T]:
    return (await request,)
