"""Run seeds of the simulation and say what came of each.

python tests/simulation/replay.py 17 18
python tests/simulation/replay.py 1-1000
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulation_rig.harness import run


def seeds_of(words: list[str]) -> list[int]:
    """Numbers and ranges."""
    found: list[int] = []
    for word in words:
        first, _, last = word.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main(words: list[str]) -> int:
    """Print one line a seed, and the problems of those that have any; the number of these."""
    failed = 0
    for seed in seeds_of(words):
        began = time.monotonic()
        report = run(seed)
        plan = report.plan
        print(
            f"seed {seed}: {plan.store} {plan.settings['flushDiskType']} {' '.join(plan.faults) or 'no faults'}: "
            f"{report.sent} sent, {report.acknowledged} acknowledged, {report.stored} stored, {report.starts} starts, "
            f"{len(report.problems)} problems, {time.monotonic() - began:.2f} s",
            flush=True,
        )
        for problem in report.problems:
            print("   ", problem.replace("\n", "\n    "))
        failed += bool(report.problems)
    print(f"{failed} seeds failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
