"""The home page: problems, rates, the groups furthest behind, disks."""

from __future__ import annotations

from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data.attention import attention
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]


async def home(visit: Visit) -> View:
    """Show the cluster at one glance."""
    visit.console.history.look()
    asking = Asking(visit.console.world.clock)
    found = await asking.needed(attention(visit.cluster, visit.console.history))
    return View("home.html", found.value, "status", found.value.missing, found.as_of_ms)


PART = Part("home", pages=(Page("/", "home.title", Role.VIEWER, home, nav="home"),))
