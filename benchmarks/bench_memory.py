"""Memory of a broker after a burst of large sends, with and without returning freed memory to the system.

    python benchmarks/bench_memory.py                     32 connections, each sends 1 MB twice
    python benchmarks/bench_memory.py --body 100000

`gantrymq start` checks every 5 s whether enough memory was freed (`gantrymq.cli.memory_trimmer`). The same broker is
measured twice, the second time without the checks. Memory is RssAnon, without the pages of files: idle, right after the
burst, and some seconds later.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Final, NamedTuple

from arguments import existing_folder, seconds, whole
from load_client import BrokerProcess, connect, create_topic_request, memory_bytes, send_request, verdict

GOAL: Final = 0.8  # of the memory without the checks
WITHOUT: Final = "--without-checks"
QUEUES: Final = 8
ROUNDS: Final = 2


class Memory(NamedTuple):
    """Memory of a broker in MB."""

    idle: float
    burst: float
    later: float


async def burst(options: argparse.Namespace, broker: BrokerProcess) -> Memory:
    """Send the burst and return the memory before, right after, and later."""
    connections = await connect(broker.address, options.connections)
    await connections[0].call(create_topic_request("Burst", QUEUES))
    await asyncio.sleep(options.wait)
    found = [memory_mb(broker.pid)]
    for _ in range(ROUNDS):
        sends = (
            each.call(send_request("Burst", number % QUEUES, bytes(options.body)))
            for number, each in enumerate(connections)
        )
        if refused := [answer.code for answer in await asyncio.gather(*sends) if answer.code]:
            raise SystemExit(f"the broker refused {len(refused)} sends with {refused[0]}")
    found.append(memory_mb(broker.pid))
    await asyncio.sleep(options.wait)
    found.append(memory_mb(broker.pid))
    for each in connections:
        each.close()
    return Memory(*found)


def memory_mb(pid: int) -> float:
    """Memory of the process without pages of files."""
    return memory_bytes(pid, "RssAnon") / 1e6


def start_without_checks() -> None:
    """Run the command line of `gantrymq` in this process without the checks."""
    from gantrymq.cli import main as gantrymq
    from gantrymq.cli import memory_trimmer

    memory_trimmer.LOOK_S = 1e9  # type: ignore[misc]
    sys.argv = sys.argv[2:]
    gantrymq()


def main() -> int:
    """Measure and print; return 0 if the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=whole(1), default=32)
    parser.add_argument("--body", type=whole(1), default=1_000_000, metavar="BYTES")
    parser.add_argument("--wait", type=seconds(0.0), default=11.0, metavar="SECONDS", help="before and after the burst")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    options = parser.parse_args()
    print(f"{'':20}{'idle':>10}{'burst':>10}{'later':>10}")
    later = []
    for name, python in (("with checks", ()), ("without checks", (str(Path(__file__).resolve()), WITHOUT))):
        with BrokerProcess(python=python, scratch=options.store) as broker:
            found = asyncio.run(burst(options, broker))
        print(f"{name:20}" + "".join(f"{each:7.1f} MB" for each in found), flush=True)
        later.append(found.later)
    share = later[0] / later[1]
    print(f"later, with checks relative to without {share:.2f}  {verdict(share, GOAL)} (goal {GOAL})")
    return 0 if share <= GOAL else 1


if __name__ == "__main__":
    if sys.argv[1:2] == [WITHOUT]:
        start_without_checks()
    else:
        sys.exit(main())
