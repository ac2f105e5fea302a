"""Delayed, timed, transactional, popped and failed messages, with processes killed or power cut at a random call.

One to three processes work on one store, each until it is killed, loses power or is stopped; in the error variant,
calls fail as well. Then the broker starts on the same disk, half a minute passes, and every guarantee is checked
(listed in `crash_rig/kinds_oracle.py`): each acknowledged message is delivered once and not early, committed messages
are visible once and rolled-back ones never, producers of undecided ones are checked again, popped and unacknowledged
messages return, failed ones are retried, offsets do not decrease. Half of the runs begin with messages of each kind
left by a Java broker, all of them due by then, which must be delivered once as well.

    GANTRYMQ_KINDS_SEED=137 python -m pytest tests/crash/test_kinds.py -k "some and not errors" -s    one seed
    GANTRYMQ_KINDS_SEED=0-299 python -m pytest tests/crash/test_kinds.py -k "some and not errors" -s  a part of all
    GANTRYMQ_KINDS_ERROR_SEED=137 python -m pytest tests/crash/test_kinds.py -k "some and errors" -s  with errors
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest
from crash_rig.replay import numbers
from crash_rig.starts import NEW, Start, Starts

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_transaction")
pytest.importorskip("gantrymq_pop")
pytest.importorskip("gantrymq_filter_tag")

from crash_rig.kinds_runs import KINDS_OF_GOLDEN, KindsRun, base_of, not_revived, perform, taken_over
from crash_rig.kinds_tally import KindsTally

from gantrymq_storage_faults import PAGE_BYTES, Failure, FaultPlan

# Steps that a killed process had not begun.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

FIRST_CALLS, LAST_CALL = 150, 2200  # a golden store's messages fire in the first ones
FAILURES = (
    Failure(errno.EIO, {"datasync"}, where="/commitlog/", share=0.01, times=1),
    Failure(errno.EIO, {"datasync"}, where="consumequeue", share=0.1, times=2),
    Failure(errno.EIO, {"datasync"}, where="/timer", share=0.1, times=2),
    Failure(errno.EIO, {"syncfs"}, share=0.2, times=2),
    Failure(errno.EIO, {"write_back"}, share=0.2, times=3),
    Failure(errno.EIO, {"pwrite", "create"}, where="/timer", share=0.02, times=3),
    Failure(errno.EIO, {"pwrite", "create", "replace"}, where="/config/", share=0.05, times=3),
    Failure(errno.EIO, {"pread"}, where="/timer", share=0.02, times=2),
    Failure(errno.EIO, {"pread", "read"}, where="/commitlog/", share=0.005, times=2),
    Failure(errno.ENOSPC, {"pwrite", "create"}, where="consumequeue", share=0.01, times=3),
    Failure(errno.ENOSPC, {"pwrite", "create"}, where="/commitlog/", share=0.005, times=2),
)


def start_of(seed: int, starts: Starts) -> Start:
    """Every second one is a golden store, each of them in its turn."""
    if seed % 2 == 0:
        return taken_over(starts.get(NEW))
    name = KINDS_OF_GOLDEN[seed // 2 % len(KINDS_OF_GOLDEN)]
    start = taken_over(starts.get(name.partition(",")[0]))
    return not_revived(start) if "," in name else start


def drawn(seed: int, start: Start, *, errors: bool = False) -> KindsRun:
    """Return the run of *seed*."""
    rng = random.Random(f"{seed}/kinds" + "/errors" * errors)
    sector_bytes = rng.choice((512, PAGE_BYTES))
    processes = rng.choice((1, 1, 2, 2, 3))

    def plan(number: int) -> FaultPlan:
        last = FIRST_CALLS if rng.random() < (0.5 if start.name != NEW else 0.2) else LAST_CALL
        return FaultPlan(
            seed=f"{seed}/{number}",
            crash_at=rng.randint(1, last),
            failures=tuple(failure for failure in FAILURES if rng.random() < 0.3) if errors else (),
            sector_bytes=sector_bytes,
            lose=rng.choice((0.3, 0.5, 1.0)),
            names_in_order=rng.random() < 0.3,
            write_back=rng.choice((0.0, 0.02, 0.3)),
            evict=rng.choice((0.0, 0.1)) if errors else 0.0,
        )

    plans = tuple(plan(number) for number in range(processes))
    power = tuple(rng.random() < (0.75 if number == processes - 1 else 0.4) for number in range(processes))
    mode = {
        "flushDiskType": "SYNC_FLUSH" if errors else rng.choice(("SYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH")),
        "flushConsumeQueueThoroughInterval": rng.choice((150, 60_000)),
        "flushDelayOffsetInterval": rng.choice((100, 1000, 10_000)),
        "timerFlushIntervalMs": rng.choice((100, 1000)),
    }
    return KindsRun(start, plans, power, mode, seed)


@pytest.mark.parametrize("errors", [False, True], ids=["", "errors"])
@pytest.mark.parametrize("seeds", [pytest.param(6, id="some"), pytest.param(500, id="all", marks=pytest.mark.long)])
def test_every_kind_keeps_its_promise_through_kills_and_power_cuts(
    seeds: int, errors: bool, starts: Starts, record_property: Callable[[str, object], None]
) -> None:
    tallies, bases = {"SYNC_FLUSH": KindsTally(), "ASYNC_FLUSH": KindsTally()}, {}
    variable = "GANTRYMQ_KINDS_ERROR_SEED" if errors else "GANTRYMQ_KINDS_SEED"
    wanted, one = numbers(variable, range(seeds))
    for seed in wanted:
        start = start_of(seed, starts)
        if start.name not in bases:
            bases[start.name] = base_of(start, {})
        run = drawn(seed, start, errors=errors)
        outcome = perform(run, bases[start.name])
        tallies[run.settings["flushDiskType"]].add(f"{variable}={seed} from {start.name}", start.name, outcome)
        if one:
            print(outcome.explain())
    for mode, tally in tallies.items():
        if tally.runs:
            print(f"{mode}: {tally}")
            record_property(mode, str(tally))
    failed = [text for tally in tallies.values() for text in tally.failed]
    assert not failed, "\n".join(failed[:3])
    assert tallies["SYNC_FLUSH"].lost_in_window == 0


def test_what_java_left_of_each_kind_is_due(starts: Starts) -> None:
    """The golden stores do have something to come: it is there after the start, and was not before."""
    for number, name in enumerate(KINDS_OF_GOLDEN):
        start = start_of(2 * number + 1, starts)
        assert start.name == name
        assert base_of(start, {}).total() > 0
