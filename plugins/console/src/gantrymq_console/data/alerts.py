"""Which alerts fire, of the problems that the console sees. No I/O.

An alert fires when its problem was seen twice in a row, and is resolved when it was missing three times in a row. It is
not resolved while the servers that would know do not answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs

from gantrymq_console.data.attention import Attention
from gantrymq_console.web.texts import DEFAULT, texts_of

__all__ = ["Alert", "Alerts", "Thresholds"]

SEEN: Final = 2
MISSING: Final = 3
MOST: Final = 1000  # alerts at once; further ones are not sent
KINDS: Final = {
    "gone": "broker_gone",
    "silent": "broker_gone",
    "unreachable": "broker_gone",
    "no_broker": "broker_gone",
    "no_name_server": "name_server_gone",
    "refuses": "store_refuses",
    "unwritten": "store_refuses",
}
"""Kinds of alerts by the word of a problem; those with thresholds are made by `Alerts` itself."""


@attrs.frozen
class Thresholds:
    """Where alerts begin."""

    late_s: float = 300.0  # age of the oldest message that a group has not consumed
    dead_letters: int = 1  # of a group within the last hour
    disk_percent: float = 85.0  # of the file system of a broker's log


@attrs.frozen
class Alert:
    """One alert, as it is sent."""

    id: str  # the same for the firing and the resolved alert: kind/subject
    kind: str  # broker_gone, name_server_gone, store_refuses, disk, group_late, dead_letters
    subject: str  # name of the broker or group
    status: str  # firing, resolved
    summary: str  # one sentence in English
    value: float | None
    since_ms: int
    resolved_ms: int | None = None


@attrs.define
class _State:
    alert: Alert
    seen: int = 0
    missing: int = 0
    told: bool = False


class Alerts:
    """Remembers which alerts fire, so that each is sent once."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._states: dict[str, _State] = {}

    def update(self, found: Attention, dead_letters: dict[str, Any], now_ms: int) -> list[Alert]:
        """Return the alerts to send after a new check of the cluster.

        Args:
            found: the result of the check.
            dead_letters: new dead letters of each group within the last hour.
            now_ms: wall time.
        """
        now = {each.id: each for each in self._firing(found, dead_letters, now_ms)}
        unknown = _unknown(found)
        told = []
        for alert in now.values():
            state = self._states.get(alert.id)
            if state is None:
                if len(self._states) >= MOST:
                    continue
                state = self._states[alert.id] = _State(alert)
            state.seen, state.missing = state.seen + 1, 0
            state.alert = attrs.evolve(alert, since_ms=state.alert.since_ms)
            if state.seen >= SEEN and not state.told:
                state.told = True
                told.append(state.alert)
        for name, state in list(self._states.items()):
            if name in now or state.alert.kind in unknown:
                continue
            state.seen, state.missing = 0, state.missing + 1
            if not state.told:
                del self._states[name]
            elif state.missing >= MISSING:
                del self._states[name]
                told.append(
                    attrs.evolve(
                        state.alert,
                        status="resolved",
                        summary=f"Resolved: {state.alert.summary}",
                        resolved_ms=now_ms,
                    )
                )
        return told

    def _firing(self, found: Attention, dead_letters: dict[str, Any], now_ms: int) -> Iterator[Alert]:
        texts, limits = texts_of(DEFAULT), self._thresholds

        def alert(kind: str, subject: str, value: float | None, word: str, /, **fields: Any) -> Alert:
            summary = texts.plain(f"home.problem_{word}", **fields)
            return Alert(f"{kind}/{subject}", kind, subject, "firing", summary, value, now_ms)

        for problem in found.problems:
            if problem.word in KINDS:
                made = alert(KINDS[problem.word], problem.subject, None, problem.word, **problem.fields)
                yield attrs.evolve(made, summary=f"{made.summary} {problem.sentence}".strip())
        for broker in found.brokers.brokers:
            used = (broker.disk_used or 0.0) * 100
            if used >= limits.disk_percent:
                yield alert("disk", broker.title, round(used, 1), "disk", name=broker.title, percent=f"{used:.0f}")
        for group in found.late:
            late_s = (group.late_ms or 0) / 1000
            if group.lag and late_s >= limits.late_s and not group.late_at_most:
                name = group.name
                yield alert("group_late", name, late_s, "late", group=name, seconds=int(late_s), count=group.lag)
        for name, count in dead_letters.items():
            if count >= limits.dead_letters:
                yield alert("dead_letters", name, int(count), "dead_letters", group=name, count=int(count))


def _unknown(found: Attention) -> frozenset[str]:
    """Return the kinds of alerts that must not be resolved now, because not everything answers."""
    servers = found.name_servers.servers
    if servers and not any(each.answers for each in servers):
        return frozenset({"broker_gone", "store_refuses", "disk", "group_late", "dead_letters"})
    if found.missing or not all(each.answers for each in found.brokers.brokers):
        return frozenset({"store_refuses", "disk", "group_late", "dead_letters"})
    return frozenset()
