"""Topics: the list, and one topic with its queues, groups, producers and settings."""

from __future__ import annotations

from shlex import quote
from typing import Final

from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import topic, topics
from gantrymq_console.pages import topic_changes
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAV: Final = "topics"


async def topic_list(visit: Visit) -> View:
    """Show a page of the topics whose names contain the filter."""
    asking = Asking(visit.console.world.clock)
    kind, sort = visit.choice("kind", topics.KINDS), visit.choice("sort", topics.SORTS)
    data = await topics.topic_list(
        visit.cluster, asking, visit.text("filter"), kind, sort, visit.descends(sort), visit.start, visit.rows
    )
    times = [each.as_of_ms for each in data.topics if each.as_of_ms is not None]
    command = {"user": "topic list", "all": "topic list --all"}.get(kind, "") if not visit.text("filter") else ""
    return View("topics.html", data, command, asking.missing, min(times, default=None))


async def queues(visit: Visit) -> View:
    """Show the queues of a topic."""
    asking, name = Asking(visit.console.world.clock), visit.names["topic"]
    data = await topic.topic_queues(visit.cluster, asking, name, visit.start, visit.rows)
    return View("topic_queues.html", data, f"topic status -t {quote(name)}", asking.missing, title=name)


async def groups(visit: Visit) -> View:
    """Show the groups that consume a topic, and their members."""
    asking, name = Asking(visit.console.world.clock), visit.names["topic"]
    data = await topic.topic_groups(visit.cluster, asking, name, visit.start, visit.rows)
    command = f"group progress -g {quote(data.groups[0].group)} -t {quote(name)}" if data.total == 1 else ""
    return View("topic_groups.html", data, command, asking.missing, title=name)


async def producers(visit: Visit) -> View:
    """Show the producers that are connected to the brokers of a topic."""
    asking, name = Asking(visit.console.world.clock), visit.names["topic"]
    data = await topic.topic_producers(visit.cluster, asking, name, visit.start, visit.rows)
    return View("topic_producers.html", data, "", asking.missing, title=name)


async def settings(visit: Visit) -> View:
    """Show the settings of a topic, with forms to change and to delete it."""
    asking, name = Asking(visit.console.world.clock), visit.names["topic"]
    data = await topic.topic_settings(visit.cluster, asking, name)
    return View("topic_settings.html", data, f"topic route -t {quote(name)}", asking.missing, title=name)


PART = Part(
    "topics",
    pages=(
        Page("/topics", "topics.title", Role.VIEWER, topic_list, nav=NAV),
        Page("/new/topic", "topics.new", Role.OPERATOR, topic_changes.new, refresh_s=None, nav=NAV),
        Page("/topics/{topic}", "topics.queues_title", Role.VIEWER, queues, nav=NAV),
        Page("/topics/{topic}/groups", "topics.groups_title", Role.VIEWER, groups, nav=NAV),
        Page("/topics/{topic}/producers", "topics.producers_title", Role.VIEWER, producers, nav=NAV),
        Page("/topics/{topic}/settings", "topics.settings_title", Role.VIEWER, settings, refresh_s=None, nav=NAV),
    ),
    actions=topic_changes.ACTIONS,
)
