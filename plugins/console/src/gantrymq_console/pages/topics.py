"""Topics: the list."""

from __future__ import annotations

import attrs

from gantrymq_console.access.users import Role
from gantrymq_console.data.asking import Asking
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.values import Long
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAMES_AGE_S = 10.0


@attrs.frozen
class TopicRow:
    """One topic in the list."""

    name: str


@attrs.frozen
class TopicList:
    """A page of the list."""

    filter: str
    start: int
    total: Long
    topics: tuple[TopicRow, ...]


async def topic_list(visit: Visit) -> View:
    """Show a page of the topics whose names contain the filter."""
    asking = Asking(visit.console.world.clock)
    wanted = visit.text("filter")
    names = await asking.needed(visit.cluster.shared("topics", NAMES_AGE_S, visit.cluster.admin.topics))
    found = [name for name in names.value if wanted.lower() in name.lower()]
    rows = tuple(TopicRow(name) for name in found[visit.start : visit.start + visit.rows])
    data = TopicList(wanted, visit.start, Long(len(found)), rows)
    return View("topics.html", data, "topic list", asking.missing, names.as_of_ms)


PART = Part("topics", pages=(Page("/topics", "topics.title", Role.VIEWER, topic_list, nav="topics"),))
