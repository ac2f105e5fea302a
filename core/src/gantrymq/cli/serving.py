"""Running name server and broker in this process: start, ready line, wait for a signal, stop.

The ready line is printed when requests are served and the broker is registered, so that a client can find routes
immediately. Requests to the name server while the broker recovers its store wait, because the response would be that
the topic does not exist. A signal cancels the start; opened resources are closed in order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from traceback import walk_tb
from typing import Any, Protocol, TypeVar

import attrs

from gantrymq.broker import BrokerServer
from gantrymq.broker.exposure import NAME_SERVER
from gantrymq.broker.settings import name_servers_of
from gantrymq.cli import LOADED_AT
from gantrymq.cli.memory_trimmer import trim_freed_memory
from gantrymq.cli.server_process import collect_less_often, collect_only_young, give_way_sooner
from gantrymq.cli.server_settings import BrokerSettings, NameServerSettings, exposure_notes, store_root
from gantrymq.commands.output import warn
from gantrymq.commands.run import stop_requested
from gantrymq.config import Settings
from gantrymq.errors import ConfigError, PluginError
from gantrymq.interfaces import NameServer, RecoveryReport
from gantrymq.model.hosts import format_address, is_loopback, parse_address
from gantrymq.remoting.listeners import listeners_of
from gantrymq.world import World

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@attrs.define
class Servers:
    """The servers of one process, started and stopped together."""

    world: World
    name_server: NameServerSettings | None = None
    broker: BrokerSettings | None = None
    name_server_address: str = ""  # address for clients on this machine
    broker_address: str = ""  # advertised address
    broker_port: int = 0  # port on which the broker's main listener is bound
    name_server_listeners: dict[str, str] = attrs.field(factory=dict)  # addresses of its other listeners, by name
    access: dict[str, str] = attrs.field(factory=dict)  # authorizer and strategy of the broker; empty: none
    broker_listeners: dict[str, str] = attrs.field(factory=dict)  # advertised addresses of its other listeners
    pages: dict[str, str] = attrs.field(factory=dict)  # addresses of web pages, by the name of the service
    recovery: RecoveryReport | None = None
    _running: list[NameServer | BrokerServer] = attrs.field(factory=list)
    _serving: Callable[[], object] = lambda: None  # called when the broker serves requests

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the settings, one sentence each."""
        return tuple(note for _, part in self._parts() for note in part.notes)

    @property
    def exposure(self) -> tuple[str, ...]:
        """Sentences about the addresses on which the servers listen."""
        return exposure_notes((name, part.settings) for name, part in self._parts())

    async def start(self) -> None:
        """Start the name server, then the broker with the name server's address first in its list.

        Raises:
            ConfigError, PluginError, StoreError: a server failed to start; started ones are stopped.
        """
        if self.broker is not None:  # check this before opening a port
            settings = self.broker.settings
            self.broker.plugins.store(settings.text("store"), settings)
        try:
            if self.name_server is not None:
                await self._start_name_server(self.name_server)
            if self.broker is not None:
                await self._start_broker(self.broker)
        except BaseException as error:
            await self.stop()
            if isinstance(error, ImportError):  # plugins import much of their code when it is selected
                raise _import_problem(error) from error
            raise

    async def stop(self) -> None:
        """Stop the servers in reverse order. Idempotent."""
        while self._running:
            await self._running.pop().stop()

    def ready_line(self) -> dict[str, Any]:
        """Return the document that ``--output json`` prints when the servers are ready, without absent servers."""
        line: dict[str, Any] = {"ready": True}
        if self.name_server_address:
            line["namesrv"] = self.name_server_address
        if self.name_server_listeners:
            line["namesrv_listeners"] = self.name_server_listeners
        if self.broker is not None:
            line["broker"] = self.broker_address
            line["store"] = str(store_root(self.broker.settings))
            line["flush"] = self.broker.settings.text("flushDiskType")
        if self.access:
            line["access"] = self.access
        if self.broker_listeners:
            line["listeners"] = self.broker_listeners
        if self.pages:
            line["pages"] = self.pages
        line["start_ms"] = round((time.perf_counter() - LOADED_AT) * 1000)
        return line

    def _parts(self) -> list[tuple[str, NameServerSettings | BrokerSettings]]:
        """Return the configured servers with their names."""
        parts = ((NAME_SERVER, self.name_server), ("broker", self.broker))
        return [(name, part) for name, part in parts if part is not None]

    async def _start_name_server(self, given: NameServerSettings) -> None:
        build = partial(given.kind.build, self.world, given.settings, beside_broker=self.broker is not None)
        settings = given.settings
        if "authorizer" in settings.schema and settings.text("authorizer"):
            from gantrymq.broker.name_server_access import NameServerAccess

            build = partial(build, access=NameServerAccess(self.world, settings, given.plugins))
        server = build()
        self._running.append(server)
        if self.broker is not None:
            self._serving = server.release
        self.name_server_address = _near(*await server.start(held=self.broker is not None))
        self.name_server_listeners = {name: _near(*address) for name, address in server.listeners.items()}

    async def _start_broker(self, given: BrokerSettings) -> None:
        settings = given.settings
        others = name_servers(settings)
        if self.name_server_address:
            known = dict.fromkeys([self.name_server_address, *others])
            settings.set("namesrvAddr", ";".join(known), "the name server of this process")
        settings.set("storePathRootDir", str(store_root(settings)), settings.source("storePathRootDir"))
        server = BrokerServer(self.world, settings, given.plugins)
        self._running.append(server)
        self.recovery = await server.start(self._serving)
        self.broker_address = format_address(*server.address)
        self.broker_port = server.identity.listen_port
        self.broker_listeners = dict(server.identity.listeners)
        access = server.tables.access.summary
        if access.authorizer:
            self.access = {"authorizer": access.authorizer, "strategy": access.strategy}
        self.pages = {each.name: url for each in given.plugins.services if (url := getattr(each, "url", ""))}
        self._warn_of_loopback(settings.text("bindAddress"), self.broker_address)
        for each in listeners_of(settings, any_protocol=True):
            self._warn_of_loopback(each.host, self.broker_listeners[each.name])

    def _warn_of_loopback(self, bound: str, advertised: str) -> None:
        if advertises_loopback(parse_address(advertised)[0], bound):
            warn(
                f"the broker listens on {bound} but advertises {advertised}, which only this machine can reach; set "
                "brokerIP1 to an address of this host"
            )


