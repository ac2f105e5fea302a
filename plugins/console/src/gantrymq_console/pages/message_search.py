"""Searches for text in the messages of a topic, as jobs: start, progress, stop, go on, export of the hits."""

from __future__ import annotations

from typing import Any, Final

import attrs
from starlette.responses import Response

from gantrymq.plugin.names import check_topic
from gantrymq_console.access.users import Role
from gantrymq_console.data import export, searching
from gantrymq_console.data.listing import Row
from gantrymq_console.data.searching import Search
from gantrymq_console.pages.message_form import FIELDS, Asked, streamed, wanted_by
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import Action, BadInput, Confirm, Download, Form, NotFound, Outcome, Page, View
from gantrymq_console.web.values import Long
from gantrymq_console.web.visit import Visit

__all__ = ["ACTIONS", "DOWNLOADS", "PAGES"]

KIND: Final = "search"
MOST_RUNNING: Final = 4


@attrs.frozen
class SearchPage:
    """A search, and one page of its results."""

    topic: str
    job: str
    running: bool
    failure: str
    begun_ms: int
    ended_ms: int | None
    text: str
    found: int
    start: int
    rows: tuple[Row, ...]
    looked: int
    read_bytes: Long
    unreadable: int
    half_searched: int
    reached_ms: int | None
    next_skip: int
    limit: str
    asked: Asked


async def start(visit: Visit, form: Form) -> Outcome:
    """Start the search of the form."""
    topic = visit.names["topic"]
    check_topic(topic)
    asked, wanted = wanted_by(topic, form)
    if not asked.text:
        raise BadInput("messages.no_text")
    await visit.cluster.admin.route(topic)
    search = Search(asked.text, wanted)

    async def work(job: Job[tuple[Search, Asked]]) -> None:
        await searching.run(visit.cluster, search, job)

    job = visit.console.jobs.start(KIND, visit.user.name, (search, asked), work, most=MOST_RUNNING)
    return Outcome("messages.search_started", {}, f"/topics/{topic}/searches/{job.id}", data={"job": job.id})


async def show(visit: Visit) -> View:
    """Show the progress of a search and its hits."""
    topic, job = visit.names["topic"], _job(visit)
    search, asked = job.progress
    data = SearchPage(
        topic,
        job.id,
        job.is_running,
        job.failure,
        job.begun_ms,
        job.ended_ms,
        search.text,
        len(search.hits),
        visit.start,
        tuple(search.hits[visit.start : visit.start + visit.rows]),
        search.looked,
        Long(search.read_bytes),
        search.unreadable,
        search.half_searched,
        search.reached_ms,
        search.next_skip,
        search.limit,
        asked,
    )
    return View("message_search.html", data, "", search.missing, title=search.text)


async def stop(visit: Visit, form: Form) -> Outcome:
    """Ask a search to stop."""
    job = _job(visit)
    job.stop_asked = True
    return Outcome("messages.search_stopped", {}, f"/topics/{visit.names['topic']}/searches/{job.id}")


async def download(visit: Visit) -> Response:
    """Stream the messages that a search found."""
    form = visit.choice("format", export.FORMATS)
    search, _ = _job(visit).progress
    return streamed(visit, export.of_rows(visit.cluster, tuple(search.hits), form), form)


def _job(visit: Visit) -> Job[Any]:
    job = visit.console.jobs.find(visit.names["job"], KIND, visit.user.name)
    if job is None or job.progress[0].wanted.topic != visit.names["topic"]:
        raise NotFound("messages.no_search")
    return job


PAGES: Final = (
    Page("/topics/{topic}/searches/{job}", "messages.search", Role.READER, show, refresh_s=1.0, nav="topics"),
)
ACTIONS: Final = (
    Action("/topics/{topic}/searches", "messages.search", Role.READER, start, confirm=Confirm.NONE, fields=FIELDS),
    Action("/topics/{topic}/searches/{job}/stop", "messages.stop", Role.READER, stop, confirm=Confirm.NONE),
)
DOWNLOADS: Final = (
    Download("/topics/{topic}/searches/{job}/export", "messages.export", Role.READER, download, bodies=True),
)
