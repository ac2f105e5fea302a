"""The last hour of a broker, a topic, a group, or the cluster; charts get their numbers from the JSON twin."""

from __future__ import annotations

from gantrymq_console.access.users import Role
from gantrymq_console.data.history import KINDS
from gantrymq_console.web.pages import Page, Part, View
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]


async def history_page(visit: Visit) -> View:
    """Show the history of the subject that the parameters name."""
    data = visit.console.history.look(visit.choice("kind", tuple(KINDS)), visit.text("name")[:255])
    return View("history.html", data, title=data.name)


PART = Part("history", pages=(Page("/history", "history.title", Role.VIEWER, history_page, 10.0),))
