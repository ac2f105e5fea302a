"""Search: one box for keys, ids, topics, groups and clients.

The form of the text decides: an offset id is looked up at the broker that it names; names are compared with the lists
that all visitors share; as a key or unique id the text is looked up in one topic, or in the topics used last. An id of
exactly one message leads to the page of that message.

The explicit second step is the key or unique id in all topics, as a job with a price shown first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

import attrs

from gantrymq.errors import NoRoute
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import clients, listing, messages, searching
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import group_configs
from gantrymq_console.data.listing import Listing, Row
from gantrymq_console.data.searching import REQUESTS_PER_S, Everywhere
from gantrymq_console.data.table import ListQuery
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Form,
    Outcome,
    Page,
    Preview,
    Section,
    SeeOther,
    View,
)

_NAMES_AGE_S: Final = 10.0
_MOST_NAMES: Final = 20
_MOST_TOPICS: Final = 16  # asked for a key at a time

_HEX: Final = re.compile("[0-9A-Fa-f]{32,64}")
_KIND: Final = "everywhere"
_MOST_RUNNING: Final = 4


@attrs.frozen
class Found:
    """The result of a search."""

    query: str
    topic: str  # chosen for the key; empty for the topics used last
    asked: Sequence[str] = ()  # topics that were asked for the key
    hits: Sequence[Row] = ()
    more_hits: Sequence[str] = ()  # topics with more messages than are shown
    topics: Sequence[str] = ()
    more_topics: int = 0  # names that are not shown
    groups: Sequence[str] = ()
    more_groups: int = 0
    clients: Sequence[str] = ()
    more_clients: int = 0
    unknown_clients: int = 0  # groups whose members are not known yet
    recent: Sequence[str] = ()
    all_topics: int = 0  # that a search in all topics would ask
    all_seconds: int = 0  # how long it would take


async def search(context: RequestContext) -> View:
    """Search for the text of the parameter ``q``, as a key in ``topic`` if that is given."""
    query, topic = context.text("q"), context.text("topic")
    recent = context.console.recent.of(context.user.name)
    if not query:
        return View("search.html", Found(query, topic, recent=recent))
    asking, cluster = Asking(context.console.world.clock), context.cluster
    by_id = await asking.one(query, messages.by_offset_id(cluster, query))
    if by_id is not None and not context.is_api:
        raise SeeOther("messages", query, topic=by_id.topic)
    answers = await asking.all({"topics": cluster.shared("topics", _NAMES_AGE_S, cluster.admin.topics)})
    own = [each for each in (answers["topics"].value if "topics" in answers else ()) if not is_system_topic(each)]
    asked = [topic] if topic else _likely(recent, own)
    found, configs, connected = await asyncio.gather(
        asking.all({each: _with_key(cluster, asking, each, query) for each in asked}),
        group_configs(cluster, asking),
        clients.client_list(cluster, asking, ListQuery(query, "all", "id", False, 0, _MOST_NAMES)),
    )
    hits = [listing.row_of(by_id, with_body=False)] if by_id is not None else []
    hits += _rows(found)
    if not hits and _HEX.fullmatch(query) and query != query.upper():  # clients write unique ids in upper case
        hits = _rows(await asking.all({each: _with_key(cluster, asking, each, query.upper()) for each in asked}))
    if not hits:
        moved = await messages.elsewhere(cluster, asking, query)
        if len(moved) == 1 and not context.is_api:
            raise SeeOther("messages", query, topic=moved[0].topic)
        hits = [listing.row_of(each, with_body=False) for each in moved]
    if len(hits) == 1 and hits[0].unique_id in (query, query.upper()) and not context.is_api:
        raise SeeOther("messages", hits[0].id, topic=hits[0].topic)
    hits.sort(key=lambda row: -row.stored_ms)
    if topic and hits:
        context.console.recent.add(context.user.name, topic)
    wanted = query.lower()
    topics = [each for each in own if wanted in each.lower()]
    groups = sorted({each for part in configs.values() for each in part if wanted in each.lower()})
    requests = len(own) * len(configs)
    data = Found(
        query,
        topic,
        asked,
        hits[: context.rows],
        [each for each, part in found.items() if part is not None and part.next_ms is not None],
        topics[:_MOST_NAMES],
        max(0, len(topics) - _MOST_NAMES),
        groups[:_MOST_NAMES],
        max(0, len(groups) - _MOST_NAMES),
        [each.client_id for each in connected.clients],
        max(0, connected.total - _MOST_NAMES),
        connected.unknown,
        recent,
        len(own),
        round(requests / REQUESTS_PER_S) + 1,
    )
    where = topic or (hits[0].topic if hits else "")
    command = f"message query -t {quote(where)} --key {quote(query)}" if where else ""
    return View("search.html", data, command, asking.missing, title=query)


def _rows(found: Mapping[str, Listing | None]) -> list[Row]:
    return [row for part in found.values() if part is not None for row in part.rows]


def _likely(recent: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return the topics to ask for a key: those used last, and all topics of applications if there are few."""
    own = [each for each in topics if not each.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    known = [each for each in recent if each in topics]
    return list(dict.fromkeys([*known, *(own if len(own) <= _MOST_TOPICS else ())]))[:_MOST_TOPICS]


async def _with_key(cluster: Cluster, asking: Asking, topic: str, key: str) -> Listing | None:
    try:
        return await listing.by_key(cluster, asking, topic, key, with_body=False)
    except NoRoute:
        return None


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


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return the cost of the search."""
    query = form.get("q", "").strip()
    if not query:
        raise BadInput("search.nothing")
    topics, brokers = len(await _topics(context.cluster)), len(await context.cluster.masters())
    requests = topics * brokers
    price = Price(query, topics, brokers, requests, round(requests / searching.REQUESTS_PER_S) + 1)
    return Preview("search_price.html", price, "", query, f"{topics} topics")


async def start(context: RequestContext, form: Form) -> Outcome:
    """Start the search."""
    query, topics = form.get("q", "").strip(), await _topics(context.cluster)
    search = Everywhere(query, len(topics), len(await context.cluster.masters()))

    async def work(job: Job[Everywhere]) -> None:
        await searching.run_everywhere(context.cluster, search, topics, job)

    job = context.console.jobs.start(_KIND, context.user.name, search, work, most=_MOST_RUNNING)
    return Outcome("search.started", {}, f"/search/everywhere/{job.id}", data={"job": job.id})


async def show(context: RequestContext) -> View:
    """Show the progress and the messages found."""
    job = _job(context)
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


async def stop(context: RequestContext, form: Form) -> Outcome:
    """Ask the search to stop."""
    job = _job(context)
    job.stop_asked = True
    return Outcome("search.stopped", {}, f"/search/everywhere/{job.id}")


async def _topics(cluster: Cluster) -> list[str]:
    found = (await cluster.shared("topics", 10, cluster.admin.topics)).value
    return [each for each in found if not is_system_topic(each)]


def _job(context: RequestContext) -> Job[Any]:
    return context.job(_KIND, "search.no_job")


SECTION = Section(
    pages=(
        Page("/search", "search.title", Role.VIEWER, search, refresh_s=None, nav="search"),
        Page("/search/everywhere/{job}", "search.everywhere", Role.OPERATOR, show, refresh_s=1.0, nav="search"),
    ),
    actions=(
        Action("/search/everywhere", "search.everywhere", Role.OPERATOR, start, preview, fields=("q",)),
        Action("/search/everywhere/{job}/stop", "search.stop", Role.OPERATOR, stop, confirm=Confirm.NONE),
    ),
)
