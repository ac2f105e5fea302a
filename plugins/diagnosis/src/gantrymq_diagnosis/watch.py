"""The last statements of members, and their new conflicts. No I/O: times and connections are passed in.

A member that repeats its statement costs one comparison. A client id counts as used twice if another connection with
it was active within HEARD_S: a client that reconnects causes no conflict once its old connection is silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import attrs

from gantrymq.interfaces import ConsumerHeartbeat
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
    says: Statement
    heard_s: float


class Watch:
    """Every group named by a heartbeat, by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Member]] = {}
        self._of: dict[object, set[str]] = {}  # the groups of a connection
        self._disputed: dict[str, None] = {}
        self._found_s: dict[tuple[str, Kind, str], float] = {}

    def statement(self, who: object, client_id: str, address: str, heard: ConsumerHeartbeat) -> Statement:
        """Return the statement of a heartbeat about a group; without subscriptions it keeps the known ones.

        Args:
            who: its connection.
            client_id: as in the heartbeat.
            address: of the connection, for messages.
            heard: the heartbeat's part about the group.
        """
        known = self.says(heard.group, who)
        return statement_of(client_id, address, heard, None if known is None else known.wants)

    def heard(self, who: object, group: str, says: Statement, now_s: float) -> bool:
        """Return whether *who* repeats its statement; if so, record it as active at the monotonic time *now_s*."""
        known = self._groups.get(group, {}).get(who)
        if known is None or known.says != says:
            return False
        known.heard_s = now_s
        return True

    def check(self, who: object, group: str, says: Statement, present: Set[object], now_s: float) -> list[Conflict]:
        """Return the conflicts of *who* with other members of the group, without storing its statement.

        *present*: the connections that are members now; other known connections are removed.
        """
        members = self._groups.get(group, {})
        for gone in [each for each in members if each not in present and each != who]:
            self._leave(gone, group)
        found: dict[tuple[Kind, str], Conflict] = {}
        for each, member in members.items():
            if each != who:
                for conflict in conflicts_between(group, says, member.says):
                    if conflict.kind is not Kind.CLIENT_ID or now_s - member.heard_s < HEARD_S:
                        found.setdefault((conflict.kind, conflict.topic), conflict)
        return list(found.values())

    def join(self, who: object, group: str, says: Statement, now_s: float) -> None:
        """Store the statement of *who*; members with equal subscriptions share one table of them."""
        members = self._groups.setdefault(group, {})
        first = next(iter(members.values()), None)
        if first is not None and first.says.wants == says.wants:
            says = attrs.evolve(says, wants=first.says.wants)
        members[who] = _Member(says, now_s)
        self._of.setdefault(who, set()).add(group)

    def news(self, group: str, found: Iterable[Conflict], now_s: float) -> list[Conflict]:
        """Return the conflicts not reported since the group was last without them for QUIET_S."""
        new = []
        standing = {(group, each.kind, each.topic) for each in self._among(group)} if group in self._disputed else set()
        for conflict in found:
            self._disputed[group] = None
            key = (group, conflict.kind, conflict.topic)
            last = self._found_s.pop(key, None)
            if (last is None or now_s - last >= QUIET_S) and key not in standing:
                new.append(conflict)
            self._found_s[key] = now_s
        while len(self._found_s) > MAX_NEWS:
            del self._found_s[next(iter(self._found_s))]
        return new

    def _among(self, group: str) -> list[Conflict]:
        return conflicts_among(group, [each.says for each in self._groups.get(group, {}).values()])

    def conflicts(self, group: str, present: Iterable[object]) -> list[Conflict]:
        """Return the present conflicts between online members."""
        members = self._groups.get(group, {})
        return conflicts_among(group, [members[each].says for each in present if each in members])

    def disputed(self) -> list[str]:
        """Return the groups that may have conflicts."""
        return list(self._disputed)

    def settled(self, group: str) -> None:
        """Record that the group has no conflict at the moment."""
        self._disputed.pop(group, None)

    def says(self, group: str, who: object) -> Statement | None:
        """Return the last statement of a member."""
        member = self._groups.get(group, {}).get(who)
        return None if member is None else member.says

    def closed(self, who: object) -> None:
        """Remove a closed connection."""
        for group in list(self._of.get(who, ())):
            self._leave(who, group)

    def _leave(self, who: object, group: str) -> None:
        members = self._groups.get(group, {})
        members.pop(who, None)
        if not members:
            self._groups.pop(group, None)
            self._disputed.pop(group, None)
        groups = self._of.get(who, set())
        groups.discard(group)
        if not groups:
            self._of.pop(who, None)
