"""One run: a store from somewhere, a day's work that ends somewhere, a start after it, and the judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from crash_rig.ledger import Ledger
from crash_rig.lives import ALL_KINDS, QUICK, Life
from crash_rig.oracle import Content, Findings, content_of, judge, judge_rebuilt
from crash_rig.starts import Start
from crash_rig.workload import OPERATIONS, Day
from gantrymq.errors import GantryError
from gantrymq.world import World
from gantrymq_storage_faults import FaultPlan, Machine, PowerCut
from gantrymq_testing.simulated import SimulatedFiles, simulate

START_MS = 1_797_000_000_000  # later than any golden store was written

# In asynchronous mode: a background flush that waits for pages no longer, the pause between two looks, and the time in
# which the flush before it may still be under way.
WINDOW_S = (QUICK["flushCommitLogThoroughInterval"] + 2 * QUICK["flushIntervalCommitLog"]) / 1000 + 0.05


@attrs.define
class Outcome:
    """Result of a run."""

    calls: int = 0  # of the first life
    ended: bool = True  # it did not come to its end
    findings: Findings = attrs.field(factory=Findings)
    cuts: list[PowerCut] = attrs.field(factory=list)
    starts_ended: int = 0  # starts that were stopped as well
    starts_refused: int = 0  # that ended with a sentence, because the disk failed
    failed: Counter[str] = attrs.field(factory=Counter)  # calls that the plans made fail, by name
    cut_bytes: int = 0  # that recovery cut off
    notes: list[str] = attrs.field(factory=list)
    trace: str = ""
    day: Counter[str] = attrs.field(factory=Counter)  # calls of the first life, by name
    committed: int = 0
    deleted: int = 0

    def explain(self) -> str:
        """Everything a reader wants when it went wrong."""
        cuts = "\n".join(map(str, self.cuts))
        failed = f"failed by plan: {dict(self.failed)}" if self.failed else ""
        return "\n".join([*self.findings.problems[:20], *self.notes[:10], failed, cuts, self.trace])


@attrs.frozen
class Run:
    """A day of work and the following starts, as consecutive processes on one machine."""

    start: Start
    plans: tuple[FaultPlan, ...]  # for the day, and for the starts after it until one comes through
    power: bool = False  # cut the power where a plan ends the process
    kills: int = 0  # processes that are only killed first: the page cache survives, the next works too
    settings: dict[str, Any] = attrs.field(factory=dict)
    changes: tuple[dict[str, Any], ...] = ({},)  # settings by process; the last apply to all further ones
    operations: int = OPERATIONS
    seed: object = 0  # of the workload
    rebuild: bool = True

    def settings_of(self, number: int) -> dict[str, Any]:
        """Of the process *number*, from 0."""
        return ALL_KINDS | self.settings | self.changes[min(number, len(self.changes) - 1)]


def perform(run: Run, base: Content) -> Outcome:
    """Perform the run in a simulated world; *base* is the result of `base_of` for the start."""
    return simulate(1, lambda world: _perform(run, base, world), start_ms=START_MS)


def base_of(start: Start) -> Content:
    """Return the content of the store of *start* without failures."""
    found: Content = {}

    async def main(world: World) -> None:
        async def look(life: Life) -> None:
            found.update(await content_of(life.broker.store))

        await Life(world, start.disk(world.clock.now_ms), start).run(look)

    simulate(1, main, start_ms=START_MS)
    return found


async def _perform(run: Run, base: Content, world: World) -> Outcome:
    outcome, ledger = Outcome(), Ledger()
    machine = Machine(run.start.disk(world.clock.now_ms))
    losses = _Losses(run)
    for number, plan in enumerate(run.plans):
        unreported = machine.unreported
        life = Life(world, machine, run.start, plan, run.settings_of(number))
        through = False
        try:
            through = await life.run(_work(run, ledger, number))
        except GantryError as error:  # a start that was refused
            life.kill()
            if not plan.failures and not unreported:
                outcome.findings.wrong("start", repr(error))
                return outcome
            outcome.starts_refused += 1
        except Exception as error:
            outcome.findings.wrong("start" if number else "day", repr(error))
            outcome.trace += life.files.trace()
            return outcome
        _note(outcome, life, ledger, through=through, number=number)
        losses.ended(life, clean=through)
        if run.power and number >= run.kills:
            outcome.cuts.append(machine.power_cut(plan))
            losses.power()
        if through and number > run.kills:
            break
    await _look(run, base, world, machine, ledger, outcome, losses.since)
    return outcome


def _work(run: Run, ledger: Ledger, number: int) -> Callable[[Life], Awaitable[object]]:
    """Do the work of process *number*: a day; after a kill more, on some topics; after a power cut nothing."""

    async def work(life: Life) -> None:
        if number > run.kills:
            await life.world.clock.sleep(0.3)
        elif number:
            await Day(life, ledger, f"{run.seed}/{number}", operations=run.operations // 4, idle=0.6).run()
        else:
            await Day(life, ledger, run.seed, operations=run.operations).run()

    return work


def _note(outcome: Outcome, life: Life, ledger: Ledger, *, through: bool, number: int) -> None:
    if number == 0:
        outcome.ended = not through
        outcome.calls, outcome.trace = life.files.calls, life.files.trace()
        outcome.day = life.files.counts
        outcome.deleted = sum(sent.deleted for sent in ledger.sent)
        outcome.committed = len(ledger.committed)
    else:
        outcome.starts_ended += not through
        outcome.notes += life.said
        outcome.trace += "\n" + life.files.trace()
    outcome.failed += life.files.failed


class _Losses:
    """From when on acknowledged messages may be lost: asynchronous flush, an end that was not clean, and no power."""

    def __init__(self, run: Run) -> None:
        self.since: float | None = None  # monotonic
        self._asynchronous = run.settings.get("flushDiskType") == "ASYNC_FLUSH"
        self._unclean: float | None = None  # the first such end since the power was cut

    def ended(self, life: Life, *, clean: bool) -> None:
        """A process ended."""
        if clean:
            self._unclean = None  # it made everything durable that it found
        elif self._unclean is None:
            self._unclean = life.ended_at

    def power(self) -> None:
        """The power was cut."""
        if self._asynchronous and self._unclean is not None:
            self.since = min(self._unclean - WINDOW_S, self.since if self.since is not None else self._unclean)


async def _look(
    run: Run,
    base: Content,
    world: World,
    machine: Machine,
    ledger: Ledger,
    outcome: Outcome,
    lost_from: float | None,
) -> None:
    """Start, judge, work on a little, stop in order; cut the power, start again and find the same."""
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
        more = Day(life, Ledger(topics={*ledger.topics}), "more", operations=8, cleaning=False)
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
            differ = [
                f"{queue}: {sorted(after.get(queue, {}))} was {sorted(before.get(queue, {}))}"
                for queue in sorted(after.keys() | before.keys())
                if after.get(queue) != before.get(queue)
            ]
            outcome.findings.wrong("base", f"after a clean stop {differ}")

    for work in (first, second):
        try:
            await _start(run, world, machine, outcome, work)
        except Exception as error:
            outcome.findings.wrong("start", repr(error))
            return
        machine.power_cut(FaultPlan(lose=1.0))  # a stop in order has made everything durable
    if run.rebuild and not outcome.findings.problems:
        assert isinstance(machine.inner, SimulatedFiles)
        await judge_rebuilt(world, machine.inner, run.start, outcome.findings)


async def _start(
    run: Run, world: World, machine: Machine, outcome: Outcome, work: Callable[[Life], Awaitable[object]]
) -> None:
    """One more process, on a disk that is well now; errors of the time before may be told to it, and stop its start."""
    while True:
        unreported = machine.unreported
        life = Life(world, machine, run.start, None, run.settings_of(len(run.plans)))
        try:
            await life.run(work)
        except GantryError:
            life.kill()
            if not unreported or life.report is not None:
                raise
            outcome.starts_refused += 1
        else:
            return
