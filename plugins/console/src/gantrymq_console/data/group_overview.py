"""The first tab of a group: why it receives nothing, its queues as bars, and its lag by topic.

A finding that several brokers or queues have is one, with the places where it was found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from gantrymq.plugin.model import Value
from gantrymq_admin.progress import lag_sum, oldest_age
from gantrymq_console.data.group import FINE, BrokerReport, GroupHead, GroupReports, QueueState, head_of
from gantrymq_console.data.queue_bars import QueueBars, bars_of
from gantrymq_console.values import Long, optional_long

SHOWN: Final = 50  # findings, and topics, of the first tab
_WORSE_FIRST: Final = ("group-disabled", "nobody-online")
_TABS: Final[Mapping[str, str]] = {
    "nobody-online": "members",
    "filter-refused": "members",
    "not-owned": "members",
    "paused": "members",
    "not-committed": "members",
    "slow": "queues",
    "retry-behind": "queues",
    "dead-letters": "dlq",
}
"""Where to look further: the tab with what the command of a reason's sentence prints."""
_COUNT: Final = "count"  # value of reasons that is added up
_MOST_WORDS: Final = 50  # of brokers, for one finding


@attrs.frozen
class QueuesAt:
    """Queues of a topic at one broker."""

    topic: str
    broker: str
    queues: str  # ranges of ids, such as ``0-3 7``


@attrs.frozen
class Words:
    """What a broker said, in English."""

    where: str  # the broker, or topic, broker and queue
    sentence: str


@attrs.frozen
class Finding:
    """One reason why a group receives nothing, or something to know."""

    reason: str
    sentence: str  # of the broker, in English; empty if several brokers or queues said it with different values
    where: str  # brokers, or topics, brokers and queues; data of the cluster
    bad: bool
    values: Mapping[str, Value] = attrs.field(factory=dict)  # none from older brokers
    variant: str = ""  # which text of the reason fits
    topic: str = ""  # if it is about the queues of one topic
    brokers: tuple[str, ...] = ()
    queues: tuple[QueuesAt, ...] = ()
    words: tuple[Words, ...] = ()  # each sentence that was said, if they are several

    @property
    def tab(self) -> str:
        """The tab of the group to look at; empty: none."""
        return _TABS.get(self.reason, "")


@attrs.frozen
class GroupOverview:
    """The first tab: findings, and the lag of each topic."""

    head: GroupHead
    findings: tuple[Finding, ...]  # at most `SHOWN`
    more_findings: int
    unexplained: tuple[str, ...]  # brokers that do not explain groups
    topics: tuple[TopicLag, ...]  # at most `SHOWN`, those with the largest lag first
    more_topics: int
    bars: QueueBars


@attrs.frozen
class TopicLag:
    """The lag of a group on one topic."""

    topic: str
    queues: int
    behind: Long | None
    lag_ms: int | None
    partial: bool = False  # whether a broker did not answer; the sums exclude it


@attrs.frozen
class _Said:
    """A reason at one broker, or of one queue."""

    reason: str
    sentence: str
    values: Mapping[str, Value]
    variant: str
    bad: bool
    broker: str
    topic: str = ""
    queue: int | None = None  # None: about the whole group

    @property
    def key(self) -> Hashable:
        """What all that is one finding have in common: everything but numbers that are added up."""
        kept = frozenset(item for item in self.values.items() if not _is_sum(item[0]))
        return self.reason, self.variant, self.queue is None, kept or ("" if self.values else self.sentence)

    @property
    def place(self) -> str:
        """The broker, or topic, broker and queue."""
        return self.broker if self.queue is None else f"{self.topic}, {self.broker} {self.queue}"


def overview_of(reports: GroupReports) -> GroupOverview:
    """Return the findings about a group, the worst first, its queues and its lag by topic."""
    head = head_of(reports)
    said: list[_Said] = []
    for broker, part in reports.brokers.items():
        said += _own_findings(reports.name, broker, part, head)
        said += _of_group(broker, part, head)
        said += _of_queues(broker, part)
    found = _grouped(said)
    found.sort(key=_worst_first)
    topics = _by_topic(reports)
    return GroupOverview(
        head,
        tuple(found[:SHOWN]),
        max(0, len(found) - SHOWN),
        tuple(broker for broker, part in reports.brokers.items() if part.explained is None),
        topics[:SHOWN],
        max(0, len(topics) - SHOWN),
        bars_of(reports),
    )


def _worst_first(finding: Finding) -> tuple[bool, int, int]:
    place = _WORSE_FIRST.index(finding.reason) if finding.reason in _WORSE_FIRST else len(_WORSE_FIRST)
    count = finding.values.get(_COUNT)
    return not finding.bad, place, -count if isinstance(count, int) else 0


