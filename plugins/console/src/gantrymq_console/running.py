"""A console that listens: its client, its application and its port."""

from __future__ import annotations

from gantrymq.client import Client
from gantrymq.interfaces import Broker
from gantrymq.model.hosts import format_address
from gantrymq.world import World
from gantrymq_console.access.audit import Audit, MemoryAudit
from gantrymq_console.access.users import Everyone, Identities
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.parts import PARTS
from gantrymq_console.web.app import App
from gantrymq_console.web.console import Console, Exposure
from gantrymq_console.web.http_server import HttpServer

__all__ = ["RunningConsole", "for_broker"]


class RunningConsole:
    """One console, from `start` to `stop`."""

    def __init__(self, world: World, namesrv: str, identities: Identities, audit: Audit, exposure: Exposure) -> None:
        self._client = Client(namesrv, world=world)
        self._cluster = Cluster(self._client, world)
        self.console = Console(self._cluster, world, identities, audit, exposure, PARTS, namesrv)
        self._server = HttpServer(App(self.console), world)

    async def start(self, host: str, port: int) -> str:
        """Start, and return the address for browsers.

        Raises:
            OSError: the port is in use or the address is not local.
            ClientError: the client cannot be started.
        """
        await self._client.start()
        try:
            bound = await self._server.start(host, port)
        except BaseException:
            await self._client.close()
            raise
        scheme = "https" if self.console.exposure.secure else "http"
        return f"{scheme}://{format_address(*bound)}/"

    async def stop(self) -> None:
        """Stop. Idempotent."""
        await self._server.stop()
        await self.console.jobs.close()
        await self._cluster.close()
        await self._client.close()


def for_broker(broker: Broker) -> RunningConsole:
    """Return the console of the service in a broker's process, which asks the broker's name servers."""
    namesrv = broker.settings.text("namesrvAddr")
    return RunningConsole(broker.world, namesrv, Everyone(), MemoryAudit(), Exposure())
