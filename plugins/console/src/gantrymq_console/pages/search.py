"""Search: one box for keys, ids, topics, groups and clients.

The form of the text decides: an offset id is looked up at the broker that it names; names are compared with the lists
that all visitors share; as a key or unique id the text is looked up in one topic, or in the topics used last. An id of
exactly one message leads to the page of that message.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

import attrs

from gantrymq.errors import NoRoute
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import clients, listing, messages
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.everywhere import REQUESTS_PER_S
from gantrymq_console.data.groups import group_configs
from gantrymq_console.data.listing import Listing, Row
from gantrymq_console.web.pages import Page, Part, SeeOther, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAMES_AGE_S: Final = 10.0
MOST_NAMES: Final = 20
MOST_TOPICS: Final = 16  # asked for a key at a time

_HEX: Final = re.compile("[0-9A-Fa-f]{32,64}")


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


async def search(visit: Visit) -> View:
    """Search for the text of the parameter ``q``, as a key in ``topic`` if that is given."""
    query, topic = visit.text("q"), visit.text("topic")
    recent = visit.console.recent.of(visit.user.name)
    if not query:
        return View("search.html", Found(query, topic, recent=recent))
    asking, cluster = Asking(visit.console.world.clock), visit.cluster
    by_id = await asking.one(query, messages.by_offset_id(cluster, query))
    if by_id is not None and not visit.is_api:
        raise SeeOther("messages", query, topic=by_id.topic)
    answers = await asking.all({"topics": cluster.shared("topics", NAMES_AGE_S, cluster.admin.topics)})
    own = [each for each in (answers["topics"].value if "topics" in answers else ()) if not is_system_topic(each)]
    asked = [topic] if topic else _likely(recent, own)
    found, configs, connected = await asyncio.gather(
        asking.all({each: _with_key(cluster, asking, each, query) for each in asked}),
        group_configs(cluster, asking),
        clients.client_list(cluster, asking, query, "all", "id", False, 0, MOST_NAMES),
    )
    hits = [listing.row_of(by_id, with_body=False)] if by_id is not None else []
    hits += _rows(found)
    if not hits and _HEX.fullmatch(query) and query != query.upper():  # clients write unique ids in upper case
        hits = _rows(await asking.all({each: _with_key(cluster, asking, each, query.upper()) for each in asked}))
    if not hits:
        moved = await messages.elsewhere(cluster, asking, query)
        if len(moved) == 1 and not visit.is_api:
            raise SeeOther("messages", query, topic=moved[0].topic)
        hits = [listing.row_of(each, with_body=False) for each in moved]
    if len(hits) == 1 and hits[0].unique_id in (query, query.upper()) and not visit.is_api:
        raise SeeOther("messages", hits[0].id, topic=hits[0].topic)
    hits.sort(key=lambda row: -row.stored_ms)
    if topic and hits:
        visit.console.recent.add(visit.user.name, topic)
    wanted = query.lower()
    topics = [each for each in own if wanted in each.lower()]
    groups = sorted({each for part in configs.values() for each in part if wanted in each.lower()})
    requests = len(own) * len(configs)
    data = Found(
        query,
        topic,
        asked,
        hits[: visit.rows],
        [each for each, part in found.items() if part is not None and part.next_ms is not None],
        topics[:MOST_NAMES],
        max(0, len(topics) - MOST_NAMES),
        groups[:MOST_NAMES],
        max(0, len(groups) - MOST_NAMES),
        [each.client_id for each in connected.clients],
        max(0, connected.total - MOST_NAMES),
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
    return list(dict.fromkeys([*known, *(own if len(own) <= MOST_TOPICS else ())]))[:MOST_TOPICS]


async def _with_key(cluster: Cluster, asking: Asking, topic: str, key: str) -> Listing | None:
    try:
        return await listing.by_key(cluster, asking, topic, key, with_body=False)
    except NoRoute:
        return None


PART = Part("search", pages=(Page("/search", "search.title", Role.VIEWER, search, refresh_s=None, nav="search"),))