def _import_problem(error: ImportError) -> PluginError:
    """Return an error that names the module whose import failed."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in walk_tb(error.__traceback__)]
    importer = [each for each in modules if each.partition(".")[0] != "importlib"][-1]
    return PluginError(
        f"{importer} cannot import a module that it needs: {type(error).__name__}: {error}; reinstall "
        f"{importer.partition('.')[0]}, or select something else in the settings"
    )


def _near(host: str, port: int) -> str:
    """Return an address of a listener for clients on this machine."""
    return format_address(WILDCARDS.get(host, host), port)


def name_servers(settings: Settings) -> list[str]:
    """Return the addresses in ``namesrvAddr``.

    Raises:
        ConfigError: one of them is not host:port.
    """
    addresses = name_servers_of(settings)
    for address in addresses:
        try:
            parse_address(address)
        except ValueError as problem:
            raise ConfigError(
                f"{settings.source('namesrvAddr')}: namesrvAddr: {problem}; write host:port, several separated by ;"
            ) from None
    return addresses


def advertises_loopback(advertised: str, bound: str) -> bool:
    """Return whether clients of other machines can connect but get a loopback address."""
    return is_loopback(advertised) and not is_loopback(bound)


class Startable(Protocol):
    """Servers as `serve` runs them."""

    world: World

    async def start(self) -> None:
        """Start them all, or stop those already started and raise."""

    async def stop(self) -> None:
        """Stop them all. Idempotent."""


S = TypeVar("S", bound=Startable)


async def serve(
    servers: S, announce: Callable[[S], object], work: Callable[[S], Awaitable[object]] | None = None
) -> None:
    """Start *servers*, announce them, and stop them on SIGTERM or SIGINT, or when *work* is done.

    Raises:
        ConfigError, PluginError, StoreError: the start failed.
    """
    asked = asyncio.create_task(stop_requested().wait())
    trimming: asyncio.Task[None] | None = None
    give_way_sooner()
    collect_only_young()
    try:
        if not await _first(servers.start(), asked):
            return
        collect_less_often()
        trimming = asyncio.create_task(trim_freed_memory(servers.world))
        announce(servers)
        if work is None:
            await asked
        else:
            await _first(work(servers), asked)
    finally:
        asked.cancel()
        if trimming is not None:
            trimming.cancel()
        try:
            await servers.stop()
        finally:
            await servers.world.workers.close()


async def _first(work: Awaitable[object], asked: asyncio.Task[Any]) -> bool:
    """Await *work*. If the stop is requested first, cancel the work and return False."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return False
    task.result()
    return True
