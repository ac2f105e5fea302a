"""The last statements of group members (`Statement`), and new conflicts between them. No I/O: callers pass times and
connections.

Checking a member that repeats its statement takes one comparison. A new statement is compared with one member of each
different statement, and with one of its client id: thousands of equal members cost no more than one. A client id
counts as used twice if another connection with it was active within HEARD_S: a client that reconnects causes no
conflict once its old connection is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from itertools import islice
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import ConsumerHeartbeat
from gantrymq_diagnosis.conflicts import (
    Conflict,
    Kind,
    Statement,
    conflicts_among,
    conflicts_between,
    declared,
    statement_of,
)

HEARD_S: Final = 45.0  # heartbeats come every 30 s
QUIET_S: Final = 600.0  # a conflict that was found within this time before is not new
_MAX_NEWS: Final = 10_000  # conflicts kept in memory
_MAX_COMPARED: Final = 100  # different statements of a group; one that differs from so many is reported anyway


@attrs.define
class _Member:
    statement: Statement
    active_s: float


Members = dict[object, _Member]  # by connection


class _Group:
    """The members of one group, also by client id, and by what they say beside it."""

    def __init__(self) -> None:
        self.members: Members = {}
        self._of_id: dict[str, Members] = {}
        self._saying: dict[tuple[object, ...], Members] = {}

    def add(self, connection: object, member: _Member) -> None:
        """Add a member, or replace its statement."""
        self.remove(connection)
        statement = member.statement
        self.members[connection] = member
        self._of_id.setdefault(statement.client_id, {})[connection] = member
        self._saying.setdefault(declared(statement), {})[connection] = member

    def remove(self, connection: object) -> None:
        """Remove a member; unknown ones are ignored."""
        member = self.members.pop(connection, None)
        if member is None:
            return
        statement = member.statement
        _remove(self._of_id, statement.client_id, connection)
        _remove(self._saying, declared(statement), connection)

    def rivals(self, connection: object, statement: Statement, active_after_s: float) -> list[_Member]:
        """Return the members that conflict with *statement* of *connection*, one of each kind.

        *active_after_s*: members with the same client id count if they were active after it.
        """
        found = []
        for each, member in self._of_id.get(statement.client_id, {}).items():
            if each != connection and member.active_s > active_after_s:
                found.append(member)
                break
        own = declared(statement)
        for said, members in islice(self._saying.items(), _MAX_COMPARED):
            if said != own:
                found += [member for each, member in islice(members.items(), 2) if each != connection][:1]
        return found

    def different(self) -> Iterator[Statement]:
        """Yield a statement of each kind, and two of a client id if there are."""
        for members in islice(self._saying.values(), _MAX_COMPARED):
            yield next(iter(members.values())).statement
        twice = next((members for members in self._of_id.values() if len(members) > 1), {})
        for member in islice(twice.values(), 2):
            yield member.statement


def _remove(table: dict[Any, Members], key: object, connection: object) -> None:
    members = table[key]
    del members[connection]
    if not members:
        del table[key]


class Watch:
    """The last statements of the members of all groups, by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._groups_of: dict[object, set[str]] = {}  # connection to the names of its groups
        self._conflicting: dict[str, None] = {}
        self._found_s: dict[tuple[str, Kind, str], float] = {}

    def statement(
        self,
        connection: object,
        client_id: str,
        address: str,
        heartbeat: ConsumerHeartbeat,
        protocol: str = "remoting",
    ) -> Statement:
        """Return the statement of a heartbeat about a group; without subscriptions it keeps the known ones.

        Args:
            connection: the connection of the heartbeat.
            client_id: client id in the heartbeat.
            address: address of the connection, for messages.
            heartbeat: the part of the heartbeat about the group.
            protocol: protocol of the connection.
        """
        known = self.says(heartbeat.group, connection)
        wants = None if known is None else known.wants
        return statement_of(client_id, address, heartbeat, wants, protocol)

    def heard(self, connection: object, group: str, statement: Statement, now_s: float) -> bool:
        """Return whether *connection* repeats its last statement; if so, record its activity at *now_s*."""
        known = self._members(group).get(connection)
        if known is None or known.statement != statement:
            return False
        known.active_s = now_s
        return True

    def check(
        self, connection: object, group: str, statement: Statement, present: Callable[[], Set[object]], now_s: float
    ) -> list[Conflict]:
        """Return the conflicts of *connection* with other members of the group, without storing its statement.

        *present* returns the connections that are members now; other known connections are removed. It is called if
        there are conflicts.
        """
        known = self._groups.get(group)
        if known is None or not known.rivals(connection, statement, now_s - HEARD_S):
            return []
        online = present()
        for gone in [each for each in known.members if each not in online and each != connection]:
            self._leave(gone, group)
        found: dict[tuple[Kind, str], Conflict] = {}
        for member in known.rivals(connection, statement, now_s - HEARD_S):
            for conflict in conflicts_between(group, statement, member.statement):
                if conflict.kind is not Kind.CLIENT_ID or now_s - member.active_s < HEARD_S:
                    found.setdefault((conflict.kind, conflict.topic), conflict)
        return list(found.values())

    def join(self, connection: object, group: str, statement: Statement, now_s: float) -> None:
        """Store the statement of *connection*; members with equal subscriptions share one table."""
        known = self._groups.setdefault(group, _Group())
        first = next(iter(known.members.values()), None)
        if first is not None and first.statement.wants == statement.wants:
            statement = attrs.evolve(statement, wants=first.statement.wants)
        known.add(connection, _Member(statement, now_s))
        self._groups_of.setdefault(connection, set()).add(group)

    def news(self, group: str, found: Iterable[Conflict], now_s: float) -> list[Conflict]:
        """Return the conflicts not reported since the group was last without them for QUIET_S."""
        new = []
        present = (
            {(group, each.kind, each.topic) for each in self._among(group)} if group in self._conflicting else set()
        )
        for conflict in found:
            self._conflicting[group] = None
            key = (group, conflict.kind, conflict.topic)
            last = self._found_s.pop(key, None)
            if (last is None or now_s - last >= QUIET_S) and key not in present:
                new.append(conflict)
            self._found_s[key] = now_s
        while len(self._found_s) > _MAX_NEWS:
            del self._found_s[next(iter(self._found_s))]
        return new

    def _among(self, group: str) -> list[Conflict]:
        known = self._groups.get(group)
        return [] if known is None else conflicts_among(group, known.different())

    def conflicts(self, group: str, present: Iterable[object]) -> list[Conflict]:
        """Return the present conflicts between online members."""
        members = self._members(group)
        return conflicts_among(group, [members[each].statement for each in present if each in members])

    def disputed(self) -> list[str]:
        """Return the groups that may have conflicts."""
        return list(self._conflicting)

    def settled(self, group: str) -> None:
        """Record that the group has no conflict at the moment."""
        self._conflicting.pop(group, None)

    def wanted(self) -> Iterator[tuple[str, Collection[str]]]:
        """Yield each group that has members, with the topics that its first member subscribes to."""
        for group, known in self._groups.items():
            for member in known.members.values():
                yield group, member.statement.wants.keys()
                break

    def says(self, group: str, connection: object) -> Statement | None:
        """Return the last statement of a member."""
        member = self._members(group).get(connection)
        return None if member is None else member.statement

    def closed(self, connection: object) -> None:
        """Remove a closed connection."""
        for group in list(self._groups_of.get(connection, ())):
            self._leave(connection, group)

    def _leave(self, connection: object, group: str) -> None:
        known = self._groups.get(group)
        if known is not None:
            known.remove(connection)
        if known is None or not known.members:
            self._groups.pop(group, None)
            self._conflicting.pop(group, None)
        groups = self._groups_of.get(connection, set())
        groups.discard(group)
        if not groups:
            self._groups_of.pop(connection, None)

    def _members(self, group: str) -> Members:
        known = self._groups.get(group)
        return {} if known is None else known.members
