"""What producers, consumers, readers and administration of threads have in common."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from gantrymq.client.base import READY_TIMEOUT_S, BaseClient
from gantrymq.errors import ClientError

if TYPE_CHECKING:
    from gantrymq.client.sync.client import Client
    from gantrymq.client.sync.portal import Portal

__all__ = ["SyncBaseClient"]

Wrapped = TypeVar("Wrapped", bound=BaseClient)


class SyncBaseClient(Generic[Wrapped]):
    """One of what a `gantrymq.client.sync.Client` makes, started; closed with it, or by `close` or ``with`` before."""

    def __init__(self, client: Client, portal: Portal, wrapped: Wrapped) -> None:
        """Made by a `Client` alone: for *made*, which lives on the loop of *thread*."""
        self._client = client  # lives as long as its parts
        self._own_portal = portal
        self._wrapped = wrapped

    @property
    def _portal(self) -> Portal:
        """Where it lives. Raises ClientError: it is closed."""
        if not self._wrapped.is_started:
            raise ClientError(f"this {type(self).__name__} is closed")
        return self._own_portal

    @property
    def is_started(self) -> bool:
        """Whether it was not closed yet."""
        return self._wrapped.is_started

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers that are asked."""
        return self._portal.call_sync(lambda: self._wrapped.name_servers)

    def set_name_servers(self, namesrv: str) -> None:
        """As `Client.set_name_servers`: of all that share the connections."""
        self._portal.call_sync(lambda: self._wrapped.set_name_servers(namesrv))

    def wait_ready(self, topic: str | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """As `gantrymq.client.base.BaseClient.wait_ready`."""
        self._portal.call(lambda: self._wrapped.wait_ready(topic, timeout_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Finish what is under way and tell the brokers, within *timeout_s* seconds; harmless when repeated.

        What the calling thread has in hand itself is not waited for.
        """
        if self._client.is_started:
            self._client.close_wrapped(self._wrapped, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
