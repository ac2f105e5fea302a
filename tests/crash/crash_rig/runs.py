"""One run: a store from somewhere, a day's work that ends somewhere, a start after it, and the judgement."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import attrs

from crash_rig.ledger import Ledger
from crash_rig.lives import QUICK, Life
from crash_rig.oracle import Content, Findings, content_of, judge, judge_rebuilt
from crash_rig.starts import Start
from crash_rig.workload import OPERATIONS, Day
from gantrymq.world import World
from gantrymq.world.simulated import simulate
from gantrymq_storage_faults import Plan, PowerCut

START_MS = 1_797_000_000_000  # later than any golden store was written

# In asynchronous mode: a background flush that waits for pages no longer, the pause between two looks, and the time in
# which the flush before it may still be under way.
WINDOW_S = (QUICK["flushCommitLogThoroughInterval"] + 2 * QUICK["flushIntervalCommitLog"]) / 1000 + 0.05


@attrs.define
class Outcome:
    """What came of it."""

    calls: int = 0  # of the first life
    ended: bool = True  # it did not come to its end
    findings: Findings = attrs.field(factory=Findings)
    cuts: list[PowerCut] = attrs.field(factory=list)
    starts_ended: int = 0  # starts that were stopped as well
    cut_bytes: int = 0  # that recovery cut off
    notes: list[str] = attrs.field(factory=list)
    trace: str = ""
    day: Counter[str] = attrs.field(factory=Counter)  # calls of the first life, by name
    committed: int = 0
    deleted: int = 0

    def explain(self) -> str:
        """Everything a reader wants when it went wrong."""
        cuts = "\n".join(map(str, self.cuts))
        return "\n".join([*self.findings.problems[:20], *self.notes[:10], cuts, self.trace])


@attrs.frozen
class Run:
    """What happens."""

    start: Start
    plans: tuple[Plan, ...]  # for the day, and for the starts after it until one comes through
    power: bool = False  # cut the power where a plan ends the process
    settings: dict[str, Any] = attrs.field(factory=dict)
    operations: int = OPERATIONS
    seed: object = 0  # of the workload
    rebuild: bool = True


def perform(run: Run, base: Content) -> Outcome:
    """Do it, in a simulated world of its own; *base* is what `base_of` says of the start."""
    return simulate(1, lambda world: _perform(run, base, world), start_ms=START_MS)


def base_of(start: Start) -> Content:
    """What the store of *start* holds when nothing goes wrong."""
    found: Content = {}

    async def main(world: World) -> None:
        async def look(life: Life) -> None:
            found.update(await content_of(life.broker.store))

        await Life(world, start.disk(world.clock.now_ms), start).run(look)

    simulate(1, main, start_ms=START_MS)
    return found


async def _perform(run: Run, base: Content, world: World) -> Outcome:
    outcome, ledger = Outcome(), Ledger()
    disk = run.start.disk(world.clock.now_ms)
    life = Life(world, disk, run.start, run.plans[0], run.settings)

    async def day(life: Life) -> None:
        await Day(life, ledger, run.seed, operations=run.operations).run()

    outcome.ended = not await life.run(day)
    outcome.calls, outcome.trace = life.files.calls, life.files.trace(int(__import__("os").environ.get("TR", "40")))
    outcome.day = life.files.counts
    outcome.deleted = sum(sent.deleted for sent in ledger.sent)
    outcome.committed = len(ledger.committed)
    asynchronous = run.settings.get("flushDiskType") == "ASYNC_FLUSH" and run.power and outcome.ended
    lost_from = life.ended_at - WINDOW_S if asynchronous else None
    for plan in run.plans[1:]:
        if run.power:
            outcome.cuts.append(life.files.power_cut())
        life = Life(world, disk, run.start, plan, run.settings)
        try:
            through = await life.run(lambda life: asyncio.sleep(0.3))
        except Exception as error:
            outcome.findings.wrong("start", repr(error))
            return outcome
        outcome.starts_ended += not through
        outcome.notes += life.said
        outcome.trace += "\n" + life.files.trace(int(__import__("os").environ.get("TR", "40")))
        if through:
            break
    if run.power:
        outcome.cuts.append(life.files.power_cut())
    await _look(run, base, world, disk, ledger, outcome, lost_from)
    return outcome


async def _look(
    run: Run, base: Content, world: World, disk: Any, ledger: Ledger, outcome: Outcome, lost_from: float | None
) -> None:
    """Start, judge, work on a little, stop in order; start again and find the same."""
    before: Content = {}

    async def first(life: Life) -> None:
        assert life.report is not None
        outcome.notes += life.said
        outcome.cut_bytes += life.report.cut_bytes
        outcome.findings = await judge(life, ledger, base, outcome.notes, lost_from=lost_from)
        if not outcome.findings.problems:
            await go_on(life)
        before.update(await content_of(life.broker.store))

    async def go_on(life: Life) -> None:
        ledger.deleting = ""
        more = Day(life, Ledger(), "more", operations=8)
        more.ledger.topics = {*ledger.topics}
        await more.run()
        for sent in more.ledger.acknowledged:
            content = await content_of(life.broker.store)
            if content[sent.queue].get(sent.queue_offset or 0) != sent.body:
                outcome.findings.wrong("lost", f"after the start: {sent.queue} at {sent.queue_offset}")

    async def second(life: Life) -> None:
        assert life.report is not None
        if not life.report.clean or life.report.notes:
            outcome.findings.wrong("start", f"not clean after a clean stop: {life.report}")
        after = await content_of(life.broker.store)
        if after != before:
            outcome.findings.wrong("base", f"after a clean stop {sorted(after)} differs from {sorted(before)}")

    for work in (first, second):
        try:
            await Life(world, disk, run.start, None, run.settings).run(work)
        except Exception as error:
            outcome.findings.wrong("start", repr(error))
            return
    if run.rebuild and not outcome.findings.problems:
        await judge_rebuilt(world, disk, run.start, outcome.findings)
