"""Topics and groups of an elected master, until the whole in-sync set has them, and users of every master.

A change of a topic or group is answered, and the first message to a new topic stored, after each member of the set has
copied the tables. The master numbers its saves. A slave asks (65036) whether it has the newest number, and is answered
as soon as there is another one; it then copies topics and groups (`tables`), and its next question says so.

A change of users or permissions is a save, too, also of a master with a fixed role. It is answered when the in-sync set
and all slaves that ask have it; they copy the state of the authorizer by another request (`access_state`).

    slave -> master   {"brokerId": 2, "source": "", "number": -1, "waitMillis": 1000}        the save it has
    master -> slave   {"source": "5f2a...", "number": 7}                                     the save to copy

*source* names the master and its epoch; numbers of another one mean nothing. RocketMQ's brokers do not ask, so a slave
says in its handshake that it does (`auto_switch`), and a RocketMQ slave in the set is not waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.plugin.interfaces import BrokerCluster
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, response_to, serves
from gantrymq.plugin.world import wait_set
from gantrymq_replication.access_state import ASK_ACCESS, answer_of, texts_for

ASK_TABLES: Final = cast(RequestCode, 65036)  # GantryMQ's own
_MOST_WAIT_MS: Final = 10_000
_HEARD_S: Final = 5.0  # a slave that asked longer ago is gone; it copies at once when it is back


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
    """Counts the copies of a broker's topics, groups and users, and answers slaves that ask; a service in all roles."""

    name = "table_copies"
    roles = frozenset(Role)

    def __init__(self, leader: TablesLeader) -> None:
        self.number = 0  # of the newest save in this epoch
        self.copied: dict[int, int] = {}  # the newest save that a slave has, by broker id
        self._leader = leader
        self._source = ""
        self._news: set[asyncio.Event] = set()  # of questions that wait
        self._waiting: set[asyncio.Event] = set()  # of saves that wait for slaves
        self._stopping = self._elected = False
        self._heard: dict[int, float] = {}  # when a slave asked last, monotonic, by broker id

    async def start(self, broker: BrokerCluster) -> None:
        """Confirm changes of users, and with an election those of topics and groups, from now on."""
        self._broker, self._world, self._stopping = broker, broker.world, False
        self._late_s = broker.settings.number("slaveTimeout") / 1000
        self._elected = broker.settings.flag("enableControllerMode")
        if self._elected:
            broker.tables.confirm_changes(self._confirm)
        else:
            self.begin()
        broker.access.confirm_changes(self._confirm_access)

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
        self._heard.clear()

    def look(self) -> None:
        """Check the changes that wait for slaves again."""
        for event in self._waiting:
            event.set()

    @property
    def _leads(self) -> bool:
        return self._leader.leads if self._elected else self._broker.role.current is Role.MASTER

    async def _confirm(self) -> None:
        """Wait until the in-sync set has the topics and groups that were saved now. Raises like `_spread`."""
        await self._spread(
            lambda number: "" if self._leader.tables_everywhere >= number else "the in-sync set", "topics or groups"
        )

    async def _confirm_access(self) -> None:
        """Wait until the in-sync set and all slaves that ask have the present users. Raises like `_spread`."""
        await self._spread(self._lacks, "users or permissions")

    def _lacks(self, number: int) -> str:
        """Return which slaves lack a save; empty if none does."""
        if self._elected and self._leader.tables_everywhere < number:
            return "the in-sync set"
        now = self._world.clock.monotonic()
        late = (each for each, at in self._heard.items() if now - at <= _HEARD_S and self.copied[each] < number)
        return ", ".join(f"broker id {each}" for each in sorted(late))

    async def _spread(self, lacks: Callable[[int], str], what: str) -> None:
        """Number a save of *what*, and wait until ``lacks(number)`` names no slaves.

        Raises:
            ServiceNotAvailable: not in time, or this broker is not the master any more.
        """
        if not self._leads:
            return
        source, clock = self._source, self._world.clock
        self.number = number = self.number + 1
        if self._elected:
            self._leader.tables_saved(number)
        for event in self._news:
            event.set()
        until, changed = clock.monotonic() + self._late_s, asyncio.Event()
        self._waiting.add(changed)
        try:
            while slaves := lacks(number):
                left = until - clock.monotonic()
                if left <= 0 or self._stopping:
                    raise ServiceNotAvailable(
                        f"service not available now: {slaves} did not copy a change of {what} in time (slaveTimeout); "
                        "it may be there after the next change of the master"
                    )
                await wait_set(clock, changed, left)
                changed.clear()
                if not self._leads or source != self._source:
                    raise ServiceNotAvailable(
                        f"service not available now: this broker is not the master any more, and a change of {what} "
                        "may be lost; make it again"
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
        texts_for(self._broker.access, connection.principal)  # others could make changes of users wait in vain
        if ext.get("source") != self._source:
            number = -1
        self.copied[broker_id] = number
        if self._elected:
            self._leader.tables_copied(broker_id, number)
        self.look()
        clock, event = self._world.clock, asyncio.Event()
        self._heard[broker_id] = clock.monotonic()
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

    @serves(ASK_ACCESS, action=Action.UPDATE)
    async def ask_access(self, asked: Command, connection: Connection) -> Command:
        """Handle 65035: return users and permissions to a slave whose account may know them."""
        self._check_leads()
        return await answer_of(self._broker.access, asked, connection.principal, self._world.workers)

    def _check_leads(self) -> None:
        if not self._leads or not self._source or self._stopping:
            raise ServiceNotAvailable("service not available now: this broker is not the master, or stops")
