"""The two ports of a broker: its own, and the fast one below it, where clients with ``vipChannelEnabled=true`` go.

    listenPort        everybody
    listenPort - 2    the same requests, from those clients: routes name the first port, they subtract by themselves

Source: apache/rocketmq broker/.../BrokerController.java (initializeRemotingServer), common/.../MixAll.java
(brokerVIPChannel). There the fast port does not serve pulls, which clients do not send to it; here it does.
"""

from __future__ import annotations

import errno

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.server import RemotingServer

__all__ = ["Ports"]

FAST_BELOW = 2  # the fast port is so far below the other
TRIES = 100  # free ports that are looked at, for one with a free fast port


class Ports:
    """Both, which one *server* serves."""

    def __init__(self, server: RemotingServer, settings: Settings) -> None:
        """Nothing is open yet."""
        self._server = server
        self._host = settings.text("bindAddress")
        self._port = settings.number("listenPort")
        self._fast = settings.flag("fastPortEnable")
        self._another = settings.how_to_set("listenPort", "PORT")

    async def listen(self) -> tuple[str, int]:
        """Bind them and return the address of the broker's own; what clients ask waits until the server's `release`.

        Raises:
            ConfigError: a port is taken, or the address is not of this host.
        """
        for left in reversed(range(1 if self._port else TRIES)):
            bound = await self._bind(self._port, "", f"choose another port with {self._another} (0 picks a free one)")
            if not self._fast or bound[1] <= FAST_BELOW:
                break
            try:
                await self._bind(
                    bound[1] - FAST_BELOW,
                    f" (listenPort - {FAST_BELOW}, for clients with vipChannelEnabled=true)",
                    f"choose another with {self._another}, or have no such clients with --set fastPortEnable=false",
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
            raise ConfigError(f"cannot listen on {host} port {port}{what}: {error.strerror or error}") from error
