"""Connected producers and consumers by group, registered by their heartbeats.

A member is a connection: a client with two connections counts twice until the older one is closed.

Source: apache/rocketmq broker/.../client/ConsumerManager.java, ConsumerGroupInfo.java, ProducerManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set

import attrs

from gantrymq.interfaces.connection import Connection
from gantrymq.model.subscription import Subscription

BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"


@attrs.define(eq=False)
class Member:
    """One connection of one client in one group."""

    connection: Connection
    client_id: str
    language: str  # enum name
    version: int  # of the client's protocol
    heard_ms: int  # time of the last heartbeat, wall clock


@attrs.define
class ConsumerGroup:
    """The members of a consumer group and their subscriptions."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[Connection, Member] = attrs.field(factory=dict)
    subscriptions: dict[str, Subscription] = attrs.field(factory=dict)
    fingerprint: int = 0  # of the last full version 2 heartbeat

    def subscribe(self, wanted: Iterable[Subscription]) -> bool:
        """Update the subscriptions from a heartbeat. Return True if a topic was added or removed."""
        changed = False
        topics = set()
        for subscription in wanted:
            topics.add(subscription.topic)
            known = self.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
            if known is None or subscription.version > known.version:
                self.subscriptions[subscription.topic] = subscription
        for topic in [topic for topic in self.subscriptions if topic not in topics]:
            del self.subscriptions[topic]
            changed = True
        return changed

    def client_ids(self) -> list[str]:
        """Return the client ids in order of registration."""
        return [member.client_id for member in self.members.values()]


class ClientTable:
    """Online producer and consumer groups.

    Listeners (`on_change`) are called when the members or subscribed topics of a consumer group change.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._now_ms = monotonic_ms
        self._heard: dict[Connection, int] = {}  # time of the last heartbeat
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Member]] = {}
        self._produces: dict[Connection, set[str]] = {}  # the producer groups of a connection
        self._consumes: dict[Connection, set[str]] = {}
        self._by_client_id: dict[str, dict[Connection, Member]] = {}  # producers, in order of registration
        self._named: dict[Connection, str] = {}  # client ids of producers
        self._listeners: list[Callable[[ConsumerGroup], None]] = []

    def on_change(self, listener: Callable[[ConsumerGroup], None]) -> None:
        """Call *listener* with the group after each change."""
        self._listeners.append(listener)

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """Return the online group, or None."""
        return self._consumers.get(group)

    def consumer_groups(self) -> Sequence[ConsumerGroup]:
        """Return all online consumer groups."""
        return list(self._consumers.values())

    def producers(self, group: str) -> Sequence[Member]:
        """Return the members of a producer group."""
        return list(self._producers.get(group, {}).values())

    def producer(self, client_id: str) -> Member | None:
        """Return the producer with this client id; the most recent one if there are several."""
        found = self._by_client_id.get(client_id)
        return next(reversed(found.values())) if found else None

    def producer_groups(self) -> dict[str, Sequence[Member]]:
        """Return all online producer groups."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def groups_of(self, connection: Connection) -> tuple[Set[str], Set[str]]:
        """Return the producer groups and the consumer groups of a connection."""
        return self._produces.get(connection, frozenset()), self._consumes.get(connection, frozenset())

    def register_producer(self, group: str, member: Member) -> None:
        """Register a producer's heartbeat."""
        self._heard[member.connection] = self._now_ms()
        self._produces.setdefault(member.connection, set()).add(group)
        self._producers.setdefault(group, {})[member.connection] = member
        named = self._named.get(member.connection)
        if named is not None and named != member.client_id:
            self._forget_name(member.connection)
        self._named[member.connection] = member.client_id
        self._by_client_id.setdefault(member.client_id, {})[member.connection] = member

    def register_consumer(
        self,
        group: str,
        member: Member,
        *,
        consume_type: str,
        message_model: str,
        consume_from_where: str,
        subscriptions: Iterable[Subscription] | None,
    ) -> bool:
        """Register a consumer's heartbeat. Return True if listeners were called.

        *subscriptions*: None keeps the known ones.
        """
        self._heard[member.connection] = self._now_ms()
        known = self._consumers.setdefault(group, ConsumerGroup(group))
        known.consume_type = consume_type
        known.message_model = message_model
        known.consume_from_where = consume_from_where
        joined = member.connection not in known.members
        self._consumes.setdefault(member.connection, set()).add(group)
        known.members[member.connection] = member
        changed = subscriptions is not None and known.subscribe(subscriptions)
        if joined or changed:
            self._tell(known)
        return joined or changed

    def unregister(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a connection from the given groups."""
        if producer_group:
            self._leave_producers(producer_group, connection)
        if consumer_group:
            self._leave_consumers(consumer_group, connection)

    def connection_lost(self, connection: Connection) -> None:
        """Remove a closed connection from all groups."""
        for group in list(self._produces.get(connection, ())):
            self._leave_producers(group, connection)
        for group in [group for group in self._consumers if group in self._consumes.get(connection, ())]:
            self._leave_consumers(group, connection)

    def silent(self, older_than_ms: int) -> list[Connection]:
        """Return the connections with a last heartbeat more than *older_than_ms* ago."""
        limit = self._now_ms() - older_than_ms
        return [connection for connection, at in self._heard.items() if at < limit]

    def _leave_producers(self, group: str, connection: Connection) -> None:
        self._forget(self._produces, connection, group)
        if connection in self._named and connection not in self._produces:
            self._forget_name(connection)
        members = self._producers.get(group)
        if members is not None and members.pop(connection, None) is not None and not members:
            del self._producers[group]

    def _forget_name(self, connection: Connection) -> None:
        client_id = self._named.pop(connection)
        known = self._by_client_id[client_id]
        del known[connection]
        if not known:
            del self._by_client_id[client_id]

    def _leave_consumers(self, group: str, connection: Connection) -> None:
        self._forget(self._consumes, connection, group)
        known = self._consumers.get(group)
        if known is None or known.members.pop(connection, None) is None:
            return
        if not known.members:
            del self._consumers[group]
        self._tell(known)

    def _forget(self, groups_of: dict[Connection, set[str]], connection: Connection, group: str) -> None:
        """Remove *group* from the groups of *connection*, and the connection if it is in no group."""
        groups = groups_of.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del groups_of[connection]
        if connection not in self._produces and connection not in self._consumes:
            self._heard.pop(connection, None)

    def _tell(self, group: ConsumerGroup) -> None:
        for listener in self._listeners:
            listener(group)
