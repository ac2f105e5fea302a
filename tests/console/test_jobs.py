"""Jobs: progress, stop, errors, limits, and what is kept."""

from __future__ import annotations

import asyncio

import pytest
from manual_clock import ManualClock

from gantrymq.errors import ClientError
from gantrymq_console.web.jobs import Jobs
from gantrymq_console.web.pages import BadInput


async def settled():
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_job_shows_its_progress_and_is_stopped_by_its_owner():
    async def main():
        jobs, gate = Jobs(ManualClock()), asyncio.Event()

        async def work(job):
            while not job.stop_asked:
                job.progress.append("step")
                await gate.wait()

        job = jobs.start("search", "ann", [], work)
        await settled()
        found = jobs.find(job.id, "search", "ann")
        assert found is job and job.is_running and job.progress == ["step"]
        assert jobs.find(job.id, "search", "bob") is None and jobs.find(job.id, "tail", "ann") is None
        job.stop_asked = True
        gate.set()
        await settled()
        assert not job.is_running and job.failure == ""
        await jobs.close()

    asyncio.run(main())


def test_errors_end_a_job_with_a_sentence_and_a_stop_of_the_console_cancels_it():
    async def main():
        jobs = Jobs(ManualClock())

        async def fails(job):
            raise ClientError("no broker answers")

        async def is_wrong(job):
            raise ZeroDivisionError

        async def waits(job):
            await asyncio.Event().wait()

        made = [jobs.start(kind, "ann", None, work) for kind, work in zip("abc", (fails, is_wrong, waits), strict=True)]
        await settled()
        await jobs.close()
        assert [each.failure.partition(";")[0] for each in made] == [
            "no broker answers",
            "the console failed",
            "the console was stopped",
        ]
        assert not any(each.is_running for each in made)

    asyncio.run(main())


def test_the_number_of_jobs_is_limited_and_old_ones_are_dropped():
    async def main():
        clock = ManualClock()
        jobs, gate = Jobs(clock, most=3, most_each=2), asyncio.Event()

        async def waits(job):
            await gate.wait()

        async def ends(job):
            return None

        first = [jobs.start("search", "ann", None, waits) for _ in range(2)]
        with pytest.raises(BadInput, match="own"):
            jobs.start("search", "ann", None, waits)
        jobs.start("search", "bob", None, waits)
        with pytest.raises(BadInput, match="too_many_jobs"):
            jobs.start("search", "eve", None, waits)
        gate.set()
        await settled()
        for _ in range(7):
            jobs.start("search", "ann", None, ends)
            await settled()
        assert jobs.find(first[0].id, "search", "ann") is None
        await jobs.close()

    asyncio.run(main())


@pytest.mark.parametrize("stepped_s", [-86_400.0, 86_400.0])
def test_results_are_kept_for_an_hour_whatever_the_wall_clock_says(stepped_s):
    async def main():
        clock = ManualClock()
        jobs = Jobs(clock)

        async def ends(job):
            return None

        job = jobs.start("search", "ann", None, ends)
        await settled()
        clock.stepped_s = stepped_s
        for elapsed_s, kept in ((3599, True), (2, False)):
            clock.advance(elapsed_s)
            jobs.start("search", "bob", None, ends)
            await settled()
            assert (jobs.find(job.id, "search", "ann") is not None) is kept
        await jobs.close()

    asyncio.run(main())
