"""Name servers, as run by the command line. They serve topic routes to clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gantrymq.config import Setting, Settings
from gantrymq.world import World


class NameServer(Protocol):
    """A name server in this process."""

    @property
    def listeners(self) -> Mapping[str, tuple[str, int]]:
        """Addresses of the open listeners besides the main one, by name (setting ``listeners``)."""

    async def start(self, *, held: bool = False) -> tuple[str, int]:
        """Listen, and return host and port; for port 0 the actual port.

        With *held*, clients can connect, but their requests wait until `release`, so that the broker of the same
        process can start first.

        Raises:
            ConfigError: the address cannot be listened on.
        """

    def release(self) -> None:
        """Start to serve requests."""

    async def stop(self) -> None:
        """Stop serving and close all connections; does nothing if not started."""


class NameServerKind(Protocol):
    """A name server implementation of a plugin: its settings and a factory."""

    name: str

    def settings(self) -> Sequence[Setting]:
        """Return the declarations of all its settings.

        The commands set the following ones, so they are required: ``bindAddress`` and ``listenPort``; ``kvConfigPath``,
        the file for the key-value configuration; ``configStorePath``, which shows the file of ``-c``;
        `gantrymq.remoting.listeners.LISTENERS_SETTING`; and `gantrymq.remoting.admission.ADMISSION_SETTINGS` (TLS,
        proxies), which ``gantrymq start`` passes to both servers.
        """

    def build(self, world: World, settings: Settings, *, beside_broker: bool, access: Any = None) -> NameServer:
        """Return a name server that is not listening yet.

        Args:
            settings: values for the schema of `settings`.
            beside_broker: a broker in this process needs most of its file descriptors.
            access: checks requests (`gantrymq.plugin.remoting.ServerAccess`); None without the setting ``authorizer``,
                which a name server may have together with ``accessPath`` and ``brokerClusterName``.

        Raises:
            ConfigError: a file named in the settings cannot be used.
        """
