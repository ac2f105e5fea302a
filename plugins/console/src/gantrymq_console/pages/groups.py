"""Consumer groups: the list, and one group with findings, queues, members and settings."""

from __future__ import annotations

from shlex import quote
from typing import Final

from gantrymq.errors import GroupNotExist
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import group, groups, members
from gantrymq_console.pages import group_changes, group_offsets
from gantrymq_console.web.pages import Forbidden, NotFound, Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]

NAV: Final = "groups"


async def group_list(visit: Visit) -> View:
    """Show a page of the groups whose names contain the filter, those furthest behind first."""
    asking = Asking(visit.console.world.clock)
    kind, sort = visit.choice("kind", groups.KINDS), visit.choice("sort", groups.SORTS)
    data = await groups.group_list(
        visit.cluster, asking, visit.text("filter"), kind, sort, visit.descends(sort), visit.start, visit.rows
    )
    times = [each.as_of_ms for each in data.groups if each.as_of_ms is not None]
    command = ("group list" if kind == "user" else "group list --all") if not visit.text("filter") else ""
    return View("groups.html", data, command, asking.missing, min(times, default=None))


async def overview(visit: Visit) -> View:
    """Show why a group receives nothing, and its lag by topic."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    data = group.overview_of(await _facts(visit, asking))
    return View("group.html", data, f"group explain {quote(name)}", asking.missing, title=name)


async def queues(visit: Visit) -> View:
    """Show the queues of a group, those with the largest lag first."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    topic = visit.text("topic")
    data = group.queues_of(await _facts(visit, asking), topic, visit.start, visit.rows)
    command = f"group progress {quote(name)}" + (f" -t {quote(topic)}" if topic else "")
    return View("group_queues.html", data, command, asking.missing, title=name)


async def group_members(visit: Visit) -> View:
    """Show the members of a group, their subscriptions and conflicts."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    data = members.members_of(await _facts(visit, asking), visit.start, visit.rows)
    return View("group_members.html", data, f"group clients {quote(name)}", asking.missing, title=name)


async def member(visit: Visit) -> View:
    """Show the running information of one member, with thread stacks for operators."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    client_id, stacks = visit.text("id"), visit.text("stacks") == "yes"
    if stacks and not visit.may(Role.OPERATOR):
        raise Forbidden("common.forbidden", role=Role.OPERATOR.word, user=visit.user.name, own=visit.user.role.word)
    data = await members.member_state(visit.cluster, asking, name, client_id, stacks=stacks)
    return View("group_member.html", data, f"group clients {quote(name)}", asking.missing, title=client_id)


async def settings(visit: Visit) -> View:
    """Show the settings of a group at each broker, with forms to change and to delete it."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    data = group_changes.settings_of(await _facts(visit, asking))
    return View("group_settings.html", data, "group list", asking.missing, title=name)


async def offsets(visit: Visit) -> View:
    """Show the forms that set offsets."""
    asking, name = Asking(visit.console.world.clock), visit.names["group"]
    data = group.head_of(await _facts(visit, asking))
    command = f"group progress {quote(name)}"
    return View("group_offsets.html", group_offsets.OffsetForms(data), command, asking.missing, title=name)


async def _facts(visit: Visit, asking: Asking) -> group.GroupFacts:
    """Return the facts of brokers about the group of the address. Raises NotFound."""
    try:
        return await group.group_facts(visit.cluster, asking, visit.names["group"])
    except GroupNotExist:
        raise NotFound("groups.none_there", group=visit.names["group"]) from None


PART = Part(
    "groups",
    pages=(
        Page("/groups", "groups.title", Role.VIEWER, group_list, nav=NAV),
        Page("/new/group", "groups.new", Role.OPERATOR, group_changes.new, refresh_s=None, nav=NAV),
        Page("/groups/{group}", "groups.overview_title", Role.VIEWER, overview, nav=NAV),
        Page("/groups/{group}/queues", "groups.queues_title", Role.VIEWER, queues, nav=NAV),
        Page("/groups/{group}/members", "groups.members_title", Role.VIEWER, group_members, nav=NAV),
        Page("/groups/{group}/member", "groups.member_title", Role.VIEWER, member, refresh_s=None, nav=NAV),
        Page("/groups/{group}/offsets", "groups.offsets_title", Role.OPERATOR, offsets, refresh_s=None, nav=NAV),
        Page("/groups/{group}/settings", "groups.settings_title", Role.VIEWER, settings, refresh_s=None, nav=NAV),
    ),
    actions=(*group_changes.ACTIONS, *group_offsets.ACTIONS),
)
