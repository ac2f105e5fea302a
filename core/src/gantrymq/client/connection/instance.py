"""Client instance: connections, routes and heartbeats shared by the producers and consumers of one client id.

Heartbeats are sent by `registration`; routes are refreshed every 30 s. Closing the last producer or consumer closes the
instance. A group is registered once per instance.

Sources: apache/rocketmq client/.../impl/MQClientManager.java, client/.../impl/factory/MQClientInstance.java
(startScheduledTask).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

import attrs

from gantrymq.client.calls.client_ids import client_id, instance_name, local_address, unique_ids
from gantrymq.client.calls.connection_config import ConnectionConfig
from gantrymq.client.calls.credentials import Credentials, resolve_credentials, tls_of_environment
from gantrymq.client.calls.namespaces import Namespace, namespace_of_endpoint
from gantrymq.client.calls.outages import Outages
from gantrymq.client.calls.rpc import RpcClient
from gantrymq.client.calls.rpc_hooks import RpcHooks
from gantrymq.client.connection.broker_requests import BrokerRequests
from gantrymq.client.connection.registration import Registration
from gantrymq.client.errors import client_errors
from gantrymq.client.routing.address_server import ASK_EVERY_S, AddressServer, address_server
from gantrymq.client.routing.nameservers import NameServerList, given_namesrv, resolve_namesrv
from gantrymq.client.routing.route_cache import RouteCache
from gantrymq.errors import ClientError
from gantrymq.remoting.client import CLOSE_GRACE_S, RemotingClient
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World

logger = logging.getLogger(__name__)

_REFRESH_S = 30.0  # ClientConfig.pollNameServerInterval

_Key = tuple[asyncio.AbstractEventLoop, int, str, tuple[str, ...] | AddressServer, "SharedSettings"]
# instances in use, by loop, world, client id, name servers and connection settings
_shared: dict[_Key, ClientInstance] = {}


@attrs.frozen
class SharedSettings:
    """Connection settings that are equal for all clients of an instance."""

    tls: TlsClient | None = None
    namespace: str = ""
    namespace_v2: str = ""
    credentials: Credentials | None = None
    vip_channel: bool = False


async def acquire_instance(options: ConnectionConfig) -> ClientInstance:
    """Return a started instance; the caller gives it up with `ClientInstance.release`.

    Clients with the same name, name servers and connection settings share one instance; the default name is never
    shared.

    Raises:
        OptionUnusable: a name server's address is not host:port, a TLS setting or file cannot be used, or the
            environment holds only one of access key and secret key.
        InvalidParameter: the namespace is not legal.
        ConnectFailed, CallTimeout, AnswerUnreadable: the address server does not return the name servers.
    """
    world = options.world or _real_world(os.getpid())
    page = address_server(given_namesrv(options.namesrv, world.environ), options.unit_name)
    with client_errors():
        shared = _shared_settings(options, world)
        servers = resolve_namesrv(options.namesrv, world.environ) if page is None else await page.fetch(world)
    ip = options.client_ip or await local_address(world, servers)
    known_as = client_id(ip, instance_name(world, options.instance_name), options.unit_name)
    for gone in [key for key in _shared if key[0].is_closed()]:  # the loop was closed before its clients
        del _shared[gone]
    key = (asyncio.get_running_loop(), id(world), known_as, page or tuple(sorted(servers)), shared)
    found = _shared.get(key)
    if found is None:
        with client_errors():
            found = ClientInstance(
                world, servers, known_as, ip, options.instance_name, lambda: _shared.pop(key, None), shared
            )
        _shared[key] = found
        found.start(page)
    found.users += 1
    return found


def _shared_settings(options: ConnectionConfig, world: World) -> SharedSettings:
    tls = options.tls
    return SharedSettings(
        tls if isinstance(tls, TlsClient) else tls_of_environment(world.files, world.environ, tls),
        options.namespace or namespace_of_endpoint(given_namesrv(options.namesrv, world.environ)) or "",
        options.namespace_v2,
        resolve_credentials(options.credentials, world.environ),
        options.vip_channel,
    )


@cache
def _real_world(process_id: int) -> World:
    """Return the world of this process. A forked process has its own: process id, random numbers, worker threads."""
    from gantrymq.world.real import real_world

    return real_world()


class ClientInstance:
    """One client id; created by `acquire_instance`."""

    def __init__(
        self,
        world: World,
        servers: tuple[str, ...],
        known_as: str,
        address: str,
        name: str,
        last: Callable[[], object],
        shared: SharedSettings,
    ) -> None:
        """*name* is the instance name as given in the options; *last* is called when the last user leaves."""
        self.name = name
        self._last = last
        self.world = world
        self.client_id = known_as
        self.address = address
        self.users = 0
        self.ids = unique_ids(world, address)
        self.servers = NameServerList(servers, world.random)
        self._namespace = namespace = Namespace(shared.namespace) if shared.namespace else None
        self.unwrap = None if namespace is None else namespace.unwrap  # removes the namespace from a name
        self.broker_requests = BrokerRequests(namespace)  # handles requests from brokers
        self._remoting = RemotingClient(world, handler=self.broker_requests, tls=shared.tls)
        hooks = RpcHooks.needed(namespace, shared.namespace_v2, shared.credentials, shared.vip_channel)
        self.outages = Outages(world.clock)
        self.rpc = RpcClient(self._remoting, world.clock, hooks, self.outages)
        self.routes = RouteCache(
            *(self.rpc, self.servers, world.clock, self.outages),
            changed=lambda: self.registration.broker_found(),
            wrap=self.wrap_name,
            unwrap=self.unwrap_name,
        )
        self.registration = Registration(
            known_as, self._remoting, self.rpc, self.routes, world.clock, self.job, self.outages
        )
        self._jobs: list[asyncio.Task[None]] = []
        self._page: AddressServer | None = None

    def set_name_servers(self, addresses: tuple[str, ...]) -> None:
        """Use *addresses* from now on; connections to others are closed, and pending requests go to the next one.

        The address server, if any, is not queried any more.
        """
        self._page = None
        self._switch_name_servers(addresses)

    def _switch_name_servers(self, addresses: tuple[str, ...]) -> None:
        for gone in self.servers.update(addresses):
            self.rpc.disconnect(gone)

    def wrap_name(self, name: str) -> str:
        """Return the name of a topic or group as servers know it, for data that does not pass through `rpc`."""
        return name if self._namespace is None else self._namespace.wrap(name)

    def unwrap_name(self, name: str | None) -> str:
        """Return the name as the program knows it, for data that is not part of a response; empty for None."""
        return (name or "") if self.unwrap is None else self.unwrap(name or "")

    def start(self, page: AddressServer | None = None) -> None:
        """Start heartbeats and route refreshes, and poll *page* for other name servers."""
        self._page = page
        self._jobs = [self.job(self.registration.run()), self.job(self._refresh())]
        if page is not None:
            self._jobs.append(self.job(self._poll_address_server(page)))

    async def release(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Give up one use of the instance; the last one closes it, flushing for up to *grace_s* seconds."""
        self.users -= 1
        if self.users > 0:
            return
        self._last()
        self.registration.end()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await self.broker_requests.close()
        await self._remoting.close(min(grace_s, CLOSE_GRACE_S))
        await self.registration.ended()

    async def _poll_address_server(self, page: AddressServer) -> None:
        while True:
            await self.world.clock.sleep(ASK_EVERY_S)
            try:
                addresses = await page.fetch(self.world)
            except ClientError as problem:
                logger.warning("%s; the name servers are not changed", problem)
                continue
            if self._page is None:
                return
            if set(addresses) != set(self.servers.addresses):
                logger.info("using name servers %s from now on, as listed by %s", ", ".join(addresses), page)
                self._switch_name_servers(addresses)

    async def _refresh(self) -> None:
        while True:
            await self.world.clock.sleep(_REFRESH_S)
            await self.routes.refresh_all()

    def job(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task for *work*, which runs until cancelled; an exception is logged as a bug."""
        job = asyncio.get_running_loop().create_task(work)
        job.add_done_callback(_report)
        return job


def _report(job: asyncio.Task[None]) -> None:
    """Log a job that ended other than by cancellation, with its traceback."""
    if job.cancelled():
        if not job.cancelling():  # it raised CancelledError itself, without being cancelled
            logger.error("a background job of the client ended by a CancelledError: %r", job.get_coro())
    elif (error := job.exception()) is not None:
        logger.error("a background job of the client ended", exc_info=error)
