"""Runs simulated clusters of elected brokers and prints a table of what happened:

python tests/election/history_table.py [--seeds 200] [--first 0] [--jobs 2]
"""

import argparse
import asyncio
import multiprocessing
import random
import sys
import traceback
from pathlib import Path
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.with_name("support"))]

from elected_hosts import POWER, TROUBLES, ElectedHosts, Tally
from ha_pairs import simulate_pair

from gantrymq_replication.election import service as service_module
from gantrymq_testing.simulated import FaultyDelivery

COUNT = 12  # faults of a run
LATE = 0.004  # share of deliveries that are late; one message takes dozens
KINDS = [  # brokers, engine, flushDiskType
    (brokers, engine, flush)
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH")
    for engine in ("etcd", "controller")
    for brokers in (2, 3)
]


def run(seed, *, kind=None, troubles=None, count=COUNT, judged=True):
    """Run one cluster and return its `Tally`; an AssertionError tells what does not hold.

    The faults are all, but without SYNC_FLUSH no power cuts. With *judged* false, what is lost is only counted.
    """
    brokers, engine, flush = kind or KINDS[seed % len(KINDS)]
    delivery = FaultyDelivery(random.Random(seed), late=LATE)
    if troubles is None:
        troubles = TROUBLES if flush == "SYNC_FLUSH" else tuple(each for each in TROUBLES if each != POWER)

    async def main(pair):
        clock = pair.world.clock
        delivery.attach(pair.world.network, asyncio.get_running_loop().time)
        pair.chance = chance = random.Random(f"{seed}/troubles")
        hosts = ElectedHosts(pair, delivery, seed, brokers=brokers, engine=engine, flush=flush, judged=judged)
        with mock.patch.object(service_module, "EtcdClient", side_effect=lambda *_: hosts.engine.client()):
            await hosts.start()
            for _ in range(count):
                await clock.sleep(chance.uniform(0.1, 4))
                await hosts.trouble(troubles)
                hosts.check()
            await hosts.settle()
            await hosts.stop()
            await hosts.judge_end()
            for host in hosts.all:
                host.kill()
        return hosts.tally

    return simulate_pair(main, seed, delivery=delivery)


def _tried(seed):
    try:
        return seed, run(seed), ""
    except BaseException as error:
        text = "".join(traceback.format_exception(error)[-3:])
        return seed, Tally(runs=1), f"{type(error).__name__}: {error}\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    rows = {kind: Tally() for kind in KINDS}
    failures = 0
    with multiprocessing.Pool(given.jobs, maxtasksperchild=8) as pool:
        for seed, tally, problem in pool.imap_unordered(_tried, range(given.first, given.first + given.seeds)):
            rows[KINDS[seed % len(KINDS)]].add(tally)
            if problem:
                failures += 1
                print(f"seed {seed} {KINDS[seed % len(KINDS)]}: {problem}", flush=True)
    print_table(rows)
    print(f"{failures} failed")
    sys.exit(failures > 0)


def print_table(rows):
    """Print the table of the documentation."""
    total = Tally()
    print("| engine | brokers | flushDiskType | runs | acknowledged | lost | elections | without a master, s |")
    print("|---|---|---|---|---|---|---|---|")
    for (brokers, engine, flush), tally in rows.items():
        total.add(tally)
        print(
            f"| {engine} | {brokers} | {flush} | {tally.runs} | {tally.acknowledged} | {tally.lost} | {tally.epochs} | "
            f"median {tally.median_s:.1f}, worst {max(tally.gaps_s, default=0):.1f} |"
        )
    print(
        f"\n{total.runs} runs, {total.acknowledged} acknowledged, {total.seen} seen, {total.unsure} without an answer"
    )
    print("; ".join(f"{count} {kind}" for kind, count in sorted(total.troubles.items())))


if __name__ == "__main__":
    main()
