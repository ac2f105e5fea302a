"""Search: one box for keys, ids, topics, groups and clients.

The form of the text decides: an offset id is looked up at the broker that it names; names are compared with the lists
that all visitors share; as a key or unique id the text is looked up in one topic, or in the topics used last.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import NoMessageFound, NoRoute
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from gantrymq_console.access.users import Role
from gantrymq_console.data import messages
from gantrymq_console.data.asking import Asking
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAMES_AGE_S = 10.0
MOST_NAMES = 20
MOST_TOPICS = 16  # asked for a key at a time


@attrs.frozen
class Hit:
    """A message with the key or id."""

    topic: str
    id: str
    keys: str
    tags: str
    broker: str
    queue_id: int
    stored_ms: int


@attrs.frozen
class Found:
    """The result of a search."""

    query: str
    topic: str  # chosen for the key; empty for the topics used last
    asked: Sequence[str]  # topics that were asked for the key
    hits: Sequence[Hit]
    topics: Sequence[str]
    more_topics: int  # names that are not shown
    groups: Sequence[str]
    more_groups: int
    recent: Sequence[str]


async def search(visit: Visit) -> View:
    """Search for the text of the parameter ``q``, as a key in ``topic`` if that is given."""
    query, topic = visit.text("q"), visit.text("topic")
    recent = visit.console.recent.of(visit.user.name)
    if not query:
        return View("search.html", Found(query, topic, (), (), (), 0, (), 0, recent))
    asking = Asking(visit.console.world.clock)
    cluster = visit.cluster
    names = await asking.all(
        {
            "topics": cluster.shared("topics", NAMES_AGE_S, cluster.admin.topics),
            "groups": cluster.shared("group names", NAMES_AGE_S * 3, lambda: _groups(cluster)),
        }
    )
    by_id = await asking.one(query, messages.by_offset_id(cluster, query))
    hits = [_hit(by_id)] if by_id is not None else []
    all_topics = names["topics"].value if "topics" in names else ()
    found_topics = [each for each in all_topics if query.lower() in each.lower()]
    asked: list[str] = [] if hits else [topic] if topic else _likely(recent, all_topics)
    answers = await asking.all({each: _with_key(cluster, each, query) for each in asked})
    hits += [_hit(message) for each in asked for message in answers.get(each, ())]
    if topic and hits:
        visit.console.recent.add(visit.user.name, topic)
    all_groups = names["groups"].value if "groups" in names else ()
    found_groups = [each for each in all_groups if query.lower() in each.lower()]
    data = Found(
        query,
        topic,
        asked,
        hits[: visit.rows],
        found_topics[:MOST_NAMES],
        max(0, len(found_topics) - MOST_NAMES),
        found_groups[:MOST_NAMES],
        max(0, len(found_groups) - MOST_NAMES),
        recent,
    )
    return View("search.html", data, f"message query -t {topic or 'TOPIC'} -k {query}", asking.missing, title=query)


def _likely(recent: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return the topics to ask for a key: those used last, and all topics of applications if there are few."""
    own = [each for each in topics if not is_system_topic(each) and not each.startswith((RETRY_PREFIX, DLQ_PREFIX))]
    known = [each for each in recent if each in topics]
    return list(dict.fromkeys([*known, *(own if len(own) <= MOST_TOPICS else ())]))[:MOST_TOPICS]


async def _with_key(cluster: Cluster, topic: str, key: str) -> tuple[ReceivedMessage, ...]:
    try:
        return await cluster.admin.query_message(topic, key)
    except (NoMessageFound, NoRoute):
        return ()


async def _groups(cluster: Cluster) -> tuple[str, ...]:
    found: set[str] = set()
    for address in (await cluster.masters()).values():
        found |= (await cluster.admin.groups(address)).keys()
    return tuple(sorted(found))


def _hit(message: ReceivedMessage) -> Hit:
    return Hit(
        message.topic,
        message.message_id,
        message.keys or "",
        message.tags or "",
        message.broker_name,
        message.queue_id,
        message.store_timestamp,
    )


PART = Part("search", pages=(Page("/search", "search.title", Role.VIEWER, search, refresh_s=None, nav="search"),))
