"""Several name servers and brokers of ours, by default two of each, which a test kills and restarts.

A restarted server has the same port and folder, so that clients and other servers find it again.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from polling import wait_until

from harness.gantry_server import GantryServer
from harness.ports import free_port
from harness.probe import route_of

AGAIN_S = 60.0  # a broker asks a lost name server again after at most 10 s here, a client after 30 s
NAME_SERVERS = ("namesrv-1", "namesrv-2")
BROKERS = ("broker-a", "broker-b")


class GantryCluster:
    """The servers of `DefaultCluster`, all running when the constructor returns.

    Args:
        scratch: each server gets its own folder below it.
        names: of the servers; those of name servers begin with ``namesrv``.
        namesrv_settings: of all name servers.
        broker_settings: of all brokers.
        environ: additional environment variables of all servers.
    """

    def __init__(
        self,
        scratch: Path,
        *,
        names: Iterable[str] = (*NAME_SERVERS, *BROKERS),
        namesrv_settings: Mapping[str, str] | None = None,
        broker_settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._scratch = scratch
        self._namesrv_settings = dict(namesrv_settings or {})
        self._broker_settings = dict(broker_settings or {})
        self._environ = environ
        self._ports = {name: free_port(also_below=2) for name in names}
        self._servers: dict[str, GantryServer] = {}
        with ExitStack() as opening:
            opening.callback(self.stop)
            self.heal()
            opening.pop_all()

    @property
    def namesrvs(self) -> tuple[str, ...]:
        """HOST:PORT of each name server, running or not."""
        return tuple(self.address(name) for name in self._ports if name.startswith("namesrv"))

    @property
    def namesrv(self) -> str:
        """The addresses of all name servers in the format for clients."""
        return ";".join(self.namesrvs)

    @property
    def brokers(self) -> tuple[str, ...]:
        """Names of the brokers, running or not."""
        return tuple(name for name in self._ports if not name.startswith("namesrv"))

    def address(self, name: str) -> str:
        """HOST:PORT of the server *name*, running or not."""
        return f"127.0.0.1:{self._ports[name]}"

    def server(self, name: str) -> GantryServer:
        """The running server *name*."""
        return self._servers[name]

    def start(self, name: str, settings: Mapping[str, str] | None = None) -> GantryServer:
        """Start the server *name* in its previous folder, at its previous port."""
        port, folder = self._ports[name], self._scratch / name
        if name.startswith("namesrv"):
            server = GantryServer.name_server(folder, port=port, settings=self._namesrv_settings, environ=self._environ)
        else:
            own = {"brokerName": name, "listenPort": str(port), "registerNameServerPeriod": "10000"}
            all_settings = {**own, **self._broker_settings, **(settings or {})}
            server = GantryServer.broker(folder, self.namesrv, settings=all_settings, environ=self._environ)
        self._servers[name] = server
        return server

    def kill(self, name: str) -> None:
        """Send SIGKILL to the server *name*."""
        self._servers.pop(name).kill()

    def stop_one(self, name: str) -> None:
        """Stop the server *name* regularly."""
        assert self._servers.pop(name).stop() == 0

    def heal(self) -> None:
        """Start all stopped servers and wait until every name server knows every broker."""
        for name in self._ports:
            if name not in self._servers:
                self.start(name)
        for address in self.namesrvs:
            self.wait_for_route("TBW102", lambda route: all(name in route for name in self.brokers), address)

    def wait_for_route(self, topic: str, look: Callable[[str], bool], address: str) -> str:
        """Wait until the name server at *address* has a route for *topic* that *look* accepts, and return the route."""

        def found() -> str | None:
            route = route_of(address, topic)
            return route if route and look(route) else None

        return wait_until(found, f"the route of {topic} wanted at {address}", AGAIN_S) or ""

    def stop(self) -> None:
        """Stop all running servers, brokers first."""
        with ExitStack() as stack:
            for server in self._servers.values():
                stack.callback(server.stop)
            self._servers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
