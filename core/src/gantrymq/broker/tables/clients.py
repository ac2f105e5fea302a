"""Connected producers and consumers by group, registered by their heartbeats.

A member is a connection: a client with two connections counts twice until the older one is closed.

Source: apache/rocketmq broker/.../client/ConsumerManager.java, ConsumerGroupInfo.java, ProducerManager.java,
broker/.../processor/ClientManageProcessor.java (heartBeat).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import chain
from typing import Final

import attrs

from gantrymq.broker.counted_plugins import CountFailure, Listeners, counted, name_of
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import GantryError, RequestRefused
from gantrymq.interfaces import ClientChannel, ClientConnection, Heartbeat, HeartbeatRefusal, OnlineClient
from gantrymq.model import names
from gantrymq.model.subscription import Subscription
from gantrymq.world import Clock
from gantrymq.world.clock import monotonic_ms

BROADCASTING = "BROADCASTING"
CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
MAX_GROUPS: Final = 1000  # per connection and kind; clients have a few, and RocketMQ has no limit
MAX_REFUSED_GROUPS: Final = 20  # kept of a refused heartbeat
MAX_REASON: Final = 1000  # characters
MAX_SHARED: Final = 1000  # client ids of several users, each of which is reported once
MAX_GROUP_LENGTH: Final = 10_000  # characters; RocketMQ's clients allow 255, its broker has no limit


log = logging.getLogger(__name__)


def _shared_id(client_id: str, users: Sequence[str]) -> str:
    return (
        f"producers of the users {' and '.join(users)} have the client id {client_id}, so replies for it are refused; "
        "set an instance name for each of them"
    )


@attrs.define
class ConsumerGroup:
    """The members of a consumer group and their subscriptions."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    members: dict[ClientChannel, OnlineClient] = attrs.field(factory=dict)
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
    """Online producer and consumer groups; `gantrymq.interfaces.Clients`."""

    def __init__(
        self,
        clock: Clock,
        topics: TopicTable,
        groups: GroupTable,
        failed: CountFailure = lambda kind, name: None,
    ) -> None:
        """*failed* counts exceptions of listeners."""
        self._clock = clock
        self._now_ms = partial(monotonic_ms, clock)
        self._topics = topics
        self._groups = groups
        self._failed = failed
        self._since: dict[ClientChannel, int] = {}  # open connections with the time of their first request
        self._heard: dict[ClientChannel, int] = {}  # time of the last heartbeat
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[ClientChannel, OnlineClient]] = {}
        self._produces: dict[ClientChannel, set[str]] = {}  # the producer groups of a connection
        self._consumes: dict[ClientChannel, set[str]] = {}
        self._by_client_id: dict[str, dict[ClientChannel, OnlineClient]] = {}  # producers, in order of registration
        self._refused: dict[ClientChannel, HeartbeatRefusal] = {}  # by connection whose last heartbeat was refused
        self._shared: set[str] = set()  # reported client ids of several users
        self._named: dict[ClientChannel, str] = {}  # client ids of producers
        self._checks: dict[Callable[[Heartbeat, ClientChannel], object], None] = {}
        self._gone = Listeners[[ClientChannel]]("closed connections", failed)
        self._changed = Listeners[[str]]("changed consumer groups", failed)

    def on_heartbeat(self, check: Callable[[Heartbeat, ClientChannel], object]) -> Callable[[], None]:
        """Call *check* with each heartbeat; it may refuse it."""
        added = counted(check, partial(self._failed, "listener", name_of(check)))
        self._checks[added] = None
        return lambda: self._checks.pop(added, None)

    def on_gone(self, callback: Callable[[ClientChannel], object]) -> Callable[[], None]:
        """Call *callback* with each closed connection."""
        return self._gone.add(callback)

    def on_group_changed(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call *callback* with a consumer group after its members or topics change."""
        return self._changed.add(callback)

    def heartbeat(self, heartbeat: Heartbeat, connection: ClientChannel) -> bool:
        """Register a client in its groups."""
        try:
            self._check_count(heartbeat, connection)
            for check in tuple(self._checks):
                check(heartbeat, connection)
        except GantryError as error:
            self.connected(connection)
            self._refused[connection] = HeartbeatRefusal(
                heartbeat.client_id,
                tuple(each.group for each in heartbeat.consumers[:MAX_REFUSED_GROUPS]),
                str(error)[:MAX_REASON],
                self._clock.now_ms(),
                heartbeat.principal,
            )
            raise
        self._refused.pop(connection, None)
        self.connected(connection)
        fingerprint = heartbeat.fingerprint
        member = OnlineClient(
            connection,
            heartbeat.client_id,
            heartbeat.language,
            heartbeat.version,
            self._clock.now_ms(),
            heartbeat.principal,
        )
        changed = fingerprint == 0
        for group, consume_type, message_model, from_where, unit_mode, subscriptions in heartbeat.consumers:
            config = self._groups.find(group)
            if config is None:
                continue
            ordered = any(self._topics.is_ordered(each.topic) for each in subscriptions or ())
            self._topics.create_retry(names.retry_topic(group), config.retry_queues, unit=unit_mode, ordered=ordered)
            online = self._consumers.get(group)
            if fingerprint and (online is None or online.fingerprint != fingerprint):
                changed = True
            self.register_consumer(
                group,
                member,
                consume_type=consume_type,
                message_model=message_model,
                consume_from_where=from_where,
                subscriptions=subscriptions,
            )
            online = self._consumers.get(group)
            if online is not None and subscriptions is not None:
                online.fingerprint = fingerprint
        for group in heartbeat.producers:
            self.register_producer(group, member)
        return changed

    def _users(self, client_id: str) -> list[str]:
        """Return the names of the users whose producers have a client id, in order of registration."""
        members = self._by_client_id.get(client_id, {}).values()
        return list(dict.fromkeys(each.principal.name for each in members if each.principal is not None))

    def _warn_of_shared_id(self, client_id: str) -> None:
        """Report once that producers of several users have a client id: replies for it cannot be delivered."""
        users = self._users(client_id)
        if len(users) > 1 and client_id not in self._shared and len(self._shared) < MAX_SHARED:
            self._shared.add(client_id)
            log.warning("%s", _shared_id(client_id, users))

    def _check_count(self, heartbeat: Heartbeat, connection: ClientChannel) -> None:
        in_producers, in_consumers = self.groups_of(connection)
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

    def consumers(self, group: str) -> Sequence[OnlineClient]:
        """Return the members of a consumer group, in order of registration."""
        online = self._consumers.get(group)
        return list(online.members.values()) if online is not None else ()

    def connected(self, connection: ClientChannel) -> None:
        """Record an open connection."""
        self._since.setdefault(connection, self._clock.now_ms())

    def connections(self) -> Iterator[ClientConnection]:
        """Iterate over the open connections, in order of their first request."""
        for connection, since_ms in list(self._since.items()):
            if connection not in self._since:  # closed meanwhile
                continue
            produces, consumes = self.groups_of(connection)
            member = next(
                chain(
                    (self._producers[group][connection] for group in produces),
                    (self._consumers[group].members[connection] for group in consumes),
                ),
                None,
            )
            refusal = self._refused.get(connection)
            if member is None:
                yield ClientConnection(connection, since_ms, refusal=refusal)
                continue
            said = member.client_id, member.language, member.version, member.heard_ms
            groups = sorted(produces), sorted(consumes)
            yield ClientConnection(connection, since_ms, *said, *groups, member.principal, refusal)

    def broadcasts(self, group: str) -> bool:
        """Return whether an online group consumes in broadcasting mode."""
        online = self._consumers.get(group)
        return online is not None and online.message_model == BROADCASTING

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return the subscription of an online group to a topic."""
        online = self._consumers.get(group)
        return online.subscriptions.get(topic) if online is not None else None

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """Return the online group, or None."""
        return self._consumers.get(group)

    def consumer_groups(self) -> Sequence[ConsumerGroup]:
        """Return all online consumer groups."""
        return list(self._consumers.values())

    def producers(self, group: str) -> Sequence[OnlineClient]:
        """Return the members of a producer group."""
        return list(self._producers.get(group, {}).values())

    def producer(self, client_id: str) -> OnlineClient | None:
        """Return the producer with this client id; the most recent one if there are several of one user.

        Raises:
            RequestRefused: producers of several users have the client id (code 1).
        """
        found = self._by_client_id.get(client_id)
        users = self._users(client_id)
        if len(users) > 1:
            raise RequestRefused(1, _shared_id(client_id, users))
        return next(reversed(found.values())) if found else None

    def producer_groups(self) -> dict[str, Sequence[OnlineClient]]:
        """Return all online producer groups."""
        return {group: list(members.values()) for group, members in self._producers.items()}

    def groups_of(self, connection: ClientChannel) -> tuple[Set[str], Set[str]]:
        """Return the producer groups and the consumer groups of a connection."""
        return self._produces.get(connection, frozenset()), self._consumes.get(connection, frozenset())

    def register_producer(self, group: str, member: OnlineClient) -> None:
        """Register a producer's heartbeat."""
        self._heard[member.connection] = self._now_ms()
        self._produces.setdefault(member.connection, set()).add(group)
        self._producers.setdefault(group, {})[member.connection] = member
        named = self._named.get(member.connection)
        if named is not None and named != member.client_id:
            self._forget_name(member.connection)
        self._named[member.connection] = member.client_id
        self._by_client_id.setdefault(member.client_id, {})[member.connection] = member
        if member.principal is not None:
            self._warn_of_shared_id(member.client_id)

    def register_consumer(
        self,
        group: str,
        member: OnlineClient,
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
            self._changed.call(known.name)
        return joined or changed

    def unregister(self, connection: ClientChannel, producer_group: str | None, consumer_group: str | None) -> None:
        """Remove a connection from the given groups."""
        if producer_group:
            self._leave_producers(producer_group, connection)
        if consumer_group:
            self._leave_consumers(consumer_group, connection)

    def gone(self, connection: ClientChannel) -> None:
        """Remove a closed connection from all groups, and report it to the listeners."""
        self.leave_all(connection)
        self._since.pop(connection, None)
        self._refused.pop(connection, None)
        self._gone.call(connection)

    def leave_all(self, connection: ClientChannel) -> None:
        """Remove a connection from all groups."""
        for group in sorted(self._produces.get(connection, ())):
            self._leave_producers(group, connection)
        for group in sorted(self._consumes.get(connection, ())):
            self._leave_consumers(group, connection)

    def silent(self, older_than_ms: int) -> list[ClientChannel]:
        """Return the connections with a last heartbeat more than *older_than_ms* ago."""
        limit = self._now_ms() - older_than_ms
        return [connection for connection, at in self._heard.items() if at < limit]

    def _leave_producers(self, group: str, connection: ClientChannel) -> None:
        self._forget(self._produces, connection, group)
        if connection in self._named and connection not in self._produces:
            self._forget_name(connection)
        members = self._producers.get(group)
        if members is not None and members.pop(connection, None) is not None and not members:
            del self._producers[group]

    def _forget_name(self, connection: ClientChannel) -> None:
        client_id = self._named.pop(connection)
        known = self._by_client_id[client_id]
        del known[connection]
        if not known:
            del self._by_client_id[client_id]

    def _leave_consumers(self, group: str, connection: ClientChannel) -> None:
        self._forget(self._consumes, connection, group)
        known = self._consumers.get(group)
        if known is None or known.members.pop(connection, None) is None:
            return
        if not known.members:
            del self._consumers[group]
        self._changed.call(known.name)

    def _forget(self, groups_of: dict[ClientChannel, set[str]], connection: ClientChannel, group: str) -> None:
        """Remove *group* from the groups of *connection*, and the connection if it is in no group."""
        groups = groups_of.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del groups_of[connection]
        if connection not in self._produces and connection not in self._consumes:
            self._heard.pop(connection, None)
