"""One run with every kind of message: clients, processes that end, restarts, and the checks."""

from __future__ import annotations

import gzip
from collections import Counter
from traceback import format_exception
from typing import Any

import attrs

from crash_rig.kinds import SETTINGS, Kinds
from crash_rig.kinds_ledger import KindsLedger, Losses
from crash_rig.kinds_oracle import Findings, Golden, golden_of, judge, judge_commits, records_of
from crash_rig.lives import QUICK, Life
from crash_rig.runs import START_MS, WINDOW_S
from crash_rig.starts import ROOT, Start
from gantrymq.broker.settings import SCHEMA
from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.model.names import HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.world import World
from gantrymq_storage_faults import FaultPlan, Machine
from gantrymq_testing.simulated import simulate

PLUGINS = "filter_tag,storage_mmap,schedule,transaction,pop"
OPERATIONS = 70
SETTLE_S = 26.0  # longer than anything waits
COMMITS_S = QUICK["flushConsumerOffsetInterval"] / 1000 + 0.1  # a commit is saved by then
KINDS_OF_GOLDEN = ("delay", "timer", "transaction", "pop", "pop, not revived", "retry")


def kind_plugins() -> Plugins:
    """Create new plugins for each process, because services hold state."""
    return load_plugins(PLUGINS, reserved=SCHEMA)


def taken_over(start: Start) -> Start:
    """Return *start* with its timer wheel unpacked, and a name that describes the other changes."""
    content = {}
    for path, data in start.content.items():
        if path.name == "timerwheel.gz":
            path, data = path.with_name("timerwheel"), gzip.decompress(data)
        content[path] = data
    sizes = start.sizes | {"mappedFileSizeTimerLog": 65536}
    return attrs.evolve(start, sizes=sizes, content=content)


def not_revived(start: Start) -> Start:
    """The golden pop store, as if its broker had ended before it gave anything back."""
    path = ROOT / "config" / "consumerOffset.json"
    text = start.content[path]
    done = b'"rmq_sys_REVIVE_LOG_DefaultCluster@CID_RMQ_SYS_REVIVE_GROUP":{0:5,2:0\n\t\t},'
    assert done in text
    return attrs.evolve(start, name="pop, not revived", content=start.content | {path: text.replace(done, b"")})


@attrs.frozen
class KindsRun:
    """Plans of all processes; after the last one, a broker is started on a disk without failures."""

    start: Start
    plans: tuple[FaultPlan, ...]
    power: tuple[bool, ...]  # whether each of them ends with a power cut
    settings: dict[str, Any]
    seed: object = 0

    @property
    def failing(self) -> bool:
        """Whether calls fail."""
        return any(plan.failures for plan in self.plans)


@attrs.define
class KindsOutcome:
    """Result of a run."""

    findings: Findings = attrs.field(factory=Findings)
    calls: list[int] = attrs.field(factory=list)  # of each process
    ended: int = 0  # processes that did
    cuts: int = 0
    starts_refused: int = 0
    failed: Counter[str] = attrs.field(factory=Counter)
    refused: int = 0
    golden: Golden = attrs.field(factory=Counter)
    notes: list[str] = attrs.field(factory=list)
    trace: str = ""

    def explain(self) -> str:
        """Everything a reader wants when it went wrong."""
        return "\n".join([*self.findings.problems[:12], *self.notes[-40:], f"{dict(self.failed)}", self.trace])


def perform(run: KindsRun, base: Golden | None) -> KindsOutcome:
    """Perform the run in a simulated world; *base* is the content of the start without failures."""
    return simulate(1, lambda world: _perform(run, base, world), start_ms=START_MS, limit_s=3600.0)


def base_of(start: Start, settings: dict[str, Any]) -> Golden:
    """Return the content of the start without failures."""
    return perform(KindsRun(start, (), (), settings), None).golden


