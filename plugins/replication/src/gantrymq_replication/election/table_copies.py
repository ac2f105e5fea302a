"""Topics and groups of an elected master, until the whole in-sync set has them.

A change of a topic or group is answered, and the first message to a new topic stored, after each member of the set has
copied the tables. The master numbers its saves. A slave asks (65036) whether it has the newest number, and is answered
as soon as there is another one; it then copies topics and groups (`tables`), and its next question says so.

    slave -> master   {"brokerId": 2, "source": "", "number": -1, "waitMillis": 1000}        the save it has
    master -> slave   {"source": "5f2a...", "number": 7}                                     the save to copy

*source* names the master and its epoch; numbers of another one mean nothing. RocketMQ's brokers do not ask, so a slave
says in its handshake that it does (`auto_switch`), and a RocketMQ slave in the set is not waited for.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, cast

from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.plugin.interfaces import BrokerCluster
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq.plugin.world import wait_set

ASK_TABLES: Final = cast(RequestCode, 65036)  # GantryMQ's own
_MOST_WAIT_MS: Final = 10_000


class TablesLeader(Protocol):
    """The election, as the copies of tables use it."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the master, or about to be."""

    @property
    def tables_everywhere(self) -> int:
        """Number of the newest save that every member of the in-sync set has; a huge one if none has to."""

    def tables_saved(self, number: int) -> None:
        """Record the number of the newest save."""

    def tables_copied(self, broker_id: int, number: int) -> None:
        """Record that a slave has the tables of save *number*."""


class TableCopies:
    """Counts the copies of one broker's topics and groups, and answers slaves that ask; a service in all roles."""

    name = "table_copies"
    roles = frozenset(Role)

    def __init__(self, leader: TablesLeader) -> None:
        self.number = 0  # of the newest save in this epoch
        self.copied: dict[int, int] = {}  # the newest save that a slave has, by broker id
        self._leader = leader
        self._source = ""
        self._news: set[asyncio.Event] = set()  # of questions that wait
        self._waiting: set[asyncio.Event] = set()  # of saves that wait for slaves
        self._stopping = False

    async def start(self, broker: BrokerCluster) -> None:
        """Confirm changes of topics and groups from now on."""
        self._world, self._stopping = broker.world, False
        if not broker.settings.flag("enableControllerMode"):
            return
        self._late_s = broker.settings.number("slaveTimeout") / 1000
        broker.tables.confirm_changes(self._confirm)

    async def stop(self) -> None:
        """Answer no more questions: those that wait would delay the end of the broker."""
        self._stopping = True
        self.look()
        for event in self._news:
            event.set()

    def begin(self) -> None:
        """Number the saves of a new epoch."""
        self._source, self.number = f"{self._world.random.getrandbits(64):016x}", 0
        self.copied.clear()

    def look(self) -> None:
        """Check the changes that wait for slaves again."""
        for event in self._waiting:
            event.set()

    async def _confirm(self) -> None:
        """Wait until the in-sync set has the tables that were saved now.

        Raises:
            ServiceNotAvailable: not in time, or this broker is not the master any more.
        """
        if not self._leader.leads:
            return
        source, clock = self._source, self._world.clock
        self.number = number = self.number + 1
        self._leader.tables_saved(number)
        for event in self._news:
            event.set()
        until, changed = clock.monotonic() + self._late_s, asyncio.Event()
        self._waiting.add(changed)
        try:
            while self._leader.tables_everywhere < number:
                left = until - clock.monotonic()
                if left <= 0 or self._stopping:
                    raise ServiceNotAvailable(
                        "service not available now: the in-sync set did not copy a change of topics or groups in time "
                        "(slaveTimeout); it may be there after the next change of the master"
                    )
                await wait_set(clock, changed, left)
                changed.clear()
                if not self._leader.leads or source != self._source:
                    raise ServiceNotAvailable(
                        "service not available now: this broker is not the master any more, and a change of topics or "
                        "groups may be lost; make it again"
                    )
        finally:
            self._waiting.discard(changed)

    # --- slaves -------------------------------------------------------------------------------------------------------

    @serves(ASK_TABLES, action=Action.GET)
    async def ask(self, asked: Command, connection: Connection) -> Command:
        """Handle 65036: record the save of a slave, and answer when there is another one, or after its waiting time."""
        ext = asked.ext or {}
        try:
            broker_id, number = int(ext["brokerId"]), int(ext["number"])
            wait_ms = min(int(ext["waitMillis"]), _MOST_WAIT_MS)
        except (KeyError, ValueError) as error:
            raise InvalidParameter(f"brokerId, number and waitMillis were expected as numbers: {error}") from error
        self._check_leads()
        if ext.get("source") != self._source:
            number = -1
        self.copied[broker_id] = number
        self._leader.tables_copied(broker_id, number)
        clock, event = self._world.clock, asyncio.Event()
        until = clock.monotonic() + wait_ms / 1000
        self._news.add(event)
        try:
            while number == self.number and not self._stopping and (left := until - clock.monotonic()) > 0:
                await wait_set(clock, event, left)
                event.clear()
        finally:
            self._news.discard(event)
        self._check_leads()
        return response_to(asked, 0, None, {"source": self._source, "number": str(self.number)})

    def _check_leads(self) -> None:
        if not self._leader.leads or not self._source or self._stopping:
            raise ServiceNotAvailable("service not available now: this broker is not an elected master, or stops")
