"""The power goes at a random call: of what was not synced, pages are lost or torn at 512 B or 4 KiB, and names vanish.

With synchronous flush nothing that was acknowledged is lost, and nothing that a consumer saw. With asynchronous flush
what is lost was acknowledged within the flush window, and the next start says that this may be so. Four in ten of the
starts after it lose the power too. The default run takes 40 seeds, ``-m long`` 1,000; half of them begin with a store
that a Java broker left.

    GANTRYMQ_POWER_SEED=137 python -m pytest tests/crash/test_power_loss.py -k some -s      one seed, with its trace
    GANTRYMQ_POWER_SEED=200-399 python -m pytest tests/crash/test_power_loss.py -k some -s  a piece of the thousand
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import pytest
from crash_rig.replay import numbers
from crash_rig.runs import Run, base_of, perform
from crash_rig.starts import NEW, Start, Starts
from crash_rig.tally import Tally

from gantrymq_storage_faults import PAGE_BYTES, Plan, Slowness

LAST_CALL, LAST_CALL_OF_START = 1250, 120


def drawn(seed: int, start: Start) -> Run:
    """What *seed* means."""
    rng = random.Random(f"{seed}/power")
    sector_bytes = rng.choice((512, PAGE_BYTES))
    slow = (Slowness((0.001, 0.01), frozenset({"datasync"}), share=0.2),) if rng.random() < 0.3 else ()

    def plan(number: int, last: int) -> Plan:
        return Plan(
            seed=f"{seed}/{number}",
            crash_at=rng.randint(1, last),
            sector_bytes=sector_bytes,
            lose=rng.choice((0.3, 0.5, 1.0)),
            names_in_order=rng.random() < 0.3,
            write_back=rng.choice((0.0, 0.02, 0.3)),
            slowness=slow,
        )

    plans = [plan(0, LAST_CALL)]
    while rng.random() < 0.4:
        plans.append(plan(len(plans), LAST_CALL_OF_START))
    mode = {"flushDiskType": rng.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))}
    return Run(start, tuple(plans), power=True, settings=mode, seed=seed)


@pytest.mark.parametrize("seeds", [pytest.param(40, id="some"), pytest.param(1000, id="all", marks=pytest.mark.long)])
def test_what_was_acknowledged_survives_the_loss_of_power(
    seeds: int, starts: Starts, record_property: Callable[[str, object], None]
) -> None:
    tallies, bases = {"SYNC_FLUSH": Tally(), "ASYNC_FLUSH": Tally()}, {}
    wanted, one = numbers("GANTRYMQ_POWER_SEED", range(seeds))
    for seed in wanted:
        start = starts.turn(seed)
        if start.name not in bases:
            bases[start.name] = base_of(start)
        run = drawn(seed, start)
        outcome = perform(run, bases[start.name])
        tallies[run.settings["flushDiskType"]].add(f"GANTRYMQ_POWER_SEED={seed} from {start.name}", start.name, outcome)
        if one:
            print(outcome.explain())
    for mode, tally in tallies.items():
        print(f"{mode}: {tally}")
        record_property(mode, str(tally))
        assert not tally.failed, "\n".join(tally.failed[:3])
    assert tallies["SYNC_FLUSH"].lost == tallies["SYNC_FLUSH"].lost_in_window == 0
    assert one or tallies["ASYNC_FLUSH"].lost_in_window > tallies["ASYNC_FLUSH"].runs / 10  # the faults do bite


@pytest.mark.parametrize(("mode", "told"), [("ASYNC_FLUSH", True), ("SYNC_FLUSH", False)])
def test_the_next_start_says_that_asynchronous_flush_may_have_lost_something(
    mode: str, told: bool, starts: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    for call in range(600, 800, 9):  # until it strikes while something waits for its background flush
        plan = Plan(crash_at=call, lose=1.0, write_back=0.0)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            outcome = perform(Run(starts.get(NEW), (plan,), power=True, settings={"flushDiskType": mode}), {})
        assert not outcome.findings.problems, outcome.explain()
        if outcome.findings.lost_in_window or not told:
            break
    assert (outcome.findings.lost_in_window > 0) is told
    assert ("messages acknowledged in the 120 ms before may be gone" in caplog.text) is told
