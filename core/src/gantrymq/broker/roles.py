"""The broker's role, and the services that run in it.

    to REPLICA   refuse clients -> append what was accepted -> stop services -> refuse plugins
    to MASTER    accept from plugins -> start services -> accept from clients
    to ACTING_MASTER        start services; their messages are stored by the outlet, see `store_elsewhere`

A service runs on masters only, unless its attribute ``roles`` says otherwise.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from gantrymq.broker.counted_plugins import CountFailure, Listeners
from gantrymq.errors import (
    GantryError,
    InvalidParameter,
    PluginError,
    RequestRefused,
    ServiceNotAvailable,
    SlaveNotAvailable,
)
from gantrymq.interfaces import MessageOutlet, RawLogReader
from gantrymq.model.role import Role

log = logging.getLogger(__name__)

MASTER_ONLY: Final = frozenset({Role.MASTER})
_ON_A_REPLICA: Final = (
    "service not available now: this broker is a replica and takes no messages; send to the master of its group"
)
_WITHOUT_MASTER: Final = (
    "service not available now: the master of this broker is missing, and this broker, a replica, only serves "
    "consumers; send to another broker name"
)
_NAMES: Final = {Role.MASTER: "the master", Role.REPLICA: "a slave", Role.ACTING_MASTER: "a slave acting as master"}
_NO_CHANGES: Final = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
_CHANGING: Final = "service not available now: this broker is changing its role; send again in a moment"


@attrs.define(eq=False)
class RoleService:
    """Work that runs in some roles."""

    name: str
    roles: frozenset[Role]
    _start: Callable[[], Awaitable[object]]
    _stop: Callable[[], Awaitable[object]]
    _metrics: list[Any] = attrs.field(factory=list)  # of all services; those that it registers go with it
    running: bool = False
    _own_metrics: list[Any] = attrs.field(factory=list, init=False)

    async def start(self) -> None:
        """Start the work, unless it runs."""
        if self.running:
            return
        self.running, before = True, len(self._metrics)
        try:
            await self._start()
        except BaseException:
            self.running = False
            raise
        self._own_metrics = self._metrics[before:]

    async def stop(self) -> None:
        """Stop the work, if it runs."""
        if self.running:
            self.running = False
            for each in self._own_metrics:
                self._metrics.remove(each)
            await self._stop()


class Roles:
    """The role; `gantrymq.interfaces.BrokerRole`."""

    def __init__(
        self,
        raw_log: RawLogReader | None,
        append_now: Callable[[], object],
        failed: CountFailure,
        master_address: Callable[[], str] = lambda: "",
    ) -> None:
        """*append_now* stores what was accepted; *failed* counts exceptions of services and listeners;
        *master_address* returns that of a replica's master, empty if it is not known."""
        self.current, self.epoch = Role.MASTER, 0
        self.refusal = ""  # why messages of clients are refused; empty: they are accepted
        self.shortage = ""  # the same, said by a plugin
        self._plugins_refused = ""  # why messages of plugins are refused on a master
        self._guard: Callable[[], GantryError | None] | None = None
        self._outlet: MessageOutlet | None = None
        self._serves_consumers = False  # on a replica
        self._append_now, self._master_address = append_now, master_address
        self._failed = failed
        self._services: list[RoleService] = []
        self._listeners = Listeners[[Role, int]]("changes of the role", failed)
        self._lock = asyncio.Lock()  # held while services start or stop
        self._holder: asyncio.Task[Any] | None = None
        self._changing = False
        self._may_start: Callable[[], Awaitable[object]] | None = None
        self._starting: asyncio.Task[None] | None = None  # services of a new master that wait for `_may_start`
        self._closed = False
        self._floor: Callable[[], int] = lambda: 0
        if raw_log is not None:
            raw_log.retain_from(self._retained)

    def _retained(self) -> int:
        return 1 << 63 if self.is_master() else self._floor()

    # --- checks -------------------------------------------------------------------------------------------------------

    def check_message(self) -> None:
        """Check that messages of clients are accepted.

        Raises:
            ServiceNotAvailable: this broker is a replica, or changes its role.
            RequestRefused: a plugin refuses them, see `refuse`.
            GantryError: of a plugin, see `guard`.
        """
        if self.refusal:
            if self.refusal is not _ON_A_REPLICA:
                raise ServiceNotAvailable(self.refusal)
            raise (self._guard and self._guard()) or ServiceNotAvailable(self._named(self.refusal))
        if self.shortage:
            raise RequestRefused(1, self.shortage)
        if self._guard is not None and (problem := self._guard()) is not None:
            raise problem

    def check_put(self) -> None:
        """Check that messages of plugins are stored here. Raises ServiceNotAvailable."""
        if self._plugins_refused:
            raise ServiceNotAvailable(self._plugins_refused)
        if not self.is_master():
            raise ServiceNotAvailable(self._named(_ON_A_REPLICA))

    @property
    def outlet(self) -> MessageOutlet | None:
        """Where messages of plugins go on an acting master."""
        return self._outlet if self.current is Role.ACTING_MASTER else None

    def check_waiting(self) -> None:
        """Check that half messages may be ended and timed messages recalled.

        Raises:
            RequestRefused: this broker is a replica; code 11 (EndTransactionProcessor, RecallMessageProcessor).
            ServiceNotAvailable: it changes its role.
        """
        if not self.is_master():
            raise RequestRefused(SlaveNotAvailable.response_code, self._named(_ON_A_REPLICA))
        self.check_message()

    def check_tables(self) -> None:
        """Check that operators may change topics and groups.

        Raises RequestRefused with code 1 and the sentence of RocketMQ before 5.1.4; a later slave makes the change,
        which the next copy of its master's tables may undo.
        """
        if not self.is_master():
            raise RequestRefused(1, self._named(_NO_CHANGES))

    def _named(self, sentence: str) -> str:
        """Return *sentence* with the master's address, if it is known and not missing."""
        if self.serves_as_master() and sentence is _ON_A_REPLICA:
            return _WITHOUT_MASTER
        address = "missing now" if self.serves_as_master() else self._master_address()
        return f"{sentence.removesuffix('.')}; the master is {address}" if address else sentence

    def is_master(self) -> bool:
        """Return whether this broker is a master: only masters create topics and groups, and delete unused ones."""
        return self.current is Role.MASTER

    def serves_as_master(self) -> bool:
        """Return whether consumers are served like on a master: it is one, acts as one, or was ordered to."""
        return self.current is not Role.REPLICA or self._serves_consumers

    # --- changes ------------------------------------------------------------------------------------------------------

    async def run(self, service: RoleService) -> None:
        """Start *service* if it runs in the present role, and start and stop it with later changes.

        Changes wait until it has started, except one that it makes itself in its start.
        """
        async with self._turn():
            self._services.append(service)
            if self.current in service.roles:
                await service.start()

    def on_changed(self, callback: Callable[[Role, int], Any]) -> Callable[[], None]:
        """Call *callback* with role and epoch after each change."""
        return self._listeners.add(callback)

    def keep_from(self, floor: Callable[[], int]) -> None:
        """Allow retention on a replica to delete log files before ``floor()``."""
        self._floor = floor

    def store_elsewhere(self, outlet: MessageOutlet | None) -> None:
        """Store the messages of plugins through *outlet* while this broker is an acting master."""
        self._outlet = outlet

    def serve_consumers(self, *, serve: bool) -> None:
        """Set whether a replica serves consumers as an acting master does."""
        self._serves_consumers = serve

    def refuse(self, problem: str) -> None:
        """Refuse messages of clients with *problem*, until it is empty."""
        self.shortage = problem

    def refuse_plugins(self, problem: str) -> None:
        """Refuse messages of plugins with *problem*, until it is empty."""
        self._plugins_refused = problem

    def guard(self, check: Callable[[], GantryError | None] | None) -> None:
        """Ask *check* before each message of a client; None: no more."""
        self._guard = check

    def start_services_after(self, wait: Callable[[], Awaitable[object]] | None) -> None:
        """Start the services of a new master after *wait*, while messages are accepted already."""
        self._may_start = wait

    async def close(self) -> None:
        """Change the role no more: the broker stops. Wait for a change in progress."""
        self._closed = True
        await self._end_waiting()
        async with self._lock:
            pass

    async def change(self, role: Role, epoch: int) -> None:
        """Change the role."""
        if asyncio.current_task() is not self._holder:
            async with self._turn():
                await self._change(role, epoch)
        elif self._changing:
            raise PluginError(
                "a service may not wait for a change of the role in its start or stop while the role changes; change "
                "it in a task of its own, afterwards"
            )
        else:  # the service starts with the broker
            await self._change(role, epoch)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait for the starts and stops under way, and hold up others."""
        async with self._lock:
            self._holder = asyncio.current_task()
            try:
                yield
            finally:
                self._holder = None

    async def _change(self, role: Role, epoch: int) -> None:
        if self._closed:
            raise ServiceNotAvailable("the role of this broker stays as it is: it is stopping")
        if epoch < self.epoch:
            raise InvalidParameter(f"epoch {epoch} is over: this broker is a {self.current.value} of {self.epoch}")
        if (role, epoch) == (self.current, self.epoch):
            return
        self._changing = True
        try:
            problem = await self._change_services(role, epoch)
        finally:
            self._changing = False
        log.info("this broker is now %s, epoch %d", _NAMES[role], epoch)
        self._listeners.call(role, epoch)
        if problem:
            raise ServiceNotAvailable(problem)

    async def _change_services(self, role: Role, epoch: int) -> str:
        """Set role and epoch, and stop and start services. Return why messages are refused, if one failed."""
        before, self.epoch = self.current, epoch
        if role is before:
            return ""
        await self._end_waiting()
        self.refusal = _CHANGING
        if role is Role.REPLICA:
            self._append_now()
            problems = await self._stop_services(role)
            self._append_now()  # messages that services put while they stopped; no await until the role has changed
            self.current = role
        else:
            self.current = role
            problems = await self._stop_services(role)
        if role is Role.MASTER and self._may_start is not None:
            self._starting = asyncio.ensure_future(self._start_later(self._may_start))
        else:
            problems += await self._start_services(role)
        problem = _sentence(role, problems)
        self.refusal = problem or ("" if role is Role.MASTER else _ON_A_REPLICA)
        return problem

    async def _stop_services(self, role: Role) -> list[str]:
        """Stop services that do not run in *role*; return a phrase about each that failed."""
        problems = []
        for service in reversed(self._services):
            if role not in service.roles:
                try:
                    await service.stop()
                except (Exception, asyncio.CancelledError) as error:
                    self._note(service, "stop", error)
                    problems.append(f"{service.name} failed to stop")
        return problems

    async def _start_later(self, may_start: Callable[[], Awaitable[object]]) -> None:
        """Start the services of a master after *may_start*; a failure refuses messages from then on."""
        await may_start()
        async with self._turn():
            if not self._closed and (problem := _sentence(self.current, await self._start_services(self.current))):
                self.refusal = problem

    async def _end_waiting(self) -> None:
        """Forget services that have not started yet."""
        if (starting := self._starting) is not None and starting is not asyncio.current_task():
            self._starting = None
            starting.cancel()
            await asyncio.wait([starting])

    async def _start_services(self, role: Role) -> list[str]:
        """Start the services of *role*; return a phrase about each that failed."""
        problems = []
        for service in self._services:
            if role in service.roles:
                try:
                    await service.start()
                except (Exception, asyncio.CancelledError) as error:
                    self._note(service, "start", error)
                    problems.append(f"{service.name} failed to start")
        return problems

    def _note(self, service: RoleService, what: str, error: BaseException) -> None:
        if not isinstance(error, GantryError):
            self._failed("service", service.name)
        log.error("service %s failed to %s: %s", service.name, what, error, exc_info=error)


def _sentence(role: Role, problems: list[str]) -> str:
    """Return why messages are refused after a change of the role; empty without problems."""
    return f"service not available now: {', '.join(problems)} as {role.value}; see the log" if problems else ""
