"""The messages of a topic: a page of them, files, and the jobs that search for text and follow new messages."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs
from starlette.responses import Response

from gantrymq.plugin.names import check_topic
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import bodies, listing, searching
from gantrymq_console.data.listing import Listing, Row
from gantrymq_console.data.searching import Search, Tail
from gantrymq_console.pages.message_form import (
    FIELDS,
    LAST,
    Asked,
    as_typed,
    command_of,
    filter_options,
    fixed_times,
    query_of,
    streamed,
    wanted_by,
)
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Download,
    Forbidden,
    Form,
    Outcome,
    Page,
    Section,
    View,
)

_NAV: Final = "topics"
_MOST_RUNNING: Final = 4


@attrs.frozen
class MessagesPage:
    """A page of messages."""

    topic: str
    asked: Asked
    listing: Listing
    later: bool  # whether this is not the first page
    may_read: bool
    last: str = ""  # hours, one of `LAST`; empty: other times

    @property
    def lasts(self) -> tuple[str, ...]:
        """The choices of `last`."""
        return LAST


async def show(context: RequestContext) -> View:
    """Show messages of a topic that match the form."""
    topic, may_read = context.names["topic"], context.may(Role.READER)
    check_topic(topic)
    try:
        asked, wanted = wanted_by(topic, query_of(context))
    except BadInput as problem:
        if context.is_api:
            raise
        data = MessagesPage(topic, as_typed(context.request.query_params), Listing((), 0, Long(0)), False, may_read)
        return View("messages.html", data, title=topic, status=400, problem=problem)
    if asked.text and not may_read:
        raise Forbidden("messages.text_forbidden", own=context.user.role.word)
    asking = Asking(context.console.world.clock)
    if asked.key:
        found = await listing.by_key(
            context.cluster,
            asking,
            topic,
            asked.key,
            with_body=may_read,
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
        )
    else:
        test = listing.Contains(asked.text) if asked.text else None
        found = await listing.newest(context.cluster, asking, wanted, context.rows, with_body=may_read, test=test)
    if may_read and found.rows:
        await context.console.record_read(context, "messages.title", topic)
    context.console.recent.add(context.user.name, topic)
    last = context.text("last") if not context.text("from") else ""
    data = MessagesPage(topic, asked, found, bool(context.text("before")), may_read, last)
    command = command_of(asked, wanted, found, context.rows)
    fixed = fixed_times(context, wanted)
    return View("messages.html", data, command, asking.missing, title=topic, fixed=fixed)


async def download(context: RequestContext) -> Response:
    """Stream the messages that match the form, the newest first."""
    form = context.choice("format", bodies.FORMATS)
    most = context.number("most", bodies.MOST, at_least=1, at_most=bodies.MOST)
    asked, wanted = wanted_by(context.names["topic"], query_of(context))
    asking = Asking(context.console.world.clock)
    if asked.key:
        found = await listing.by_key(
            context.cluster, asking, wanted.topic, asked.key, with_body=False, begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
        )  # fmt: skip
        content = bodies.of_key(context.cluster, wanted, asked.key, found, asking.missing, form, most)
        return streamed(context, content, form)
    test = listing.Contains(asked.text) if asked.text else None
    walk = bodies.walk_of(context.cluster, wanted, test)
    await walk.start(asking)
    return streamed(context, bodies.of_walk(context.cluster, walk, form, most, test), form)


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


async def start_search(context: RequestContext, form: Form) -> Outcome:
    """Start the search of the form."""
    topic = context.names["topic"]
    check_topic(topic)
    asked, wanted = wanted_by(topic, form)
    if not asked.text:
        raise BadInput("messages.no_text")
    await context.cluster.admin.route(topic)
    search = Search(asked.text, wanted)

    async def work(job: Job[tuple[Search, Asked]]) -> None:
        await searching.run_search(context.cluster, search, job)

    job = context.console.jobs.start("search", context.user.name, (search, asked), work, most=_MOST_RUNNING)
    return Outcome("messages.search_started", {}, f"/topics/{topic}/searches/{job.id}", data={"job": job.id})


async def show_search(context: RequestContext) -> View:
    """Show the progress of a search and its hits."""
    topic, job = context.names["topic"], _job(context, "search")
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
        context.start,
        tuple(search.hits[context.start : context.start + context.rows]),
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


async def download_hits(context: RequestContext) -> Response:
    """Stream the messages that a search found."""
    form = context.choice("format", bodies.FORMATS)
    search, _ = _job(context, "search").progress
    return streamed(context, bodies.of_rows(context.cluster, tuple(search.hits), form), form)


@attrs.frozen
class TailForm:
    """The form that starts a tail."""

    topic: str


@attrs.frozen
class TailPage:
    """A tail."""

    topic: str
    job: str
    running: bool
    failure: str
    unseen: bool
    begun_ms: int
    ended_ms: int | None
    arrived: Long
    shown: Long
    left_out: Long
    rows: tuple[Row, ...]
    asked: Asked


async def tail_form(context: RequestContext) -> View:
    """Show the form."""
    topic = context.names["topic"]
    check_topic(topic)
    return View("tail_start.html", TailForm(topic), f"message tail -t {topic}", title=topic)


async def start_tail(context: RequestContext, given: Form) -> Outcome:
    """Start a tail."""
    topic = context.names["topic"]
    check_topic(topic)
    asked, wanted = wanted_by(topic, {name: given.get(name, "") for name in ("tag", "sql")})
    await context.cluster.admin.route(topic)
    tail = Tail(wanted, monotonic_ms(context.console.world.clock))

    async def work(job: Job[tuple[Tail, Asked]]) -> None:
        await searching.run_tail(context.cluster, tail, job)

    job = context.console.jobs.start("tail", context.user.name, (tail, asked), work)
    return Outcome("messages.tail_started", {}, f"/topics/{topic}/tails/{job.id}", data={"job": job.id})


async def show_tail(context: RequestContext) -> View:
    """Show the newest messages of a tail."""
    topic, job = context.names["topic"], _job(context, "tail")
    tail, asked = job.progress
    tail.seen_ms = monotonic_ms(context.console.world.clock)
    data = TailPage(
        topic,
        job.id,
        job.is_running,
        job.failure,
        tail.unseen,
        job.begun_ms,
        job.ended_ms,
        Long(tail.arrived),
        Long(tail.shown),
        Long(tail.left_out),
        tuple(tail.rows),
        asked,
    )
    command = f"message tail -t {topic}{filter_options(asked)}"
    return View("tail.html", data, command, tail.missing, title=topic)


async def _stop(kind: str, context: RequestContext, _form: Form) -> Outcome:
    """Ask a search or tail to stop."""
    job = _job(context, kind)
    job.stop_asked = True
    return Outcome(f"messages.{kind}_stopped", {}, context.path.removesuffix("/stop"))


def _job(context: RequestContext, kind: str) -> Job[Any]:
    topic = context.names["topic"]
    return context.job(kind, f"messages.no_{kind}", lambda progress: progress[0].wanted.topic == topic)


SECTION = Section(
    pages=(
        Page("/topics/{topic}/messages", "messages.title", Role.VIEWER, show, refresh_s=None, nav=_NAV),
        Page(
            "/topics/{topic}/searches/{job}", "messages.search", Role.READER, show_search, refresh_s=1.0, nav="topics"
        ),
        Page("/topics/{topic}/tail", "messages.tail", Role.READER, tail_form, refresh_s=None, nav="topics"),
        Page("/topics/{topic}/tails/{job}", "messages.tail", Role.READER, show_tail, refresh_s=1.0, nav="topics"),
    ),
    actions=(
        Action(
            "/topics/{topic}/searches",
            "messages.search",
            Role.READER,
            start_search,
            confirm=Confirm.NONE,
            fields=FIELDS,
        ),
        Action(
            "/topics/{topic}/searches/{job}/stop",
            "messages.stop",
            Role.READER,
            partial(_stop, "search"),
            confirm=Confirm.NONE,
        ),
        Action(
            "/topics/{topic}/tail",
            "messages.tail",
            Role.READER,
            start_tail,
            confirm=Confirm.NONE,
            fields=("tag", "sql"),
        ),
        Action(
            "/topics/{topic}/tails/{job}/stop",
            "messages.stop",
            Role.READER,
            partial(_stop, "tail"),
            confirm=Confirm.NONE,
        ),
    ),
    downloads=(
        Download("/topics/{topic}/messages/export", "messages.export", Role.READER, download, bodies=True),
        Download("/topics/{topic}/searches/{job}/export", "messages.export", Role.READER, download_hits, bodies=True),
    ),
)
