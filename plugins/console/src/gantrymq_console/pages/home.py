"""The home page and the connected clients."""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import Final

import attrs

from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import clients
from gantrymq_console.data.attention import Attention, attention
from gantrymq_console.data.cluster import Aged
from gantrymq_console.data.groups import tells_all
from gantrymq_console.history.changes import Changes, changes_of
from gantrymq_console.pages.history import with_history
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import NotFound, Page, Section, View

_CHANGES_AGE_S: Final = 30.0


async def home(context: RequestContext) -> View:
    """Show the cluster at one glance."""
    asking = Asking(context.console.world.clock)
    found, changes = await asking.needed(_looks(context))
    changes = attrs.evolve(changes, some_groups_only=not tells_all(context.cluster))
    data = attrs.evolve(found.value, changes=changes)
    view = View("home.html", data, "status", data.missing, data.as_of_ms or found.as_of_ms)
    return await with_history(context, view, "cluster")


async def _looks(context: RequestContext) -> tuple[Aged[Attention], Changes]:
    return await asyncio.gather(attention(context.cluster, context.console.past), _changes(context))


async def _changes(context: RequestContext) -> Changes:
    cluster, past = context.cluster, context.console.past
    found = await cluster.shared(
        "changes", _CHANGES_AGE_S, lambda: changes_of(past, cluster.world.clock), late_s=_CHANGES_AGE_S
    )
    return found.value


async def client_list(context: RequestContext) -> View:
    """Show a page of the clients whose id, address or group contains the filter."""
    asking = Asking(context.console.world.clock)
    query = context.list_query("role", clients.ROLES, clients.SORTS, ascending=clients.SORTS)
    data = await clients.client_list(context.cluster, asking, query)
    return View("clients.html", data, "", asking.missing, data.as_of_ms)


async def client_page(context: RequestContext) -> View:
    """Show one client with all of its connections."""
    asking, client_id = Asking(context.console.world.clock), context.text("id")
    data = await clients.client_page(context.cluster, asking, client_id)
    if data is None:
        raise NotFound("clients.not_connected", client=client_id)
    groups = [each.group for each in data.connections if each.role == "consumer"]
    command = f"group clients {quote(groups[0])}" if groups else ""
    return View("client.html", data, command, asking.missing, data.as_of_ms, title=client_id)


SECTION = Section(
    pages=(
        Page("/", "home.title", Role.VIEWER, home, nav="home"),
        Page("/clients", "clients.title", Role.VIEWER, client_list, nav="clients"),
        Page("/clients/show", "clients.one", Role.VIEWER, client_page, nav="clients"),
    ),
)