async def _perform(run: KindsRun, base: Golden | None, world: World) -> KindsOutcome:
    outcome, ledger, losses = KindsOutcome(), KindsLedger(), Losses()
    machine = Machine(run.start.disk(world.clock.now_ms))
    ends: list[float] = []
    unclean: float | None = None
    for number, (plan, power) in enumerate(zip(run.plans, run.power, strict=True)):
        unreported, early = machine.unreported, Findings()
        life = Life(world, machine, run.start, plan, SETTINGS | run.settings, kind_plugins())

        async def work(life: Life, number: int = number, early: Findings = early) -> None:
            if not run.failing and number:
                judge_commits(life, ledger, ends, COMMITS_S, early, may_lose=losses.since is not None)
            await Kinds(life, ledger, run.seed, number, await producers_of(life), last=False).run(OPERATIONS)

        through = False
        try:
            through = await life.run(work)
        except GantryError as error:
            life.kill()
            if not plan.failures and not unreported:
                outcome.findings.wrong("start", repr(error))
                return outcome
            outcome.starts_refused += 1
        except Exception as error:
            outcome.findings.wrong("process", "".join(format_exception(error)[-6:]))
            outcome.trace += life.files.trace()
            return outcome
        ends.append(world.clock.monotonic() if through else life.ended_at)
        outcome.calls.append(life.files.calls)
        outcome.ended += not through
        outcome.failed += life.files.failed
        outcome.notes += [f"--- process {number} ended at {ends[-1]:.3f} {'' if through else 'on the way'}", *life.said]
        outcome.trace = life.files.trace()
        if early.problems:
            outcome.findings = early
            return outcome
        unclean = None if through else unclean if unclean is not None else ends[-1]
        if power:
            outcome.cuts += 1
            outcome.notes.append(str(machine.power_cut(plan)))
            if run.settings.get("flushDiskType") == "ASYNC_FLUSH" and unclean is not None:
                since = unclean - WINDOW_S
                losses.since = since if losses.since is None else min(since, losses.since)
                losses.until = world.clock.monotonic()
    await _look(run, base, world, machine, ledger, losses, ends, outcome)
    return outcome


async def _look(
    run: KindsRun,
    base: Golden | None,
    world: World,
    machine: Machine,
    ledger: KindsLedger,
    losses: Losses,
    ends: list[float],
    outcome: KindsOutcome,
) -> None:
    """Start, let time pass, judge, stop in order; cut the power, start again and find the same."""
    last = len(run.plans)
    commits = Findings()
    after: list[Golden] = []

    async def first(life: Life) -> None:
        outcome.notes += ["--- the last process", *life.said]
        if not run.failing:
            judge_commits(life, ledger, ends, COMMITS_S, commits, may_lose=losses.since is not None)
        kinds = Kinds(life, ledger, run.seed, last, await producers_of(life), last=True)
        await kinds.settle(SETTLE_S, losses)
        records = await records_of(life)
        whole = not run.failing and losses.since is None
        outcome.findings = judge(ledger, records, losses, last, kind_disk=whole)
        outcome.findings.problems += commits.problems
        outcome.golden = golden_of(records)
        outcome.refused = ledger.refused
        if base is not None and outcome.golden != base:
            missing, more = base - outcome.golden, outcome.golden - base
            # After a failed or torn append, a popped message may return twice (docs/broker/pop.md).
            twice = {each for each in more if not whole and each[0].startswith("%RETRY%CG_pop")}
            if missing or more.keys() - twice:
                outcome.findings.wrong("golden", f"missing {[*missing]}, more {[*more]}")
        after.append(content_of(records))

    async def second(life: Life) -> None:
        await life.world.clock.sleep(4)
        after.append(content_of(await records_of(life)))

    for work in (first, second):
        while True:
            unreported = machine.unreported
            life = Life(world, machine, run.start, None, SETTINGS | run.settings, kind_plugins())
            try:
                await life.run(work)
            except GantryError as error:
                life.kill()
                if not unreported or life.report is not None:
                    outcome.findings.wrong("start", repr(error))
                    return
                outcome.starts_refused += 1
            except Exception as error:
                outcome.findings.wrong("process", "".join(format_exception(error)[-6:]))
                return
            else:
                break
        outcome.notes += life.said
        machine.power_cut(FaultPlan(lose=1.0))  # a stop in order has made everything durable
    if after[0] != after[1]:
        outcome.findings.wrong("twice", f"after a clean stop: {after[1] - after[0]} more, {after[0] - after[1]} less")


def content_of(records: dict[str, list[Any]]) -> Golden:
    """All that consumers see."""
    return Counter(
        (topic, record.properties.get("UNIQ_KEY", ""), record.reconsume_times, bytes(record.body))
        for topic, each in records.items()
        for record in each
    )


async def producers_of(life: Life) -> tuple[str, ...]:
    """Return the groups that have half messages in the store."""
    groups: set[str] = set()
    queue = Queue(HALF_TOPIC, 0)
    at, end = life.broker.store.bounds(queue)
    while at < end:
        result = await life.broker.messages.get(queue, at, GetLimit())
        groups |= {r.properties.get("PGROUP", "") for raw in result.buffers for r in iter_records(raw)}
        at = result.next_offset
    return tuple(sorted(groups - {"", "KPG"}))