def _own_findings(group: str, broker: str, part: BrokerReport, head: GroupHead) -> Iterable[_Said]:
    """Yield the findings that follow from the offsets and members alone, for a broker that does not explain groups."""
    if part.explained is not None:
        return
    name = {"group": group}
    if part.config is not None and not part.config.consume_enable:
        yield _Said("group-disabled", "", name, "", True, broker)
    if part.online is None:
        yield _Said("nobody-online", "", name, "", bool(head.lag), broker)
    for word, count, bad in (
        ("retry-behind", part.retries, False),
        ("deleted-unread", part.deleted, True),
        ("dead-letters", part.dead_letters, True),
    ):
        if count:
            yield _Said(word, "", {**name, _COUNT: count}, "", bad, broker)


def _of_group(broker: str, part: BrokerReport, head: GroupHead) -> Iterable[_Said]:
    """Yield what a broker says about the whole group."""
    for each in part.explained.diagnosis if part.explained is not None else ():
        yield _Said(each.reason, each.sentence, each.values, each.variant, _is_bad(each.reason, head), broker)


def _of_queues(broker: str, part: BrokerReport) -> Iterable[_Said]:
    """Yield the problems of queues that are no problem of the whole group."""
    if part.explained is None:
        return
    known = {each.reason for each in part.explained.diagnosis}
    for each in part.queues:
        if each.reason not in FINE and each.reason not in known:
            bad = each.sign == "bad"
            yield _Said(each.reason, each.sentence, each.values, each.variant, bad, broker, each.topic, each.queue)


def _is_bad(reason: str, head: GroupHead) -> bool:
    if reason in ("retry-waiting", "retry-behind", "read-without-members"):
        return False
    return reason != "nobody-online" or (head.lag is None and not head.may_broadcast) or bool(head.lag) or head.partial


def _grouped(said: Iterable[_Said]) -> list[Finding]:
    """Return each finding once. Counts are added up; of durations the longest counts, of what is due the next."""
    same: dict[Hashable, list[_Said]] = {}
    for each in said:
        same.setdefault(each.key, []).append(each)
    return [_finding(group) for group in same.values()]


def _is_sum(name: str) -> bool:
    """Return whether a value of several queues or brokers is one number."""
    return name == _COUNT or name.endswith("_ms")


def _finding(group: Sequence[_Said]) -> Finding:
    first = group[0]
    brokers = tuple(dict.fromkeys(each.broker for each in group))
    ids: dict[tuple[str, str], list[int]] = {}
    for each in group:
        if each.queue is not None:
            ids.setdefault((each.topic, each.broker), []).append(each.queue)
    queues = tuple(QueuesAt(*at, _ranges(found)) for at, found in ids.items())
    values = dict(first.values)
    for name in filter(_is_sum, first.values):
        numbers = [number for each in group if isinstance(number := each.values.get(name), int)]
        added = sum if name == _COUNT else min if name == "due_ms" else max
        values[name] = added(numbers) if numbers else None
    said = tuple(Words(each.place, each.sentence) for each in group if each.sentence)
    differs = len({each.sentence for each in said}) > 1
    return Finding(
        first.reason,
        first.sentence if values == first.values else "",  # not with the numbers of one of several
        _where(queues) if queues else ", ".join(brokers),
        any(each.bad for each in group),
        values,
        first.variant,
        queues[0].topic if len({each.topic for each in queues}) == 1 else "",
        brokers,
        queues,
        said[:_MOST_WORDS] if differs else (),
    )


def _where(queues: Sequence[QueuesAt]) -> str:
    found: dict[str, list[str]] = {}
    for each in queues:
        found.setdefault(each.topic, []).append(f"{each.broker} {each.queues}")
    return "; ".join(f"{topic}, {'; '.join(places)}" for topic, places in found.items())


def _by_topic(reports: GroupReports) -> tuple[TopicLag, ...]:
    partial = len(reports.brokers) < reports.asked
    topics: dict[str, list[QueueState]] = {}
    for part in reports.brokers.values():
        for queue in part.queues:
            topics.setdefault(queue.topic, []).append(queue)
    found = []
    for topic, queues in topics.items():
        lag_ms = oldest_age(queue.lag_ms for queue in queues)
        behind = optional_long(lag_sum(queue.behind for queue in queues))
        found.append(TopicLag(topic, len(queues), behind, lag_ms, partial))
    return tuple(sorted(found, key=lambda each: (-(each.behind or 0), each.topic)))


def _ranges(ids: Sequence[int]) -> str:
    """Return queue ids in words, such as ``0-3 7``."""
    found: list[list[int]] = []
    for queue in sorted(ids):
        if found and found[-1][1] == queue - 1:
            found[-1][1] = queue
        else:
            found.append([queue, queue])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)
