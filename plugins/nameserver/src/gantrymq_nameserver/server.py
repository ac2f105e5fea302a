"""The complete name server: the service, a port, and a timer for silent brokers.

Source: apache/rocketmq namesrv/.../NamesrvController.java, NamesrvStartup.java.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable
from typing import Final

from gantrymq.errors import ConfigError, ConnectionLost, LocalProtocolError
from gantrymq.plugin.network import (
    Limits,
    RemotingServer,
    admission_of,
    connections_within,
    listeners_of,
    open_listeners,
)
from gantrymq.plugin.remoting import Command, Connection, RequestCode, ResponseCode, ServerAccess, response_to
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Timer, World
from gantrymq_nameserver.notifier import Notifier
from gantrymq_nameserver.service import NameService, refusal

log = logging.getLogger(__name__)

_KNOWN = "gantrymq_nameserver"  # marks connections with a close callback

_LONG: Final = frozenset(  # codes with potentially long responses
    {
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.GET_TOPICS_BY_CLUSTER,
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        RequestCode.GET_KVLIST_BY_NAMESPACE,
    }
)

SHARE_ALONE, SHARE_BESIDE = 7 / 8, 1 / 8  # of the process's descriptors, for connections


class NameServer:
    """One name server. Several may run in one process: they share nothing.

    Args:
        settings: must include the schema of `gantrymq_nameserver.settings.name_server_settings`.
    """

    def __init__(
        self, world: World, settings: Settings, *, beside_broker: bool = False, access: ServerAccess | None = None
    ) -> None:
        """Create the server; only TLS files are read.

        Args:
            beside_broker: a broker in this process needs most of the file descriptors.
            access: None serves everybody.

        Raises:
            ConfigError: one of the files cannot be used, or the setting ``listeners`` is not valid.
        """
        self._access = access
        self._world = world
        self._settings = settings
        self._listeners = listeners_of(settings)
        self.listeners: dict[str, tuple[str, int]] = {}  # addresses of the open ones besides the main one
        self._admission = admission_of(settings, world.clock, world.files)
        self._notifier = Notifier(world, settings)
        self.service = NameService(world, settings, self._notifier.notify)
        limits = Limits(
            max_connections=connections_within(
                world.descriptors(), SHARE_BESIDE if beside_broker else SHARE_ALONE, Limits().max_connections
            ),
            idle_timeout_s=float(settings.number("serverChannelMaxIdleTimeSeconds")),
        )
        self._server = RemotingServer(world, self, limits=limits, name="name server", admission=self._admission)
        self._scan_timer: Timer | None = None
        self._writing: set[asyncio.Task[None]] = set()

    async def start(self, *, held: bool = False) -> tuple[str, int]:
        """Load the key-value table, listen, and return host and port; port 0 is replaced by the chosen one.

        With *held*, clients can connect, and their requests wait until `release`.

        Raises:
            ConfigError: one of the addresses cannot be listened on; none of them is open then.
            GantryError: access control cannot start.
        """
        if self._access is not None:
            await self._access.start()
        host, port = self._settings.text("bindAddress"), self._settings.number("listenPort")
        self.service.kv.load()
        try:
            address = await self._server.start(host, port, held=held)
        except OSError as error:
            another = f"choose another port with {self._settings.how_to_set('listenPort', 'PORT')} (0 picks a free one)"
            about_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
            advice = another if about_port else "set bindAddress to an address of this host"
            raise ConfigError(
                f"the name server cannot listen on {host}:{port}: {error.strerror or error}; {advice}"
            ) from error
        self.listeners = await open_listeners(self._server, self._listeners, self._admission, held=held)
        self._plan_scan()
        log.info("name server listens on %s:%d", *address)
        return address

    def release(self) -> None:
        """Start answering requests."""
        self._server.release()

    async def stop(self) -> None:
        """Stop answering and close all connections. May be called without a start.

        With enableShutdownGracefully, newer clients are first answered with GO_AWAY for shutdownWaitTimeSeconds.
        """
        if self._server.address is not None and self._settings.flag("enableShutdownGracefully"):
            self.service.stopping = True
            await self._world.clock.sleep(self._settings.number("shutdownWaitTimeSeconds"))
        if self._scan_timer is not None:
            self._scan_timer.cancel()
            self._scan_timer = None
        await asyncio.gather(*self._writing)
        await self._server.stop()
        if self._access is not None:
            await self._access.stop()
        self.listeners = {}
        await self._notifier.close()
        self.service.membership.close()

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Answer all requests of one read in order; requests that need a worker are answered when it is done."""
        if _KNOWN not in connection.notes:
            connection.notes[_KNOWN] = True
            connection.on_close(self.service.membership.connection_closed)
        for index, command in enumerate(commands):
            if index and connection.full:
                connection.put_back(commands[index:])
                return
            limited = connection.response_limiter.run if command.code in _LONG else None
            try:
                if self._access is not None and not self._admitted(self._access, command, connection):
                    connection.hold(commands[index:])
                    return
                answer = self.service.answer(command, connection, limited)
            except Exception as error:
                answer = refusal(command, error)
            if isinstance(answer, Command):
                _reply(connection, command, answer)
            else:
                task = asyncio.get_running_loop().create_task(_reply_later(connection, command, answer))
                self._writing.add(task)
                task.add_done_callback(self._writing.discard)

    def _admitted(self, access: ServerAccess, command: Command, connection: Connection) -> bool:
        rule = self.service.access_rule(command)
        return rule is None or access.admitted(command, connection, rule)

    def _plan_scan(self) -> None:
        interval_s = self._settings.number("scanNotActiveBrokerInterval") / 1000
        self._scan_timer = self._world.clock.call_later(interval_s, self._scan)

    def _scan(self) -> None:
        try:
            self.service.membership.drop_silent()
        finally:
            self._plan_scan()


def _reply(connection: Connection, request: Command, answer: Command) -> None:
    try:
        connection.reply(request, answer)
    except LocalProtocolError as error:  # the response exceeds the frame limit
        connection.reply(request, response_to(request, ResponseCode.SYSTEM_ERROR, str(error)))


async def _reply_later(connection: Connection, request: Command, answer: Awaitable[Command]) -> None:
    try:
        settled = await answer
    except ConnectionLost:
        return
    _reply(connection, request, settled)
