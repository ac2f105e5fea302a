"""Run seeds of the simulation and print the result of each.

python tests/simulation/replay.py 17 18
python tests/simulation/replay.py 1-1000
python tests/simulation/replay.py --grpc 1-200
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from simulation_rig.harness import Report, run


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


def of_remoting(seed: int) -> tuple[Report, str]:
    """Run *seed*, and return its report and the numbers in it."""
    report = run(seed)
    plan = report.plan
    return report, (
        f"{plan.store} {plan.settings['flushDiskType']} {' '.join(plan.faults) or 'no faults'}: "
        f"{report.sent} and {report.odd} sent, {report.acknowledged} acknowledged, {report.stored} stored, "
        f"{report.shared} consumed by a group, {report.repeated} of them again"
    )


def of_grpc(seed: int) -> tuple[Any, str]:
    """Run *seed* of the simulation of gRPC clients."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "grpc"))
    from simulation_rig.grpc_run import run as run_grpc

    report = run_grpc(seed)
    plan = report.plan
    members = " ".join(plan.members["G"])
    return report, (
        f"{members}; {' '.join(plan.faults) or 'no faults'}; {plan.moves} moves: {report.sent} sent, "
        f"{report.delivered} delivered, {report.repeated} of them again"
    )


def main(words: list[str]) -> int:
    """Print one line for each seed, with its problems if it has any; return the number of failed seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="+", type=seeds_of, metavar="SEED", help="a number, or a range such as 1-1000")
    parser.add_argument("--grpc", action="store_true", help="run the seeds of the simulation of gRPC clients")
    given = parser.parse_args(words)
    failed = 0
    for seed in chain.from_iterable(given.seeds):
        began = time.monotonic()
        report, text = of_grpc(seed) if given.grpc else of_remoting(seed)
        print(
            f"seed {seed}: {text}, {report.starts} starts, {len(report.problems)} problems, "
            f"{time.monotonic() - began:.2f} s",
            flush=True,
        )
        for problem in report.problems:
            print("   ", problem.replace("\n", "\n    "))
        failed += bool(report.problems)
    print(f"{failed} seeds failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
