"""The last statements of group members (`Statement`), and new conflicts between them. No I/O: callers pass times and
connections.

Checking a member that repeats its statement takes one comparison. A client id counts as used twice if another
connection with it was active within HEARD_S: a client that reconnects causes no conflict once its old connection is
silent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from typing import Final

import attrs

from gantrymq.plugin.interfaces import ConsumerHeartbeat
from gantrymq_diagnosis.conflicts import (
    Conflict,
    Kind,
    Statement,
    conflicts_among,
    conflicts_between,
    statement_of,
)

__all__ = ["HEARD_S", "QUIET_S", "Watch"]

HEARD_S: Final = 45.0  # heartbeats come every 30 s
QUIET_S: Final = 600.0  # a conflict that was found within this time before is not new
MAX_NEWS: Final = 10_000  # conflicts kept in memory


@attrs.define
class _Member:
    statement: Statement
    active_s: float


class Watch:
    """The last statements of the members of all groups, by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Member]] = {}
        self._groups_of: dict[object, set[str]] = {}  # connection to the names of its groups
        self._conflicting: dict[str, None] = {}
        self._found_s: dict[tuple[str, Kind, str], float] = {}

    def statement(self, connection: object, client_id: str, address: str, heartbeat: ConsumerHeartbeat) -> Statement:
        """Return the statement of a heartbeat about a group; without subscriptions it keeps the known ones.

        Args:
            connection: the connection of the heartbeat.
            client_id: client id in the heartbeat.
            address: address of the connection, for messages.
            heartbeat: the part of the heartbeat about the group.
        """
        known = self.says(heartbeat.group, connection)
        return statement_of(client_id, address, heartbeat, None if known is None else known.wants)

    def heard(self, connection: object, group: str, statement: Statement, now_s: float) -> bool:
        """Return whether *connection* repeats its last statement; if so, record its activity at *now_s*."""
        known = self._groups.get(group, {}).get(connection)
        if known is None or known.statement != statement:
            return False
        known.active_s = now_s
        return True

    def check(
        self, connection: object, group: str, statement: Statement, present: Set[object], now_s: float
    ) -> list[Conflict]:
        """Return the conflicts of *connection* with other members of the group, without storing its statement.

        *present*: the connections that are members now; other known connections are removed.
        """
        members = self._groups.get(group, {})
        for gone in [each for each in members if each not in present and each != connection]:
            self._leave(gone, group)
        found: dict[tuple[Kind, str], Conflict] = {}
        for each, member in members.items():
            if each != connection:
                for conflict in conflicts_between(group, statement, member.statement):
                    if conflict.kind is not Kind.CLIENT_ID or now_s - member.active_s < HEARD_S:
                        found.setdefault((conflict.kind, conflict.topic), conflict)
        return list(found.values())

    def join(self, connection: object, group: str, statement: Statement, now_s: float) -> None:
        """Store the statement of *connection*; members with equal subscriptions share one table."""
        members = self._groups.setdefault(group, {})
        first = next(iter(members.values()), None)
        if first is not None and first.statement.wants == statement.wants:
            statement = attrs.evolve(statement, wants=first.statement.wants)
        members[connection] = _Member(statement, now_s)
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
        while len(self._found_s) > MAX_NEWS:
            del self._found_s[next(iter(self._found_s))]
        return new

    def _among(self, group: str) -> list[Conflict]:
        return conflicts_among(group, [each.statement for each in self._groups.get(group, {}).values()])

    def conflicts(self, group: str, present: Iterable[object]) -> list[Conflict]:
        """Return the present conflicts between online members."""
        members = self._groups.get(group, {})
        return conflicts_among(group, [members[each].statement for each in present if each in members])

    def disputed(self) -> list[str]:
        """Return the groups that may have conflicts."""
        return list(self._conflicting)

    def settled(self, group: str) -> None:
        """Record that the group has no conflict at the moment."""
        self._conflicting.pop(group, None)

    def wanted(self) -> Iterator[tuple[str, Collection[str]]]:
        """Yield each group that has members, with the topics that its first member subscribes to."""
        for group, members in self._groups.items():
            for member in members.values():
                yield group, member.statement.wants.keys()
                break

    def says(self, group: str, connection: object) -> Statement | None:
        """Return the last statement of a member."""
        member = self._groups.get(group, {}).get(connection)
        return None if member is None else member.statement

    def closed(self, connection: object) -> None:
        """Remove a closed connection."""
        for group in list(self._groups_of.get(connection, ())):
            self._leave(connection, group)

    def _leave(self, connection: object, group: str) -> None:
        members = self._groups.get(group, {})
        members.pop(connection, None)
        if not members:
            self._groups.pop(group, None)
            self._conflicting.pop(group, None)
        groups = self._groups_of.get(connection, set())
        groups.discard(group)
        if not groups:
            self._groups_of.pop(connection, None)
