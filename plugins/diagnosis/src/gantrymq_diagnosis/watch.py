"""What members of groups said last, and which disagreements are new. No I/O: times and connections are handed in.

A member that says what it said before costs one comparison. A client id counts as used twice while the other connection
was heard of within HEARD_S: a client that lost its connection and comes back is none, once the old one is silent.
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
QUIET_S: Final = 600.0  # a disagreement that was found within this time before is no news
MAX_NEWS: Final = 10_000  # that are kept in mind


@attrs.define
class _Member:
    heard: ConsumerHeartbeat
    heard_s: float
    says: Statement


class Watch:
    """Every group that a heartbeat named, by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[object, _Member]] = {}
        self._of: dict[object, set[str]] = {}  # the groups of a connection
        self._disputed: dict[str, None] = {}
        self._found_s: dict[tuple[str, Kind, str], float] = {}

    def changed(self, who: object, client_id: str, heard: ConsumerHeartbeat, now_s: float) -> bool:
        """Whether *who* says something else of a group than before; where it does not, it is noted as heard."""
        known = self._groups.get(heard.group, {}).get(who)
        if known is None or known.says.client_id != client_id or not _same(known.heard, heard):
            return True
        known.heard_s = now_s
        return False

    def check(
        self,
        who: object,
        client_id: str,
        address: str,
        heard: ConsumerHeartbeat,
        present: Set[object],
        now_s: float,
    ) -> tuple[Statement, list[Conflict]]:
        """What *who* says, and what it disagrees about with others of the group; nothing is noted of it.

        Args:
            who: its connection.
            client_id: as the heartbeat gives it.
            address: of the connection, for sentences.
            heard: what the heartbeat says of the group.
            present: the connections that are members now; others that are known here are forgotten.
            now_s: monotonic time.
        """
        members = self._groups.get(heard.group, {})
        for gone in [each for each in members if each not in present and each != who]:
            self._leave(gone, heard.group)
        known = members.get(who)
        says = statement_of(client_id, address, heard, None if known is None else known.says.wants)
        found: dict[tuple[Kind, str], Conflict] = {}
        for each, member in members.items():
            if each != who:
                for conflict in conflicts_between(heard.group, says, member.says):
                    if conflict.kind is not Kind.CLIENT_ID or now_s - member.heard_s < HEARD_S:
                        found.setdefault((conflict.kind, conflict.topic), conflict)
        return says, list(found.values())

    def join(self, who: object, says: Statement, heard: ConsumerHeartbeat, now_s: float) -> None:
        """Note what *who* says of a group."""
        self._groups.setdefault(heard.group, {})[who] = _Member(heard, now_s, says)
        self._of.setdefault(who, set()).add(heard.group)

    def news(self, group: str, found: Iterable[Conflict], now_s: float) -> list[Conflict]:
        """Those that nobody has been told of since the group was last without them for QUIET_S."""
        new = []
        for conflict in found:
            self._disputed[group] = None
            key = (group, conflict.kind, conflict.topic)
            last = self._found_s.pop(key, None)
            if last is None or now_s - last >= QUIET_S:
                new.append(conflict)
            self._found_s[key] = now_s
        while len(self._found_s) > MAX_NEWS:
            del self._found_s[next(iter(self._found_s))]
        return new

    def conflicts(self, group: str, present: Iterable[object]) -> list[Conflict]:
        """What the members that are there disagree about now."""
        members = self._groups.get(group, {})
        return conflicts_among(group, [members[each].says for each in present if each in members])

    def disputed(self) -> list[str]:
        """Groups that may have conflicts."""
        return list(self._disputed)

    def settled(self, group: str) -> None:
        """The group has none at the moment."""
        self._disputed.pop(group, None)

    def says(self, group: str, who: object) -> Statement | None:
        """What a member said last."""
        member = self._groups.get(group, {}).get(who)
        return None if member is None else member.says

    def closed(self, who: object) -> None:
        """A connection is gone."""
        for group in list(self._of.get(who, ())):
            self._leave(who, group)

    def _leave(self, who: object, group: str) -> None:
        members = self._groups.get(group, {})
        members.pop(who, None)
        if not members:
            self._groups.pop(group, None)
        groups = self._of.get(who, set())
        groups.discard(group)
        if not groups:
            self._of.pop(who, None)


def _same(known: ConsumerHeartbeat, heard: ConsumerHeartbeat) -> bool:
    """Version 2 heartbeats leave out subscriptions that did not change."""
    if heard.subscriptions is None:
        return known._replace(subscriptions=None) == heard
    return known == heard
