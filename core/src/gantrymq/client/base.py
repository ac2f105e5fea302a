"""What producers, consumers and admin tools have in common: they join a client instance and leave it again.

Used as ``async with``; between `start` and `close` the instance is there, otherwise a call says what is missing.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from gantrymq.client.identity import DEFAULT_INSTANCE
from gantrymq.client.instance import ClientInstance, join
from gantrymq.errors import ClientError
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World


class BaseClient:
    """Joins an instance at start, leaves it at close; what is registered with it is the subclass's affair."""

    def __init__(
        self,
        namesrv: str | None,
        world: World | None,
        instance_name: str = DEFAULT_INSTANCE,
        unit_name: str = "",
        client_ip: str | None = None,
        tls: bool | TlsClient | None = None,
    ) -> None:
        """Nothing is opened before `start`. Arguments as for `gantrymq.client.instance.join`."""
        self._namesrv = namesrv
        self._given_world = world
        self._known_as = (instance_name, unit_name, client_ip)
        self._tls = tls
        self._instance: ClientInstance | None = None

    async def start(self) -> None:
        """Join (or make) the client's instance and begin heartbeats; harmless when repeated.

        Raises:
            ConfigError: a name server's address is not host:port, or a setting of TLS cannot be used.
            ClientError: the group is already in use by the same instance.
        """
        if self._instance is not None:
            return
        name, unit, address = self._known_as
        instance = await join(
            self._namesrv, self._given_world, instance=name, unit=unit, address=address, tls=self._tls
        )
        try:
            self._register(instance)
        except ClientError:
            await instance.leave()
            raise
        self._instance = instance

    async def close(self) -> None:
        """Finish what is under way, tell the brokers, close what nobody else uses; harmless when repeated."""
        if self._instance is None:
            return
        await self._finish()
        instance, self._instance = self._instance, None
        if instance is not None:
            await self._unregister(instance)
            await instance.leave()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _register(self, instance: ClientInstance) -> None:
        """Make the client's group known to *instance*. Raises ClientError: it is in use there already."""

    async def _finish(self) -> None:
        """Wait for what is under way."""

    async def _unregister(self, instance: ClientInstance) -> None:
        """Tell the brokers that the client leaves its group."""

    def _started(self) -> ClientInstance:
        """The instance. Raises ClientError: `start` was not called, or `close` was."""
        if self._instance is None:
            name = type(self).__name__
            raise ClientError(f"this {name} is not started; use 'async with {name}(...)' or start()")
        return self._instance
