"""Membership of brokers: registrations at once, unregistrations in batches, silent brokers by a timer.

Unregistrations are processed at the end of the event loop's turn, so that a hundred connections that break together
need one pass over the topics. A registration first processes pending unregistrations, so that they cannot undo it.

Source: apache/rocketmq namesrv/.../routeinfo/{RouteInfoManager,BatchUnregistrationService,
BrokerHousekeepingService}.java.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from gantrymq.errors import RequestError
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Clock, Timer, monotonic_ms
from gantrymq_nameserver.notices import MinBrokerIdChange
from gantrymq_nameserver.registration import Registration, RegistrationResult, register
from gantrymq_nameserver.tables import BrokerAddress, RouteTables
from gantrymq_nameserver.unregistration import (
    Unregistration,
    expired,
    forget,
    registered_on,
    unregister,
    unregistration_of,
)

log = logging.getLogger(__name__)


@runtime_checkable
class Closable(Protocol):
    """A connection that can be closed."""

    def close(self) -> None:
        """Close the connection. Idempotent."""


class Membership:
    """Changes the tables as brokers come and go.

    Args:
        notify: called with each notice to send.
    """

    def __init__(
        self, tables: RouteTables, settings: Settings, clock: Clock, notify: Callable[[MinBrokerIdChange], None]
    ) -> None:
        self._tables = tables
        self._settings = settings
        self._clock = clock
        self._notify_brokers = notify
        self._leaving: list[Unregistration] = []
        self._drain_timer: Timer | None = None

    def register(self, registration: Registration) -> RegistrationResult:
        """Apply a registration. Raises as `gantrymq_nameserver.registration.register`."""
        self.drain()
        delete_missing = self._settings.flag("deleteTopicWithBrokerRegistration")
        answer = register(self._tables, registration, monotonic_ms(self._clock), delete_missing=delete_missing)
        if answer.change is not None:
            self._notify([answer.change])
        return answer

    def submit(self, leaving: Unregistration) -> None:
        """Queue a broker for unregistration.

        Raises:
            RequestError: unRegisterBrokerQueueCapacity brokers wait already.
        """
        capacity = self._settings.number("unRegisterBrokerQueueCapacity")
        if len(self._leaving) >= capacity:
            raise RequestError(
                f"{capacity} brokers wait to be unregistered; {leaving.address} cannot be added, try again"
            )
        self._leaving.append(leaving)
        if self._drain_timer is None:
            self._drain_timer = self._clock.call_later(0, self.drain)

    def drain(self) -> None:
        """Unregister all queued brokers."""
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
        if self._leaving:
            batch, self._leaving = self._leaving, []
            self._notify(unregister(self._tables, batch))

    def close(self) -> None:
        """Discard queued unregistrations: the name server has stopped."""
        self._leaving.clear()
        self.drain()

    def drop_silent(self) -> None:
        """Close the connections of brokers that were silent for too long, and unregister them."""
        for key in expired(self._tables, monotonic_ms(self._clock)):
            live = self._tables.live[key]
            log.warning("broker at %s of cluster %s was silent for %d ms", key.address, key.cluster, live.timeout_ms)
            if isinstance(live.connection, Closable):
                live.connection.close()
            self._leave(key)

    def connection_closed(self, connection: object) -> None:
        """Unregister every broker that last registered over *connection*."""
        for key in registered_on(self._tables, connection):
            log.info("broker at %s of cluster %s: its connection closed", key.address, key.cluster)
            self._leave(key)

    def _leave(self, key: BrokerAddress) -> None:
        leaving = unregistration_of(self._tables, key)
        if leaving is None:
            forget(self._tables, key)
            return
        if len(self._leaving) >= self._settings.number("unRegisterBrokerQueueCapacity"):
            self.drain()
        self.submit(leaving)

    def _notify(self, changes: list[MinBrokerIdChange]) -> None:
        if self._settings.flag("notifyMinBrokerIdChanged"):
            for change in changes:
                self._notify_brokers(change)
