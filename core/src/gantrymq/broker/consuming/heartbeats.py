"""Heartbeats of clients and the registration of group members.

Source: apache/rocketmq broker/.../processor/ClientManageProcessor.java (heartBeat), client/ConsumerManager.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.clients import Member
from gantrymq.errors import RequestRefused
from gantrymq.interfaces import Connection, Heartbeat
from gantrymq.model import names
from gantrymq.world import Clock

__all__ = ["MAX_GROUPS", "MAX_GROUP_LENGTH", "Heartbeats"]

MAX_GROUPS: Final = 1000  # per connection and kind; clients have a few, and RocketMQ has no limit
MAX_GROUP_LENGTH: Final = 10_000  # characters; RocketMQ's clients allow 255, its broker has no limit


class Heartbeats:
    """Processor of heartbeats."""

    def __init__(self, clock: Clock, tables: Tables) -> None:
        self._clock = clock
        self._topics = tables.topics
        self._groups = tables.groups
        self._clients = tables.clients
        self.checks: list[Callable[[Heartbeat, Connection], object]] = []  # by plugins, see `Broker.on_heartbeat`

    def heartbeat(self, heartbeat: Heartbeat, connection: Connection) -> bool:
        """Register a client in its groups. Return whether its next heartbeat must have the full subscriptions.

        Raises:
            RequestRefused: code 1, the connection would be in too many groups; the client joins none of them.
            GantryError: a plugin refuses the heartbeat; the client joins no group.
        """
        self._check_count(heartbeat, connection)
        for check in self.checks:
            check(heartbeat, connection)
        fingerprint = heartbeat.fingerprint
        member = Member(connection, heartbeat.client_id, heartbeat.language, heartbeat.version, self._clock.now_ms())
        changed = fingerprint == 0
        for group, consume_type, message_model, from_where, unit_mode, subscriptions in heartbeat.consumers:
            config = self._groups.find(group)
            if config is None:
                continue
            ordered = any(self._topics.is_ordered(each.topic) for each in subscriptions or ())
            self._topics.create_retry(names.retry_topic(group), config.retry_queues, unit=unit_mode, ordered=ordered)
            online = self._clients.consumer_group(group)
            if fingerprint and (online is None or online.fingerprint != fingerprint):
                changed = True
            self._clients.register_consumer(
                group,
                member,
                consume_type=consume_type,
                message_model=message_model,
                consume_from_where=from_where,
                subscriptions=subscriptions,
            )
            online = self._clients.consumer_group(group)
            if online is not None and subscriptions is not None:
                online.fingerprint = fingerprint
        for group in heartbeat.producers:
            self._clients.register_producer(group, member)
        return changed

    def _check_count(self, heartbeat: Heartbeat, connection: Connection) -> None:
        in_producers, in_consumers = self._clients.groups_of(connection)
        consumers = [each.group for each in heartbeat.consumers]
        for what, wanted, known in (
            ("producer", heartbeat.producers, in_producers),
            ("consumer", consumers, in_consumers),
        ):
            count = len(known | set(wanted))
            if count > MAX_GROUPS:
                raise RequestRefused(1, f"a connection may be in {MAX_GROUPS} {what} groups, not in {count}")
            longest = max(map(len, wanted), default=0)
            if longest > MAX_GROUP_LENGTH:
                raise RequestRefused(
                    1, f"a {what} group's name has {longest} characters, the limit is {MAX_GROUP_LENGTH}"
                )
