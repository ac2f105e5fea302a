"""The service ``election``: takes part in the election of a master, with ``enableControllerMode=true``.

`elected_broker` has all of it. It is imported with this setting only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from gantrymq.plugin.model import Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, in_operation, response_to, serves
from gantrymq_replication.election.epochs import forget_epochs
from gantrymq_replication.election.table_copies import TableCopies
from gantrymq_replication.gate import ElectedGate
from gantrymq_replication.settings import settings_without_effect

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import Broker
    from gantrymq_replication.election.elected_broker import ElectedBroker
    from gantrymq_replication.election.machine import Machine

CHANGE_MASTER: Final = cast(RequestCode, 65031)  # GantryMQ's own; see `requests`

log = logging.getLogger("gantrymq.replication")


class ElectionService:
    """Starts and stops the election of one broker; with fixed roles, does nothing. A `table_copies.TablesLeader`."""

    name = "election"
    stops_last = True  # acknowledgements wait for slaves
    roles = frozenset(Role)

    def __init__(self, gate: ElectedGate) -> None:
        """*gate*: waits for the in-sync set."""
        self.elected: ElectedBroker | None = None  # None: roles are fixed
        self.copies = TableCopies(self)
        self.on_follow: Callable[[], object] = lambda: None  # called when another master is followed
        self.has_tables: Callable[[], bool] = lambda: True  # whether tables of a master were copied since the start
        self._gate = gate

    @property
    def enabled(self) -> bool:
        """Whether roles are elected."""
        return self.elected is not None and self.elected.enabled

    @property
    def machine(self) -> Machine | None:
        """The state of the election; None with fixed roles, or before this broker has an id."""
        return None if self.elected is None else self.elected.machine

    async def start(self, broker: Broker) -> None:
        """Begin, if roles are elected; otherwise remove what an election left.

        Raises:
            ConfigError, StoreDamaged: see `elected_broker.ElectedBroker.start`.
        """
        for each in settings_without_effect(broker.settings):
            log.warning("%s", each)
        if not broker.settings.flag("enableControllerMode"):
            await forget_epochs(broker)
            return
        from gantrymq_replication.election.elected_broker import ElectedBroker

        self.elected = ElectedBroker(self._gate, self.copies, self.on_follow, self.has_tables)
        await self.elected.start(broker)

    async def leave(self) -> None:
        """Hand over while name servers name this broker."""
        if self.elected is not None:
            await self.elected.leave()

    async def stop(self) -> None:
        """Hand over to another member of the in-sync set, and end all connections."""
        if self.elected is not None:
            await self.elected.stop()

    # --- tables -------------------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this broker is the master, or about to be."""
        return self.elected is not None and self.elected.leads

    @property
    def tables_everywhere(self) -> int:
        """The newest save of topics and groups that the in-sync set has."""
        return -1 if self.elected is None else self.elected.tables_everywhere

    def tables_saved(self, number: int) -> None:
        """Record a new save of topics and groups."""
        if self.elected is not None:
            self.elected.tables_saved(number)

    def tables_copied(self, broker_id: int, number: int) -> None:
        """Record that a slave has the topics and groups of save *number*."""
        if self.elected is not None:
            self.elected.tables_copied(broker_id, number)

    # --- requests -----------------------------------------------------------------------------------------------------

    @serves(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, access=in_operation)
    def role_changed(self, asked: Command, connection: Connection) -> Command:
        """Handle 1008 (master changed)."""
        if self.elected is not None:
            self.elected.role_changed(asked)
        return response_to(asked)  # controllers send it without waiting for one
