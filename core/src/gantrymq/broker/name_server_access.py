"""Access control of a name server, by the authorizers of brokers: ``authorizer=NAME`` in namesrv.conf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gantrymq.broker.access import AccessControl
from gantrymq.broker.parts import select_authorizer
from gantrymq.broker.wire.request_access import RequestAccess
from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.plugins import Plugins
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.serving import AccessRule
from gantrymq.world import World


class NameServerAccess:
    """Checks the requests of one name server; `gantrymq.remoting.serving.ServerAccess`.

    The authorizer is started with this object instead of a broker: it has only `world`, `settings` and `access`.
    """

    def __init__(self, world: World, settings: Settings, plugins: Plugins) -> None:
        """Create the authorizer that *settings* select; it reads its files in ``accessPath``.

        Raises:
            PluginError: no installed plugin offers it.
            ConfigError: ``accessPath`` is empty, or a setting of the authorizer cannot be used.
        """
        folder = settings.text("accessPath")
        if not folder:
            raise ConfigError(
                f"{settings.source('authorizer')}: authorizer={settings.text('authorizer')} needs the files of its "
                "users: set accessPath to the folder that has them, such as store/config of a broker"
            )
        self.world, self.settings = world, settings
        self._authorizer: Any = select_authorizer(world, settings, plugins, Path(folder), writable=False)
        self.access = AccessControl(self._authorizer, settings.text("brokerClusterName"), _uncounted)
        self._requests = RequestAccess(self.access)

    async def start(self) -> None:
        """Start the authorizer. Raises as that does."""
        if hasattr(self._authorizer, "start"):
            await self._authorizer.start(self)

    async def stop(self) -> None:
        """Refuse the requests whose sender is not identified yet, and stop the authorizer."""
        await self._requests.close()
        if hasattr(self._authorizer, "stop"):
            await self._authorizer.stop()

    def admitted(self, asked: Command, connection: Connection, rule: AccessRule) -> bool:
        """Check a request; False if its sender is not identified yet."""
        return self._requests.admitted(asked, connection, rule)


def _uncounted(*_: object) -> None:
    """Count nothing: a name server has no metrics."""
