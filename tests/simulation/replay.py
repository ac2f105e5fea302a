"""Run seeds of the simulation and print the result of each.

python tests/simulation/replay.py 17 18
python tests/simulation/replay.py 1-1000
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulation_rig.harness import run


def seeds_of(word: str) -> range:
    """A number, or a range such as 1-1000."""
    first, dash, last = word.partition("-")
    try:
        found = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is neither a seed nor a range such as 1-1000") from None
    if not found:
        raise argparse.ArgumentTypeError(f"{word} holds no seed")
    return found


def main(words: list[str]) -> int:
    """Print one line for each seed, with its problems if it has any; return the number of failed seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="+", type=seeds_of, metavar="SEED", help="a number, or a range such as 1-1000")
    failed = 0
    for seed in chain.from_iterable(parser.parse_args(words).seeds):
        began = time.monotonic()
        report = run(seed)
        plan = report.plan
        print(
            f"seed {seed}: {plan.store} {plan.settings['flushDiskType']} {' '.join(plan.faults) or 'no faults'}: "
            f"{report.sent} and {report.odd} sent, {report.acknowledged} acknowledged, {report.stored} stored, "
            f"{report.shared} consumed by a group, {report.repeated} of them again, "
            f"{report.starts} starts, "
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
