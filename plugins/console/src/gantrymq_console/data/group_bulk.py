"""One change of many groups: a row for each group (and topic), planned with numbers, then done with a result for each.

Plan and change of a row are those of a single group. Groups are planned and changed a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import attrs

from gantrymq.client.admin import OffsetReset, OffsetTarget, PartialReset
from gantrymq.errors import CallTimeout, ConnectionLost, GantryError
from gantrymq.plugin.client import within
from gantrymq.plugin.model import GroupConfig
from gantrymq_console.access.audit import AuditUnwritable
from gantrymq_console.data import group_changes
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.group import head_of
from gantrymq_console.data.groups import forget_groups
from gantrymq_console.values import Long, optional_long
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import BadInput

MOST: Final = 200  # groups
PLAN_S: Final = 20.0
_AT_ONCE: Final = 4
_UNANSWERED: Final = (CallTimeout, ConnectionLost, PartialReset)

Change = Literal["reset", "stop", "allow", "delete"]
State = Literal["planned", "nothing", "refused", "done", "unknown", "stopped"]
Item = TypeVar("Item")


@attrs.frozen
class Wanted:
    """What to do with each group."""

    change: Change
    target: OffsetTarget | None = None  # of a reset
    topic: str = ""  # of a reset; empty for every topic of the group
    clean_offsets: bool = False  # of a deletion
    planned: frozenset[str] | None = None  # groups that the preview said would be changed; None: all of them


@attrs.frozen
class Refusal:
    """Why a row is not changed: a text of the console, or words of a server."""

    key: str = ""
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    words: str = ""


@attrs.frozen
class BulkRow:
    """One group, and with a reset one of its topics."""

    group: str
    topic: str = ""
    state: State = "planned"
    members: int | None = None
    lag: Long | None = attrs.field(default=None, converter=optional_long)
    skipped: Long | None = attrs.field(default=None, converter=optional_long)
    read_again: Long | None = attrs.field(default=None, converter=optional_long)
    by_members: bool = False  # whether members set the offsets themselves, within ten seconds
    left_out: tuple[str, ...] = ()  # brokers that the change does not reach
    refusal: Refusal | None = None
    reset: OffsetReset | None = attrs.field(default=None, metadata={"json": False})
    config: GroupConfig | None = attrs.field(default=None, metadata={"json": False})  # after stop or allow


Audited = Callable[[BulkRow, Callable[[], Awaitable[BulkRow]]], Awaitable[BulkRow]]


@attrs.define
class Progress:
    """Results so far, by group in the order of the plan."""

    wanted: Wanted
    groups: dict[str, list[BulkRow]]

    @property
    def rows(self) -> list[BulkRow]:
        """The rows of all groups."""
        return [row for rows in self.groups.values() for row in rows]

    def count(self, *states: State) -> int:
        """Return the number of rows in one of these states."""
        return sum(each.state in states for each in self.rows)


def start(groups: Sequence[str], wanted: Wanted) -> Progress:
    """Return the progress of a change that has not begun."""
    return Progress(wanted, {group: [BulkRow(group, wanted.topic)] for group in groups})


async def plan(cluster: Cluster, groups: Sequence[str], wanted: Wanted) -> list[BulkRow]:
    """Return the rows of a change, none of which is done; groups without an answer within `PLAN_S` are refused."""
    clock = cluster.world.clock
    until_s = clock.monotonic() + PLAN_S
    found: dict[str, list[BulkRow]] = {group: [] for group in groups}

    async def one(group: str) -> None:
        left_s = until_s - clock.monotonic()
        rows = await within(clock, left_s, _planned(cluster, group, wanted)) if left_s > 0 else None
        found[group] = rows or [BulkRow(group, wanted.topic, "refused", refusal=Refusal("groups.bulk_late"))]

    await _few_at_once(groups, one)
    return [row for rows in found.values() for row in rows]


async def run(cluster: Cluster, job: Job[Progress], audited: Audited) -> None:
    """Change the groups of a job; *audited* runs the change of one row between two lines of the audit log."""
    progress = job.progress

    async def one(group: str) -> None:
        if job.stop_asked:
            progress.groups[group] = [attrs.evolve(row, state="stopped") for row in progress.groups[group]]
            return
        rows = progress.groups[group] = await _planned(cluster, group, progress.wanted)
        if progress.wanted.planned is not None and group not in progress.wanted.planned:
            rows[:] = [attrs.evolve(row, state="stopped") if row.state == "planned" else row for row in rows]
        for place, row in enumerate(rows):
            if row.state == "planned":
                rows[place] = await _done(cluster, row, progress.wanted, audited)

    await _few_at_once(list(progress.groups), one)


async def _done(cluster: Cluster, row: BulkRow, wanted: Wanted, audited: Audited) -> BulkRow:
    try:
        return await audited(row, lambda: _changed(cluster, row, wanted))
    except AuditUnwritable as problem:
        return attrs.evolve(row, state="refused", refusal=Refusal(words=str(problem)))


async def _planned(cluster: Cluster, group: str, wanted: Wanted) -> list[BulkRow]:
    try:
        return await _rows_of(cluster, group, wanted)
    except (BadInput, GantryError) as problem:
        return [BulkRow(group, wanted.topic, "refused", refusal=_refusal(problem))]


async def _rows_of(cluster: Cluster, group: str, wanted: Wanted) -> list[BulkRow]:
    reports, gone = await group_changes.reports_to_change(cluster, group)
    head = head_of(reports)
    row = BulkRow(group, members=head.members, lag=head.lag, left_out=gone)
    if wanted.change == "reset":
        topics = [wanted.topic] if wanted.topic else head.topics
        if not topics:
            return [attrs.evolve(row, state="nothing", refusal=Refusal("groups.bulk_no_topic"))]
        return [await _planned_reset(cluster, attrs.evolve(row, topic=topic), wanted) for topic in topics]
    if wanted.change in ("stop", "allow"):
        may = wanted.change == "allow"
        configs = [part.config for part in reports.brokers.values() if part.config is not None]
        if all(each.consume_enable is may for each in configs):
            return [attrs.evolve(row, state="nothing", refusal=Refusal("groups.nothing_changes"))]
        row = attrs.evolve(row, config=attrs.evolve(configs[0], consume_enable=may))
    return [row]


async def _planned_reset(cluster: Cluster, row: BulkRow, wanted: Wanted) -> BulkRow:
    try:
        found = await _reset(cluster, row, wanted, dry_run=True)
    except (BadInput, GantryError) as problem:
        return attrs.evolve(row, state="refused", refusal=_refusal(problem))
    return _with_numbers(row, found)


async def _reset(cluster: Cluster, row: BulkRow, wanted: Wanted, *, dry_run: bool) -> OffsetReset:
    assert wanted.target is not None
    return await cluster.admin.reset_offsets(row.group, row.topic, wanted.target, dry_run=dry_run)


def _with_numbers(row: BulkRow, found: OffsetReset) -> BulkRow:
    return attrs.evolve(
        row,
        skipped=found.skipped,
        read_again=found.read_again,
        by_members="members" in found.ways,
        left_out=tuple(sorted({*row.left_out, *found.left_out})),
        reset=found,
    )


async def _changed(cluster: Cluster, row: BulkRow, wanted: Wanted) -> BulkRow:
    """Change one row; return it with its result."""
    try:
        if wanted.change == "reset":
            row = _with_numbers(row, await _reset(cluster, row, wanted, dry_run=False))
            await forget_groups(cluster, row.group)
        elif wanted.change == "delete":
            gone = await group_changes.delete(cluster, row.group, clean_offsets=wanted.clean_offsets)
            row = attrs.evolve(row, left_out=gone)
        else:
            may = wanted.change == "allow"
            gone = await group_changes.change_settings(
                cluster, row.group, lambda config: attrs.evolve(config, consume_enable=may)
            )
            row = attrs.evolve(row, left_out=gone)
    except _UNANSWERED as problem:
        return attrs.evolve(row, state="unknown", refusal=_refusal(problem))
    except (BadInput, GantryError) as problem:
        return attrs.evolve(row, state="refused", refusal=_refusal(problem))
    return attrs.evolve(row, state="done")


def _refusal(problem: BadInput | GantryError) -> Refusal:
    return Refusal(problem.key, problem.fields) if isinstance(problem, BadInput) else Refusal(words=str(problem))


async def _few_at_once(items: Sequence[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Run *work* for each item, in their order, `_AT_ONCE` at a time."""
    rest = iter(items)

    async def worker() -> None:
        for item in rest:
            await work(item)

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
