"""The objects of a running console that requests use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from gantrymq.plugin.world import World
from gantrymq_console.access.audit import Audit, Entry
from gantrymq_console.access.exposure import Exposure
from gantrymq_console.access.users import Identities
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.history import History
from gantrymq_console.web.jobs import Jobs
from gantrymq_console.web.recent import RecentTopics
from gantrymq_console.web.refreshes import Refreshes

if TYPE_CHECKING:
    from gantrymq_console.web.pages import Part
    from gantrymq_console.web.visit import Visit

__all__ = ["Console", "Exposure"]


@attrs.frozen
class Console:
    """A running console."""

    cluster: Cluster
    world: World
    identities: Identities
    audit: Audit
    exposure: Exposure
    parts: Sequence[Part]
    name_servers: str  # as given, for the commands that pages show
    in_broker: bool = False  # whether it shares the process of a broker
    recent: RecentTopics = attrs.field(factory=RecentTopics)
    refreshes: Refreshes = attrs.field(factory=Refreshes)
    history: History = attrs.field(default=attrs.Factory(lambda self: History(self.cluster), takes_self=True))
    jobs: Jobs = attrs.field(default=attrs.Factory(lambda self: Jobs(self.world.clock), takes_self=True))

    async def record_read(self, visit: Visit, name: str, target: str) -> None:
        """Write to the audit log that a page showed bodies. Raises AuditUnwritable: the bodies must not be shown."""
        address = str(visit.request.scope.get("gantrymq.address", ""))
        await self.audit.write(Entry(visit.now_ms(), "", visit.user.name, address, name, target, result="read"))
