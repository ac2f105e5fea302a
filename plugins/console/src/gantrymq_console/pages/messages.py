"""The messages of a topic: the newest first, by key, time, queue, tag or SQL expression, or with a text in them."""

from __future__ import annotations

from typing import Final

import attrs
from starlette.responses import Response

from gantrymq.plugin.names import check_topic
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import export, listing
from gantrymq_console.data.listing import Listing
from gantrymq_console.pages import message_search, tail
from gantrymq_console.pages.message_form import Asked, as_typed, command_of, streamed, wanted_by
from gantrymq_console.web.pages import BadInput, Download, Forbidden, Page, Part, View
from gantrymq_console.web.values import Long
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAV: Final = "topics"


@attrs.frozen
class MessagesPage:
    """A page of messages."""

    topic: str
    asked: Asked
    listing: Listing
    later: bool  # whether this is not the first page
    may_read: bool


async def show(visit: Visit) -> View:
    """Show messages of a topic that match the form."""
    topic, may_read = visit.names["topic"], visit.may(Role.READER)
    check_topic(topic)
    try:
        asked, wanted = wanted_by(topic, visit.request.query_params)
    except BadInput as problem:
        if visit.is_api:
            raise
        data = MessagesPage(topic, as_typed(visit.request.query_params), Listing((), 0, Long(0)), False, may_read)
        return View("messages.html", data, title=topic, status=400, problem=problem)
    if asked.text and not may_read:
        raise Forbidden("messages.text_forbidden", own=visit.user.role.word)
    asking = Asking(visit.console.world.clock)
    if asked.key:
        found = await listing.by_key(
            visit.cluster,
            asking,
            topic,
            asked.key,
            with_body=may_read,
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
        )
    else:
        test = listing.Contains(asked.text) if asked.text else None
        found = await listing.newest(visit.cluster, asking, wanted, visit.rows, with_body=may_read, test=test)
    if may_read and found.rows:
        await visit.console.record_read(visit, "messages.title", topic)
    visit.console.recent.add(visit.user.name, topic)
    data = MessagesPage(topic, asked, found, bool(visit.text("before")), may_read)
    return View("messages.html", data, command_of(asked, wanted, found, visit.rows), asking.missing, title=topic)


async def download(visit: Visit) -> Response:
    """Stream the messages that match the form, the newest first."""
    form = visit.choice("format", export.FORMATS)
    most = visit.number("most", export.MOST, at_least=1, at_most=export.MOST)
    asked, wanted = wanted_by(visit.names["topic"], visit.request.query_params)
    asking = Asking(visit.console.world.clock)
    if asked.key:
        found = await listing.by_key(
            visit.cluster, asking, wanted.topic, asked.key, with_body=False, begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
        )  # fmt: skip
        content = export.of_key(visit.cluster, wanted, asked.key, found, asking.missing, form, most)
        return streamed(visit, content, form)
    test = listing.Contains(asked.text) if asked.text else None
    walk = export.walk_of(visit.cluster, wanted, test)
    await walk.start(asking)
    return streamed(visit, export.of_walk(visit.cluster, walk, form, most, test), form)


PART = Part(
    "messages",
    pages=(
        Page("/topics/{topic}/messages", "messages.title", Role.VIEWER, show, refresh_s=None, nav=NAV),
        *message_search.PAGES,
        *tail.PAGES,
    ),
    actions=(*message_search.ACTIONS, *tail.ACTIONS),
    downloads=(
        Download("/topics/{topic}/messages/export", "messages.export", Role.READER, download, bodies=True),
        *message_search.DOWNLOADS,
    ),
)
