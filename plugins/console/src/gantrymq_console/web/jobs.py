"""Work that outlives a request: its owner sees the progress and may stop it.

A job's page refreshes itself while the job runs; without a script the visitor reloads it. Results stay until the owner
has started `_KEPT` newer jobs, or for an hour.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import attrs

from gantrymq.errors import GantryError
from gantrymq.plugin.world import Clock
from gantrymq_console.web.pages import BadInput

log = logging.getLogger(__name__)

_KEPT: Final = 5
_KEPT_S: Final = 3600.0

Progress = TypeVar("Progress")


@attrs.define(eq=False)
class Job(Generic[Progress]):
    """One running or ended job. Its work changes ``progress`` and should end soon after ``stop_asked`` is set."""

    id: str
    kind: str
    owner: str
    progress: Progress
    begun_ms: int
    ended_ms: int | None = None
    stop_asked: bool = False
    failure: str = ""  # the sentence of an error that ended it
    ended_s: float = 0.0  # monotonic

    @property
    def is_running(self) -> bool:
        """Whether the work has not ended."""
        return self.ended_ms is None


class Jobs:
    """The jobs of a console."""

    def __init__(self, clock: Clock, *, most: int = 10, most_each: int = 2) -> None:
        """Create it.

        Args:
            clock: of the console.
            most: maximum number of running jobs of a kind.
            most_each: of one owner.
        """
        self._clock = clock
        self._most = most
        self._most_each = most_each
        self._jobs: dict[str, Job[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        kind: str,
        owner: str,
        progress: Progress,
        work: Callable[[Job[Progress]], Awaitable[None]],
        *,
        most: int | None = None,
    ) -> Job[Progress]:
        """Start *work* with a new job. Raises BadInput: too many of this kind are running, *most* if that is given."""
        most = most if most is not None else self._most
        self._drop_old(owner)
        running = self.running(kind)
        if len(running) >= most:
            raise BadInput("common.too_many_jobs", most=most)
        if sum(each.owner == owner for each in running) >= self._most_each:
            raise BadInput("common.too_many_own_jobs", most=self._most_each)
        job = Job(secrets.token_hex(8), kind, owner, progress, self._clock.now_ms())
        self._jobs[job.id] = job
        task = asyncio.get_running_loop().create_task(self._run(job, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def find(self, job_id: str, kind: str, owner: str) -> Job[Any] | None:
        """Return a job of *owner*, or None if it is not known any more."""
        job = self._jobs.get(job_id)
        return job if job is not None and (job.kind, job.owner) == (kind, owner) else None

    def running(self, kind: str) -> list[Job[Any]]:
        """Return the running jobs of a kind, of all owners."""
        return [each for each in self._jobs.values() if each.is_running and each.kind == kind]

    def is_running(self, owner: str) -> bool:
        """Return whether a job of *owner* is running."""
        return any(each.owner == owner and each.is_running for each in self._jobs.values())

    async def close(self) -> None:
        """Cancel all jobs."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, job: Job[Progress], work: Callable[[Job[Progress]], Awaitable[None]]) -> None:
        try:
            await work(job)
        except GantryError as problem:
            job.failure = str(problem)
        except asyncio.CancelledError:
            job.failure = "the console was stopped"
            raise
        except Exception:
            job.failure = "the console failed; its log has the details"
            log.exception("a job %s of %s failed", job.kind, job.owner)
        finally:
            job.ended_ms, job.ended_s = self._clock.now_ms(), self._clock.monotonic()

    def _drop_old(self, owner: str) -> None:
        ended = [each for each in self._jobs.values() if not each.is_running]
        own = [each for each in ended if each.owner == owner]
        old_s = self._clock.monotonic() - _KEPT_S
        for each in [*own[:-_KEPT], *(each for each in ended if each.ended_s < old_s)]:
            self._jobs.pop(each.id, None)
