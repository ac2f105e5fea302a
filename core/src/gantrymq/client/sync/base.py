"""Base class of the producers, consumers, readers and admin clients for threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from gantrymq.client.connection.base import READY_TIMEOUT_S, BaseClient
from gantrymq.errors import ClientError

if TYPE_CHECKING:
    from gantrymq.client.sync.client import Client
    from gantrymq.client.sync.portal import Portal

__all__ = ["SyncBaseClient"]

Wrapped = TypeVar("Wrapped", bound=BaseClient)


class SyncBaseClient(Generic[Wrapped]):
    """A started client object of `gantrymq.client.sync.Client`; closed with it, or earlier by `close` or ``with``."""

    def __init__(self, client: Client, portal: Portal, wrapped: Wrapped) -> None:
        """Created only by `Client`: wraps *wrapped*, which runs in the event loop of *portal*."""
        self._client = client  # keeps the client alive as long as its parts
        self._own_portal = portal
        self._wrapped = wrapped

    @property
    def _portal(self) -> Portal:
        """The portal of the event loop. Raises ClientError: the object is closed."""
        if not self._wrapped.is_started:
            raise ClientError(f"this {type(self).__name__} is closed")
        return self._own_portal

    @property
    def is_started(self) -> bool:
        """Whether it is not closed yet."""
        return self._wrapped.is_started

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers in use."""
        return self._portal.call_sync(lambda: self._wrapped.name_servers)

    def set_name_servers(self, namesrv: str) -> None:
        """As `Client.set_name_servers`; affects everything that shares the connections."""
        self._portal.call_sync(lambda: self._wrapped.set_name_servers(namesrv))

    def wait_ready(self, topic: str | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """As `gantrymq.client.connection.base.BaseClient.wait_ready`."""
        self._portal.call(lambda: self._wrapped.wait_ready(topic, timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Finish work in progress and notify the brokers, within *timeout_s* seconds. May be called repeatedly.

        Does not wait for in-flight messages of the calling thread.
        """
        if self._client.is_started:
            self._client.close_wrapped(self._wrapped, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
