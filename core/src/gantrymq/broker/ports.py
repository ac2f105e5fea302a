"""The two ports of a broker: the listen port and the fast port for clients with ``vipChannelEnabled=true``.

    listenPort        all clients
    listenPort - 2    the same requests; these clients subtract 2 from the port in the route

Source: apache/rocketmq broker/.../BrokerController.java (initializeRemotingServer), common/.../MixAll.java
(brokerVIPChannel). RocketMQ's fast port serves no pulls, and clients send none to it; here it serves them.
"""

from __future__ import annotations

import errno

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.server import RemotingServer

FAST_BELOW = 2  # difference between listen port and fast port
_TRIES = 100  # attempts to find a free port with a free fast port


class Ports:
    """The ports of one *server*."""

    def __init__(self, server: RemotingServer, settings: Settings) -> None:
        """Create the object without opening a port."""
        self._server = server
        self._host = settings.text("bindAddress")
        self._port = settings.number("listenPort")
        self._fast = settings.flag("fastPortEnable")
        self._another = settings.how_to_set("listenPort", "PORT")

    async def listen(self) -> tuple[str, int]:
        """Bind both ports and return the address of the listen port. Requests wait until the server's `release`.

        Raises:
            ConfigError: a port is in use, or the address does not belong to this host.
        """
        for left in reversed(range(1 if self._port else _TRIES)):
            bound = await self._bind(self._port, "", f"choose another port with {self._another} (0 picks a free one)")
            if not self._fast or bound[1] <= FAST_BELOW:
                break
            try:
                await self._bind(
                    bound[1] - FAST_BELOW,
                    f" (listenPort - {FAST_BELOW}, for clients with vipChannelEnabled=true)",
                    f"choose another with {self._another}, or disable it with --set fastPortEnable=false",
                )
                break
            except ConfigError:
                await self._server.stop()
                if not left:
                    raise
        return bound

    async def _bind(self, port: int, what: str, advice: str) -> tuple[str, int]:
        host = self._host
        try:
            return await self._server.start(host, port, held=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigError(
                    f"port {port} on {host}{what} is taken by another process; stop it, or {advice}"
                ) from error
            other = "" if error.errno == errno.EACCES else "; set bindAddress to an address of this host"
            raise ConfigError(f"cannot listen on {host} port {port}{what}: {error.strerror or error}{other}") from error
