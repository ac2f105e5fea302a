"""The cost of pulls by tag and pulls without a filter with gantrymq-kit in the broker, relative to the cost without it.

    python benchmarks/bench_kit.py            20 pairs of rounds: some half a minute
    python benchmarks/bench_kit.py --quick    four short pairs

Two brokers run in this process, one with the kit; rounds of pulls go to them in turn, and the order changes with each
pair. Pulls start above the socket layer, where the kit could add cost. Figures are medians: us of CPU for a pull of 32
messages, and the ratio of the rounds of a pair. The goal is a ratio of at most 1.05, the difference between rounds of
one broker.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from arguments import whole

from gantrymq.interfaces import PullRequest
from gantrymq_testing.running_broker import RunningBroker

PLUGINS = "storage_mmap,filter_tag,nameserver"
MESSAGES = 32
GOAL = 1.05
KINDS = {"plain": "*", "tag": "A || B"}


def started(stack: ExitStack, folder: Path, plugins: str) -> RunningBroker:
    """A broker with a queue of messages, half of which have the tag A."""
    running = RunningBroker(folder, {"plugins": plugins, "store": "mmap"}, ())
    running.start()
    stack.callback(running.stop)
    running.create_topic("T", 1)
    for number in range(2 * MESSAGES):
        running.send("T", b"x" * 100, tags="AC"[number % 2])
    return running


def cost(running: RunningBroker, expression: str, pulls: int) -> float:
    """CPU us of a pull."""
    asked = PullRequest("readers", "T", 0, 0, expression=expression, expression_type="TAG", max_count=MESSAGES)

    async def work() -> float:
        pull, begun = running.broker.messages.pull, time.thread_time()
        for _ in range(pulls):
            found = await pull(asked)
        assert found.messages == MESSAGES
        return (time.thread_time() - begun) / pulls * 1e6

    return running.run(work())


def main() -> int:
    """Run the pairs and print the table; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=whole(1), default=20, help="pairs")
    parser.add_argument("--pulls", type=whole(1), default=5000, help="of a round")
    parser.add_argument("--quick", action="store_true", help="four pairs of 500 pulls")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.pulls = 4, 500
    good = True
    with tempfile.TemporaryDirectory(prefix="gantrymq-kit-") as scratch, ExitStack() as stack:
        brokers = {
            name: started(stack, Path(scratch) / name, plugins)
            for name, plugins in (("without", PLUGINS), ("with", f"{PLUGINS},kit"))
        }
        print(f"{'us of CPU a pull':18}{'without':>10}{'with':>10}{'ratio':>10}")
        for kind, expression in KINDS.items():
            found: dict[str, list[float]] = {name: [] for name in brokers}
            for running in brokers.values():
                cost(running, expression, options.pulls)
            for number in range(options.rounds):
                for name in sorted(brokers, reverse=bool(number % 2)):
                    found[name].append(cost(brokers[name], expression, options.pulls))
            pairs = [with_it / without for without, with_it in zip(found["without"], found["with"], strict=True)]
            ratio = statistics.median(pairs)
            good = good and ratio <= GOAL
            cells = "".join(f"{statistics.median(found[name]):10.2f}" for name in brokers)
            print(f"{kind:18}{cells}{ratio:10.3f}   {'good' if ratio <= GOAL else f'ABOVE {GOAL}'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
