"""The home page, the last hour of a subject, and the connected clients.

Charts get their numbers from the JSON twin of the history.
"""

from __future__ import annotations

from shlex import quote

from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import clients
from gantrymq_console.data.attention import attention
from gantrymq_console.data.history import KINDS
from gantrymq_console.web.pages import NotFound, Page, Section, View
from gantrymq_console.web.visit import Visit


async def home(visit: Visit) -> View:
    """Show the cluster at one glance."""
    visit.console.history.look()
    asking = Asking(visit.console.world.clock)
    found = await asking.needed(attention(visit.cluster, visit.console.history))
    return View("home.html", found.value, "status", found.value.missing, found.as_of_ms)


async def history_page(visit: Visit) -> View:
    """Show the history of the subject that the parameters name."""
    data = visit.console.history.look(visit.choice("kind", tuple(KINDS)), visit.text("name")[:255])
    return View("history.html", data, title=data.name)


async def client_list(visit: Visit) -> View:
    """Show a page of the clients whose id, address or group contains the filter."""
    asking = Asking(visit.console.world.clock)
    query = visit.list_query("role", clients.ROLES, clients.SORTS, ascending=clients.SORTS)
    data = await clients.client_list(visit.cluster, asking, query)
    return View("clients.html", data, "", asking.missing)


async def client_page(visit: Visit) -> View:
    """Show one client with all of its connections."""
    asking, client_id = Asking(visit.console.world.clock), visit.text("id")
    data = await clients.client_page(visit.cluster, asking, client_id)
    if data is None:
        raise NotFound("clients.not_connected", client=client_id)
    groups = [each.group for each in data.connections if each.role == "consumer"]
    command = f"group clients {quote(groups[0])}" if groups else ""
    return View("client.html", data, command, asking.missing, title=client_id)


SECTION = Section(
    pages=(
        Page("/", "home.title", Role.VIEWER, home, nav="home"),
        Page("/history", "history.title", Role.VIEWER, history_page, 10.0),
        Page("/clients", "clients.title", Role.VIEWER, client_list, nav="clients"),
        Page("/clients/show", "clients.one", Role.VIEWER, client_page, nav="clients"),
    ),
)
