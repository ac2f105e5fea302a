"""Ends what clients have after users or permissions changed: connections, memberships, locks and held pulls.

RocketMQ checks a request only when it arrives: a consumer whose user is deleted keeps its queues until its next
heartbeat fails, and a held pull is answered with messages.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from gantrymq.broker.consuming.held_pulls import HeldPulls
from gantrymq.broker.counted_plugins import name_of
from gantrymq.broker.tables import Tables
from gantrymq.interfaces import ClientChannel
from gantrymq.model.access import Action, requirements
from gantrymq.world import Clock
from gantrymq.world.clock import TimeSlices

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.1  # after a change, since a script makes several of them
CHECKED_AT_ONCE: Final = 100  # connections


class Revocation:
    """Checks connections, memberships and held pulls again after `Access.forget`."""

    def __init__(self, tables: Tables, held: HeldPulls, clock: Clock) -> None:
        self._access, self._clients, self._locks = tables.access, tables.clients, tables.locks
        self._clock = clock
        self._wanted = False
        self._checking: asyncio.Task[None] | None = None
        tables.access.on_forgotten = self._changed
        tables.access.on_recheck(self._recheck_clients)
        tables.access.on_recheck(partial(held.recheck, tables.access.may_consume))

    async def stop(self) -> None:
        """Stop checking."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])

    def _changed(self) -> None:
        self._wanted = True
        if self._checking is None or self._checking.done():
            self._checking = asyncio.ensure_future(self._check_wanted())

    async def _check_wanted(self) -> None:
        while self._wanted:
            await self._clock.sleep(PAUSE_S)
            self._wanted = False
            for recheck in tuple(self._access.rechecks):
                try:
                    await recheck()
                except Exception:
                    log.exception("%s failed after a change of permissions", name_of(recheck))

    async def _recheck_clients(self) -> None:
        slices = TimeSlices(self._clock, CHECKED_AT_ONCE)
        for each in self._clients.connections():
            self._check(each.connection)
            await slices.item_done()

    def _check(self, connection: ClientChannel) -> None:
        invalid = self._access.lost_all_users(connection)
        for name in list(self._clients.groups_of(connection)[1]):
            group = self._clients.consumer_group(name)
            member = None if group is None else group.members.get(connection)
            if group is None or member is None or member.principal is None:
                continue
            needed = requirements(Action.SUB, topics=group.subscriptions, groups=(name,))
            if invalid or not self._access.allows(member.principal, needed):
                user = member.principal.name
                log.info("user %s may not consume any more: client %s leaves %s", user, member.client_id, name)
                self._locks.unlock(name, member.client_id, user=user)
                self._clients.unregister(connection, None, name)
        if invalid:
            log.info("%s is closed: its users are deleted or disabled", connection.address)
            self._clients.leave_all(connection)
            connection.close()
