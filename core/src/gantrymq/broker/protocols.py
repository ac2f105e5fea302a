"""The listeners of a broker with protocols of plugins (setting ``listeners``), such as gRPC.

    start   listeners open, connections wait -> services -> `ListenerProtocol.start` -> connections are served
    stop    listeners close -> `ListenerProtocol.stop` -> services -> the remaining connections are closed

The remoting server counts these connections with its own and holds them until requests are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from gantrymq.broker.counted_plugins import CountFailure
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.settings import name_servers_of
from gantrymq.config import Settings
from gantrymq.errors import ConfigError, install_command
from gantrymq.interfaces import AcceptedConnection, Broker
from gantrymq.plugins import Plugins
from gantrymq.plugins.loaded import ProtocolEntry
from gantrymq.remoting.admission import admission_of, grpc_advice
from gantrymq.remoting.listeners import (
    GRPC,
    GRPC_TO_INSTALL,
    LISTENERS_SETTING,
    REMOTING,
    NamedListener,
    unknown_protocol,
)
from gantrymq.remoting.protocol_admission import ProtocolAdmission
from gantrymq.remoting.protocol_connection import ProtocolConnection
from gantrymq.remoting.server import RemotingServer
from gantrymq.world import World


class RunningProtocol:
    """One protocol of a broker, with all its listeners; it is started and stopped like a service."""

    def __init__(self, name: str, entry: ProtocolEntry, listeners: Sequence[NamedListener]) -> None:
        """Create the plugin's object."""
        self.name = name
        self.listeners = listeners
        self.first, self.alpn = entry.first, entry.alpn
        self.advertised: dict[str, str] = {}  # addresses by name of the listener
        self._protocol = entry.factory()
        self.served = 0  # open connections
        self._server: RemotingServer | None = None
        self._stopped = False

    def connect_to(self, server: RemotingServer) -> None:
        """Set the server that has the listeners."""
        self._server = server

    async def start(self, broker: Broker) -> None:
        """Start the plugin's object."""
        await self._protocol.start(broker, self.advertised)

    async def stop(self) -> None:
        """Stop listening, then the plugin's object."""
        self._stopped = True
        if self._server is not None:
            await self._server.stop_listening({each.name for each in self.listeners})
        await self._protocol.stop()

    def accept(self, listener: str, connection: ProtocolConnection) -> asyncio.Protocol | None:
        """Return the plugin's object for a connection; None after `stop`, for a client whose first bytes come late."""
        if self._stopped or connection.transport is None:
            return None
        self.served += 1
        connection.on_close(self._closed)
        return self._protocol.accept(
            AcceptedConnection(
                connection.transport, connection.peer, listener, connection.encrypted, connection.certificate
            )
        )

    def _closed(self, connection: ProtocolConnection) -> None:
        self.served -= 1


class ListenerProtocols:
    """The protocols that the listeners of a broker have besides remoting."""

    def __init__(
        self, settings: Settings, plugins: Plugins, listeners: Sequence[NamedListener], failed: CountFailure
    ) -> None:
        """Create the objects of the plugins. *failed* counts their exceptions.

        Raises:
            ConfigError: no installed plugin offers a protocol; or a plugin refuses a setting.
        """
        self._settings = settings
        self._failed = failed
        self._identity: BrokerIdentity | None = None
        by_name: dict[str, list[NamedListener]] = {}
        for each in listeners:
            if each.protocol != REMOTING:
                by_name.setdefault(each.protocol, []).append(each)
                if each.protocol not in plugins.protocols:
                    raise ConfigError(_unknown(settings, each, plugins))
        self.running = [RunningProtocol(name, plugins.protocols[name], found) for name, found in by_name.items()]

    @property
    def connections_served(self) -> int:
        """Number of open connections of clients that were admitted."""
        return sum(each.served for each in self.running)

    def connections(self, world: World, server: RemotingServer) -> dict[str, Callable[[], asyncio.Protocol]]:
        """Return what creates the connections of each listener, by its name, for `open_listeners`.

        Raises:
            ConfigError: TLS is required, and disabled or without a certificate; or a TLS file cannot be used.
        """
        found: dict[str, Callable[[], asyncio.Protocol]] = {}
        for protocol in self.running:
            protocol.connect_to(server)
            rules = admission_of(self._settings, world.clock, world.files, alpn=protocol.alpn)
            rules.prepare_tls()
            for name, tls, _, _, word in protocol.listeners:
                found[name] = partial(
                    ProtocolConnection,
                    world.clock,
                    server.limits.handshake_timeout_s,
                    ProtocolAdmission(
                        rules.requiring_tls(name, word) if tls else rules,
                        name,
                        word,
                        protocol.first,
                        self._remoting_advice,
                    ),
                    server.opened,
                    partial(protocol.accept, name),
                    partial(self._failed, "listener protocol", word),
                )
        return found

    def advertise(self, identity: BrokerIdentity) -> None:
        """Set the advertised addresses, before connections are served."""
        self._identity = identity
        for protocol in self.running:
            protocol.advertised = {each.name: identity.listeners[each.name] for each in protocol.listeners}

    def grpc_advice(self) -> str:
        """Return the part of a sentence that says where clients of gRPC connect."""
        for protocol in self.running:
            if protocol.name == GRPC:
                where = ", ".join(f"{address} (listener {name})" for name, address in protocol.advertised.items())
                return f"gRPC clients of this broker connect to {where}"
        return grpc_advice()

    def _remoting_advice(self) -> str:
        assert self._identity is not None, "connections are served after the start"
        names = name_servers_of(self._settings)
        routes = f", and ask the name server {' or '.join(names)} for routes" if names else ""
        return f"clients of the remoting protocol connect to this broker at {self._identity.address}{routes}"


def _unknown(settings: Settings, listener: NamedListener, plugins: Plugins) -> str:
    key = LISTENERS_SETTING.key
    problem = f"{settings.source(key)}: {key}: {unknown_protocol(listener, plugins.protocols)}"
    if listener.protocol != GRPC:
        return f"{problem}; choose one of these, or install the plugin that has it"
    if GRPC_TO_INSTALL in plugins.left_out:
        return f"{problem}; the plugin {plugins.left_out[GRPC_TO_INSTALL]} is left out by plugins=, add it there"
    return f"{problem}; install the plugin with: {install_command(GRPC_TO_INSTALL)}"
