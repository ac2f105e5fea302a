"""The explicit second step of a search: the key or unique id in all topics, as a job with a price shown first."""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.plugin.names import is_system_topic
from gantrymq_console.access.users import Role
from gantrymq_console.data import everywhere
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.everywhere import Everywhere
from gantrymq_console.data.listing import Row
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import Action, BadInput, Confirm, Form, NotFound, Outcome, Page, Part, Preview, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

KIND: Final = "everywhere"
MOST_RUNNING: Final = 4


@attrs.frozen
class Price:
    """Preview of the search: its cost."""

    query: str
    topics: int
    brokers: int
    requests: int
    seconds: int


@attrs.frozen
class EverywherePage:
    """A search in all topics."""

    job: str
    running: bool
    failure: str
    query: str
    topics: int
    asked: int
    failed: int
    limit: str
    begun_ms: int
    ended_ms: int | None
    rows: tuple[Row, ...]


async def preview(visit: Visit, form: Form) -> Preview:
    """Return the cost of the search."""
    query = form.get("q", "").strip()
    if not query:
        raise BadInput("search.nothing")
    topics, brokers = len(await _topics(visit.cluster)), len(await visit.cluster.masters())
    requests = topics * brokers
    price = Price(query, topics, brokers, requests, round(requests / everywhere.REQUESTS_PER_S) + 1)
    return Preview("search_price.html", price, "", query, f"{topics} topics")


async def start(visit: Visit, form: Form) -> Outcome:
    """Start the search."""
    query, topics = form.get("q", "").strip(), await _topics(visit.cluster)
    search = Everywhere(query, len(topics), len(await visit.cluster.masters()))

    async def work(job: Job[Everywhere]) -> None:
        await everywhere.run(visit.cluster, search, topics, job)

    job = visit.console.jobs.start(KIND, visit.user.name, search, work, most=MOST_RUNNING)
    return Outcome("search.started", {}, f"/search/everywhere/{job.id}", data={"job": job.id})


async def show(visit: Visit) -> View:
    """Show the progress and the messages found."""
    job = _job(visit)
    search: Everywhere = job.progress
    data = EverywherePage(
        job.id,
        job.is_running,
        job.failure,
        search.query,
        search.topics,
        search.asked,
        search.failed,
        search.limit,
        job.begun_ms,
        job.ended_ms,
        tuple(sorted(search.hits, key=lambda each: -each.stored_ms)),
    )
    return View("search_everywhere.html", data, missing=search.missing, title=search.query)


async def stop(visit: Visit, form: Form) -> Outcome:
    """Ask the search to stop."""
    job = _job(visit)
    job.stop_asked = True
    return Outcome("search.stopped", {}, f"/search/everywhere/{job.id}")


async def _topics(cluster: Cluster) -> list[str]:
    found = (await cluster.shared("topics", 10, cluster.admin.topics)).value
    return [each for each in found if not is_system_topic(each)]


def _job(visit: Visit) -> Job[Any]:
    job = visit.console.jobs.find(visit.names["job"], KIND, visit.user.name)
    if job is None:
        raise NotFound("search.no_job")
    return job


PART = Part(
    "search",
    pages=(Page("/search/everywhere/{job}", "search.everywhere", Role.OPERATOR, show, refresh_s=1.0, nav="search"),),
    actions=(
        Action("/search/everywhere", "search.everywhere", Role.OPERATOR, start, preview, fields=("q",)),
        Action("/search/everywhere/{job}/stop", "search.stop", Role.OPERATOR, stop, confirm=Confirm.NONE),
    ),
)
