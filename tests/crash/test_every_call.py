"""The process ends at the first, the second, ... the last call of `Files` in a day's work, including a clean stop.

The page cache survives, as after a kill: every acknowledged message exists once, at its position, and so does
everything that a consumer has seen; queues rebuilt from the log equal the existing ones. The default run takes every
100th call, ``-m long`` every one, both from an empty store and from one of a Java broker.

    GANTRYMQ_CRASH_CALL=361 python -m pytest tests/crash/test_every_call.py -k some -s     one call, with its trace
    GANTRYMQ_CRASH_CALL=1-300 python -m pytest tests/crash/test_every_call.py -m long -s   a part of all
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crash_rig.replay import numbers
from crash_rig.runs import Run, base_of, perform
from crash_rig.starts import GOLDEN, NEW, Start, Starts
from crash_rig.tally import Tally

from gantrymq_storage_faults import FaultPlan

STEP = 100
LAST = 100_000  # far after the last call of any run


@pytest.mark.parametrize("origin", ["new", "golden"])
@pytest.mark.parametrize(
    ("first", "step"), [pytest.param(17, STEP, id="some"), pytest.param(1, 1, id="all", marks=pytest.mark.long)]
)
def test_a_process_that_ends_at_any_call_leaves_a_sound_store(
    origin: str, first: int, step: int, starts: Starts, record_property: Callable[[str, object], None]
) -> None:
    tally, bases = Tally(), {}
    wanted, one = numbers("GANTRYMQ_CRASH_CALL", range(first, LAST, step))
    for number in wanted:
        start = starts.get(NEW if origin == "new" else GOLDEN[number // step % len(GOLDEN)])
        if start.name not in bases:
            bases[start.name] = base_of(start)
        outcome = perform(Run(start, (FaultPlan(seed=number, crash_at=number),)), bases[start.name])
        tally.add(f"GANTRYMQ_CRASH_CALL={number} from {start.name}", start.name, outcome)
        if one:
            print(outcome.explain())
        if not outcome.ended:
            break
    print(tally)
    record_property("tally", str(tally))
    assert not tally.failed, "\n".join(tally.failed[:3])
    assert wanted != range(first, LAST, step) or tally.runs > 1000 / step


def test_the_day_has_everything_in_it(starts: Starts) -> None:
    """A run without a crash contains everything that the other tests rely on."""
    start: Start = starts.get(NEW)
    outcome = perform(Run(start, (FaultPlan(),)), {})
    assert not outcome.findings.problems
    assert not outcome.ended
    assert outcome.calls > 1000
    assert outcome.findings.acknowledged > 150
    calls = "pwrite datasync allocate truncate replace rename remove remove_dir sync_dir make_dirs create lock"
    assert set(calls.split()) <= set(outcome.day)
    assert outcome.day["allocate"] >= 5  # the log rolled over
    assert outcome.findings.expired > 20  # retention took files
    assert outcome.committed >= 3
    assert outcome.deleted >= 1
