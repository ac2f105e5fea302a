"""The audit log: changes, and reads of message bodies, with their users."""

from __future__ import annotations

import attrs
from starlette.responses import Response, StreamingResponse

from gantrymq_console.access.audit import Entry
from gantrymq_console.access.users import Role
from gantrymq_console.web.pages import Download, Page, Part, View
from gantrymq_console.web.values import Long
from gantrymq_console.web.visit import Visit

__all__ = ["PART"]


@attrs.frozen
class AuditPage:
    """A page of the log, the newest first."""

    filter: str
    start: int
    total: Long
    entries: tuple[Entry, ...]


async def audit_page(visit: Visit) -> View:
    """Show a page of the entries that contain the filter."""
    wanted = visit.text("filter")
    found, total = await visit.console.audit.find(wanted, visit.start, visit.rows)
    return View("audit.html", AuditPage(wanted, visit.start, Long(total), tuple(found)))


async def export(visit: Visit) -> Response:
    """Return the whole log as lines of JSON."""
    headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
    return StreamingResponse(visit.console.audit.lines(), media_type="application/octet-stream", headers=headers)


PART = Part(
    "audit",
    pages=(Page("/audit", "audit.title", Role.VIEWER, audit_page, nav="audit"),),
    downloads=(Download("/audit/export", "audit.export", Role.ADMIN, export),),
)
