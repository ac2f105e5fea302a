"""Seeds of the simulation: the first 12 by default, a thousand with ``-m long``, or those named by $GANTRYMQ_SEEDS.

``tests/simulation/replay.py SEED`` runs one seed and prints the result. REGRESSIONS are seeds that once failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulation_rig.harness import run
from simulation_rig.plan import draw

from gantrymq_testing.simulated import Trace

# A kill may hit between the creation of a task and its first step; the coroutine of the task then never starts.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

USUAL = range(1, 13)
LONG = range(1, 1001)
REGRESSIONS = {
    67: "a broker stopped before its first registration left tasks behind",
}
CHOSEN = [int(seed) for seed in os.environ.get("GANTRYMQ_SEEDS", "").replace(",", " ").split()]


def check(seed: int) -> None:
    report = run(seed)
    if report.problems:
        found = "\n".join(report.problems[:20])
        pytest.fail(f"seed {seed}; replay it with: python tests/simulation/replay.py {seed}\n{found}", pytrace=False)


@pytest.mark.parametrize("seed", CHOSEN or [*USUAL, *REGRESSIONS])
def test_nothing_acknowledged_is_lost_and_nothing_else_goes_wrong(seed):
    check(seed)


@pytest.mark.long
def test_a_thousand_seeds():
    for seed in LONG:
        check(seed)


def test_plans_cover_every_fault_and_both_stores():
    plans = [draw(seed) for seed in USUAL]
    happens = {fault for plan in plans for fault in plan.faults}
    assert happens >= {"cut", "part", "slow", "refuse", "jump", "stop", "crash", "crash_at_call", "name_server"}
    assert {plan.store for plan in plans} == {"memory", "mmap"}
    assert {plan.name_servers for plan in plans} == {1, 2}
    groups = [plan.group for plan in plans if plan.group is not None]
    assert {(group.orderly, group.by_loop) for group in groups} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    assert any(group.failing for group in groups)


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_run_with_faults_repeats_byte_for_byte_in_another_process(hash_seed):
    seed = next(seed for seed in USUAL if "crash" in draw(seed).faults)
    trace = Trace(keep_bytes=False)
    run(seed, trace)
    program = (
        "from simulation_rig.harness import run; from gantrymq_testing.simulated import Trace; "
        f"t = Trace(keep_bytes=False); run({seed}, t); print(t.digest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == trace.digest()
