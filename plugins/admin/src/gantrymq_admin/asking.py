"""Requests of one command or page: one deadline for all of them, and a list of what is missing from the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from types import NoneType
from typing import Any, Final, Generic, TypeVar

import attrs

from gantrymq.errors import BrokerRefused, CallTimeout, ClientError
from gantrymq.plugin.client import RequestMalformed
from gantrymq.plugin.world import Clock

DEADLINE_S: Final = 3.0
UNKNOWN_ADDRESS: Final = "unknown address of"  # and its name, instead of the address of a master that was never known

Key = TypeVar("Key")
Got = TypeVar("Got")
Record = TypeVar("Record")


@attrs.frozen
class Missing:
    """Something that a result lacks because a server did not answer."""

    what: str  # the subject as data, such as "broker-a" or "group billing"
    reason: str  # "timeout", "refused", "failed"
    sentence: str = ""  # the server's or the client's own words
    code: int | None = None  # response code of a refusal


class Deadline(Generic[Record]):
    """The time for several requests, which begins when the object is created, and records of those that failed."""

    def __init__(self, clock: Clock, seconds: float = DEADLINE_S) -> None:
        self._clock = clock
        self._until = clock.monotonic() + seconds
        self._seconds = seconds
        self.missing: list[Record] = []

    @property
    def left_s(self) -> float:
        """Seconds before the deadline."""
        return max(0.0, self._until - self._clock.monotonic())


class Asking(Deadline[Missing]):
    """Collects answers until the deadline."""

    def all(
        self, asked: Mapping[Key, Coroutine[Any, Any, Got]], share: float = 1.0
    ) -> Coroutine[Any, Any, dict[Key, Got]]:
        """Return the answers in the order of *asked*, without those that failed or are late; these are in `missing`.

        The requests start at once: a caller that is cancelled before it awaits them leaves no coroutine unawaited.

        Args:
            asked: requests by what they are for.
            share: of the time that is left; less than 1 leaves time for the requests that follow.
        """
        return self._answers({key: asyncio.ensure_future(each) for key, each in asked.items()}, share)

    async def _answers(self, tasks: Mapping[Key, asyncio.Future[Got]], share: float) -> dict[Key, Got]:
        await self._wait(list(tasks.values()), share)
        found: dict[Key, Got] = {}
        for key, task in tasks.items():
            try:
                found[key] = task.result()
            except (ClientError, asyncio.CancelledError) as problem:
                lacking = self._missing(" ".join(key) if isinstance(key, tuple) else str(key), problem)
                if lacking not in self.missing:
                    self.missing.append(lacking)
        return found

    async def one(self, what: str, asked: Coroutine[Any, Any, Got]) -> Got | None:
        """Return the answer, or None with an entry in `missing`."""
        return (await self.all({what: asked})).get(what)

    async def needed(self, asked: Coroutine[Any, Any, Got]) -> Got:
        """Return the answer on which the whole page depends.

        Raises:
            ClientError: of the request; CallTimeout after the deadline.
        """
        task = asyncio.ensure_future(asked)
        await self._wait([task])
        if task.cancelled():
            raise CallTimeout(f"no answer within {self._seconds:g} s")
        return task.result()

    async def _wait(self, tasks: list[asyncio.Future[Any]], share: float = 1.0) -> None:
        """Wait for *tasks* for *share* of the time that is left, and cancel the rest."""
        if not tasks:
            return
        for each in tasks:
            each.add_done_callback(retrieve)
        late = asyncio.ensure_future(self._clock.sleep(self.left_s * share))
        waiting: set[asyncio.Future[Any]] = {late, *tasks}
        try:
            while late in waiting and len(waiting) > 1:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unfinished = [each for each in (late, *tasks) if not each.done()]
            for each in unfinished:
                each.cancel()
            if unfinished:
                await asyncio.wait(unfinished)

    def _missing(self, what: str, problem: BaseException) -> Missing:
        if isinstance(problem, BrokerRefused):
            return Missing(what, "refused", str(problem), problem.response_code)
        if isinstance(problem, CallTimeout | asyncio.CancelledError):
            return Missing(what, "timeout", f"no answer within {self._seconds:g} s")
        if isinstance(problem, RequestMalformed) and UNKNOWN_ADDRESS in str(problem):
            return Missing(what, "failed", "no name server has this master registered, only slaves of it")
        return Missing(what, "failed", str(problem))


async def or_none(asked: Awaitable[Got], code: int) -> Got | None:
    """Return the answer, or None if it is a refusal with *code*: the broker has nothing of that name.

    Other refusals, such as a missing permission, say nothing about what the broker has. Raises ClientError.
    """
    try:
        return await asked
    except BrokerRefused as problem:
        if problem.response_code != code:
            raise
        return None


def retrieve(task: asyncio.Future[Any]) -> None:
    """Mark the exception of an ended task as retrieved: all who asked may be gone."""
    if not task.cancelled():
        task.exception()


Kind = TypeVar("Kind", bound=attrs.AttrsInstance)

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "str | None": (str, NoneType),
    "int": (int,),
    "int | None": (int, NoneType),
    "float": (int, float),
    "float | None": (int, float, NoneType),
    "bool": (bool,),
    "bool | None": (bool, NoneType),
}
"""Annotations of fields, with the types of their JSON values."""


def read(kind: type[Kind], members: Mapping[str, Any], /, **given: Any) -> Kind:
    """Return an object of *kind* with the members that are named like its fields; further members are ignored.

    Args:
        kind: an attrs class in a module with postponed annotations.
        members: the JSON object; members whose field has a default may be missing.
        **given: values of fields that are not plain values.

    Raises:
        KeyError, TypeError: a member is missing, or its value does not fit the annotation of its field.
    """
    values = dict(given)
    for field in attrs.fields(kind):
        if field.name in given or (field.name not in members and field.default is not attrs.NOTHING):
            continue
        value = values[field.name] = members[field.name]
        if not isinstance(value, _KINDS[field.type]):
            raise TypeError(f"{field.name} is {value!r}, not {field.type}")
    return kind(**values)


def texts(found: list[Any]) -> tuple[str, ...]:
    """Return the strings of a JSON list. Raises TypeError if there is anything else."""
    if not all(isinstance(each, str) for each in found):
        raise TypeError(f"{found!r} are not strings only")
    return tuple(found)
