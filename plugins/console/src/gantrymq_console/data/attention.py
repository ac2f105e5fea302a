"""Problems that need an operator's attention, for the home page, and which alerts fire for them.

An alert fires when its problem was seen twice in a row, and is resolved when it was missing three times in a row. It is
not resolved while the servers that would know do not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.errors import ClientError
from gantrymq.plugin.client import within
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.figures import Figure
from gantrymq_console.data.brokers import (
    BrokerState,
    CopyRow,
    Overview,
    accepts_sends,
    copies_of_name,
    figures_of,
    overview,
)
from gantrymq_console.data.cluster import Aged, Cluster
from gantrymq_console.data.groups import GroupRow, latest_groups
from gantrymq_console.data.nameservers import NameServers, name_servers
from gantrymq_console.data.table import oldest_ms
from gantrymq_console.history.changes import Changes, letters_of
from gantrymq_console.history.reading import HOUR_MS, HistorySource, HistoryUnavailable
from gantrymq_console.values import Long
from gantrymq_console.web.texts import DEFAULT, texts_of

AGE_S: Final = 5.0
_LETTERS_AGE_S: Final = 10.0
_GROUPS_AGE_S: Final = 10.0  # with thousands of groups the most expensive part
DEADLINE_S: Final = 2.3
_ALL_S: Final = 2.6  # for what is asked when brokers have answered, or were late; a page has 3 s
_SHOWN_GROUPS: Final = 10
_LOOKED_AT: Final = 50  # groups furthest behind that are searched for those without members
_MOST_OF_A_KIND: Final = 10
_OF_COPIES: Final = "gantrymq_replication_"
_CONFLICTS: Final = "gantrymq_group_conflicts"
_SEEN: Final = 2
_MISSING: Final = 3
_MOST: Final = 1000  # alerts at once; further ones are not sent
_KINDS: Final = {
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
class Problem:
    """One thing that is wrong. Its text is ``home.problem_<word>`` with *fields*."""

    word: str
    level: str  # bad, warn
    subject: str  # name of the broker, name server or group
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    link: tuple[str, ...] = ()  # segments of the page with details
    since_ms: int | None = None  # when it was well for the last time; the begin of the count of dead letters
    sentence: str = ""  # in the server's words
    cause: str = ""  # name of the cause, if a store refuses messages
    values: Mapping[str, str | int] = attrs.field(factory=dict)  # of the cause
    query: Mapping[str, int] = attrs.field(factory=dict)  # parameters of the page with details


@attrs.frozen
class Attention:
    """Problems of the cluster, the worst first, and the facts that they were found in."""

    problems: tuple[Problem, ...]
    brokers: Overview
    name_servers: NameServers
    groups: tuple[GroupRow, ...]  # the ten furthest behind in time
    late: tuple[GroupRow, ...] = attrs.field(metadata={"json": False})  # more rows, for alerts
    groups_unknown: int | None  # groups of which nothing is known yet; None: it is not known which groups there are
    in_per_s: float | None
    out_per_s: float | None
    missing: tuple[Missing, ...]
    partial: bool = False  # whether a broker did not answer; the rates exclude it
    changes: Changes | None = None  # in the last hour; the home page adds them
    as_of_ms: int | None = attrs.field(default=None, metadata={"json": False})  # of the oldest figure


@attrs.frozen
class NewDeadLetters:
    """Dead letters that came within the last hour."""

    counts: Mapping[str, Long]  # by group, the most first
    since_ms: int  # the begin of the count


async def attention(cluster: Cluster, past: HistorySource) -> Aged[Attention]:
    """Check the whole cluster, at most every 5 s. Does not fail: a missing answer is a problem itself."""
    return await cluster.shared("attention", AGE_S, lambda: _attention(cluster, past))


async def _attention(cluster: Cluster, past: HistorySource) -> Attention:
    asking, further = Asking(cluster.world.clock, DEADLINE_S), Asking(cluster.world.clock, _ALL_S)
    looks = await asyncio.gather(name_servers(cluster), _brokers(cluster), _groups(cluster))
    servers, (brokers, brokers_ms), (late, unknown, missing) = looks
    found = list(_of_name_servers(servers.value))
    answering = [each for each in brokers.brokers if each.answers and each.registered]
    masters = [each for each in answering if each.broker_id == 0]
    figures, sends, copies = await asyncio.gather(
        asking.all({each.title: figures_of(cluster, each.address) for each in answering}),
        further.all({each.name: accepts_sends(cluster, each.name) for each in masters}),
        further.all({each.name: copies_of_name(cluster, each.name, brokers.silent) for each in masters}),
    )
    if any(each.answers for each in servers.value.servers) and not brokers.brokers:
        found.append(Problem("no_broker", "bad", "", link=("nameservers",)))
    for broker in brokers.brokers:
        found += _of_broker(broker)
    for name in (name for name, may_send in sends.items() if may_send is False):
        found.append(Problem("closed", "warn", name, {"name": name}, ("brokers", name)))
    away = [each.address for each in brokers.brokers if not (each.answers and each.registered)]  # named above
    for name, others in cluster.rivals.items():
        both = {"name": name, "address": ", ".join(others)}
        found.append(Problem("two_masters", "bad", name, both, ("brokers", name)))
    for name, rows in copies.items():
        found += _of_copies(name, rows, away)
    for title, every in figures.items():
        found += _of_figures(title, every or ())
    found += _of_groups(late)
    letters = await new_dead_letters(cluster, past)
    if letters is not None:
        for name, count in list(letters.counts.items())[:_MOST_OF_A_KIND]:
            fields, link = {"group": name, "count": count}, ("groups", name, "dlq")
            found.append(Problem("dead_letters", "warn", name, fields, link, letters.since_ms))
    found.sort(key=lambda each: each.level != "bad")
    return Attention(
        tuple(found),
        brokers,
        servers.value,
        late[:_SHOWN_GROUPS],
        late,
        unknown,
        brokers.total("in_per_s"),
        brokers.total("out_per_s"),
        (*missing, *asking.missing),
        brokers.partial,
        as_of_ms=min(servers.as_of_ms, brokers_ms, oldest_ms(late[:_SHOWN_GROUPS]) or brokers_ms),
    )


async def new_dead_letters(cluster: Cluster, past: HistorySource) -> NewDeadLetters | None:
    """Return the dead letters that came within the last hour, read at most every 10 s; None: not known."""

    async def read() -> NewDeadLetters:
        window = past.window(HOUR_MS, cluster.world.clock.now_ms())
        moved, since_ms = await letters_of(past, window, await past.marks(window)), await past.known_since()
        grown = {name: Long(last - first) for name, (first, last) in moved.items() if last > first}
        found = dict(sorted(grown.items(), key=lambda each: -each[1]))
        return NewDeadLetters(found, max(window.begin_ms, since_ms or 0))

    async def read_in_time() -> NewDeadLetters | None:
        try:
            return await within(cluster.world.clock, DEADLINE_S, read())
        except HistoryUnavailable:
            return None

    return (await cluster.shared(("dead_letters", past), _LETTERS_AGE_S, read_in_time)).value


async def _brokers(cluster: Cluster) -> tuple[Overview, int]:
    """Return the brokers, and when they were asked."""
    try:
        found = await overview(cluster)
    except ClientError:
        return Overview(()), cluster.world.clock.now_ms()  # the name servers are the problem
    return found.value, found.as_of_ms


async def _groups(cluster: Cluster) -> tuple[tuple[GroupRow, ...], int | None, tuple[Missing, ...]]:
    """Return the groups furthest behind, the number of unknown ones, and the failed requests."""

    async def ask() -> tuple[tuple[GroupRow, ...], int, tuple[Missing, ...]]:
        asking = Asking(cluster.world.clock, DEADLINE_S)
        return *await latest_groups(cluster, asking, _LOOKED_AT), tuple(asking.missing)

    try:
        found = (await cluster.shared("late_groups", _GROUPS_AGE_S, ask)).value
    except ClientError:
        return (), None, ()
    if found[2]:
        cluster.forget("late_groups")  # the next look asks again
    return found


def _of_name_servers(found: NameServers) -> Iterator[Problem]:
    silent = [each for each in found.servers if not each.answers]
    if len(silent) == len(found.servers):
        yield Problem("no_name_server", "bad", "", link=("nameservers",), sentence=silent[0].problem if silent else "")
        return
    for each in silent:
        fields = {"server": each.address}
        yield Problem("name_server", "warn", each.address, fields, ("nameservers",), sentence=each.problem)
    if not found.agree:
        yield Problem("disagree", "bad", "", link=("nameservers",))


def _of_broker(broker: BrokerState) -> Iterator[Problem]:
    name = {"name": broker.title}
    link, query = ("brokers", broker.name), {"id": broker.broker_id} if broker.broker_id else {}
    if not broker.registered:
        since = None if broker.answers else broker.silent_since_ms
        yield Problem("gone", "bad", broker.title, name, link, since, query=query)
    elif not broker.answers:
        word = "silent" if broker.silent_since_ms else "unreachable"
        fields = {**name, "address": broker.address}
        yield Problem(word, "bad", broker.title, fields, link, broker.silent_since_ms, broker.problem, query=query)
    if broker.refusal:
        cause = (broker.refusal, broker.refusal_cause, broker.refusal_values)
        yield Problem("refuses", "bad", broker.title, name, link, None, *cause, query=query)
    if broker.unwritten:
        yield Problem("unwritten", "bad", broker.title, name, link, sentence=broker.unwritten, query=query)
    if broker.fill_word in ("warn", "bad"):
        percent = f"{(broker.disk_used or 0) * 100:.0f}"
        yield Problem("disk", broker.fill_word, broker.title, {**name, "percent": percent}, link, query=query)


def _of_copies(name: str, rows: Iterable[CopyRow], away: Sequence[str]) -> Iterator[Problem]:
    """Return a master with too few copies in sync, and slaves that do not follow, except brokers that are *away*."""
    hosts, link = {each.rpartition(":")[0] for each in away}, ("brokers", name)
    for each in rows:
        if each.lacking and each.role == "master":
            if each.epoch is not None:
                yield Problem("refuses", "bad", name, {"name": name}, link, sentence=each.problem)
            elif each.in_sync_copies is not None:
                yield Problem("copies", "bad", name, {"name": name}, link, sentence=each.problem)
        elif each.lacking and each.address not in (hosts if each.broker_id is None else away):
            yield Problem("copy", "warn", name, {"name": name, "address": each.address}, link, sentence=each.problem)


def _of_figures(title: str, figures: tuple[Figure, ...]) -> Iterator[Problem]:
    for each in figures:
        if each.name.startswith(_OF_COPIES):  # said of copies, above
            continue
        for sentence in each.sentences[:_MOST_OF_A_KIND]:
            yield Problem(
                "figure", "warn", title, {"name": title}, ("brokers", title.partition(":")[0]), None, sentence
            )
        if each.name == _CONFLICTS and each.value and not each.sentences:
            yield Problem("conflicts", "warn", title, {"name": title, "count": int(each.value)}, ("groups",))


def _of_groups(groups: tuple[GroupRow, ...]) -> Iterator[Problem]:
    """Return groups that have messages and no member to consume them.

    One that got messages within the last minute has consumers that are no members, as those of gantrymq.client that
    pop or choose their queues. Brokers of this version say it also while these wait or work.
    """
    alone = [each for each in groups if each.members == 0 and each.lag and not each.per_s and not each.read_by_others]
    for each in alone[:_MOST_OF_A_KIND]:
        yield Problem("nobody", "warn", each.name, {"group": each.name, "count": each.lag}, ("groups", each.name))


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

    def update(self, found: Attention, dead_letters: Mapping[str, Any] | None, now_ms: int) -> list[Alert]:
        """Return the alerts to send after a new check of the cluster.

        Args:
            found: the result of the check.
            dead_letters: new dead letters of each group within the last hour; None: not known.
            now_ms: wall time.
        """
        now = {each.id: each for each in self._firing(found, dead_letters or {}, now_ms)}
        unknown = _unknown(found) | (frozenset({"dead_letters"}) if dead_letters is None else frozenset[str]())
        told = []
        for alert in now.values():
            state = self._states.get(alert.id)
            if state is None:
                if len(self._states) >= _MOST:
                    continue
                state = self._states[alert.id] = _State(alert)
            state.seen, state.missing = state.seen + 1, 0
            state.alert = attrs.evolve(alert, since_ms=state.alert.since_ms)
            if state.seen >= _SEEN and not state.told:
                state.told = True
                told.append(state.alert)
        for name, state in list(self._states.items()):
            if name in now or state.alert.kind in unknown:
                continue
            state.seen, state.missing = 0, state.missing + 1
            if not state.told:
                del self._states[name]
            elif state.missing >= _MISSING:
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

    def _firing(self, found: Attention, dead_letters: Mapping[str, Any], now_ms: int) -> Iterator[Alert]:
        texts, limits = texts_of(DEFAULT), self._thresholds

        def alert(kind: str, subject: str, value: float | None, word: str, /, **fields: Any) -> Alert:
            summary = texts.plain(f"home.problem_{word}", **fields)
            return Alert(f"{kind}/{subject}", kind, subject, "firing", summary, value, now_ms)

        for problem in found.problems:
            if problem.word in _KINDS:
                made = alert(_KINDS[problem.word], problem.subject, None, problem.word, **problem.fields)
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
