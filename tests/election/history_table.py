"""Runs simulated clusters of elected brokers and prints a table of what happened:

python tests/election/history_table.py [--seeds 200] [--first 0] [--jobs 2]
"""

import argparse
import asyncio
import json
import multiprocessing
import random
import sys
import traceback
from functools import partial
from pathlib import Path
from unittest import mock

import attrs

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.with_name("support"))]

from elected_hosts import POWER, TROUBLES, ElectedHosts, Tally
from ha_pairs import simulate_pair

from gantrymq_replication.election import elected_broker as service_module
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
            if not hosts.tally.refused:
                await hosts.judge_end()
            for host in hosts.all:
                host.kill()
        return hosts.tally

    return simulate_pair(main, seed, delivery=delivery)


def _tried(seed, power):
    more = {"kind": KINDS[seed % 4], "troubles": (*TROUBLES, *[POWER] * 4), "judged": False} if power else {}
    try:
        return seed, run(seed, **more), ""
    except BaseException as error:
        text = "".join(traceback.format_exception(error)[-3:])
        return seed, Tally(runs=1), f"{type(error).__name__}: {error}\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    rows = {kind: Tally() for kind in KINDS}
    failures, done = 0, {}
    if given.results and given.results.exists():
        done = dict(json.loads(line) for line in given.results.read_text().splitlines())
    seeds = range(given.first, given.first + given.seeds)
    with multiprocessing.Pool(given.jobs, maxtasksperchild=25) as pool:
        tried = partial(_tried, power=given.power)
        for seed, tally, problem in pool.imap_unordered(tried, [each for each in seeds if each not in done]):
            if problem:
                failures += 1
                print(f"seed {seed} {KINDS[seed % len(KINDS)]}: {problem}", flush=True)
                continue
            done[seed] = attrs.asdict(tally)
            if given.results:
                with given.results.open("a") as file:
                    file.write(json.dumps([seed, done[seed]]) + "\n")
    for seed in seeds:
        if seed in done:
            rows[KINDS[seed % (4 if given.power else len(KINDS))]].add(Tally(**done[seed]))
    print_table(rows)
    print(f"{failures} failed")
    sys.exit(failures > 0)


def print_table(rows):
    """Print the table of the documentation."""
    total = Tally()
    print(
        "| Engine | Brokers | `flushDiskType` | Runs | Acknowledged | Lost | Epochs with messages | None accepts, s |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for (brokers, engine, flush), tally in rows.items():
        if not tally.runs:
            continue
        total.add(tally)
        print(
            f"| {engine} | {brokers} | `{flush}` | {tally.runs} | {tally.acknowledged:,} | {tally.lost} | "
            f"{tally.epochs} | median {tally.median_s:.1f}, worst {max(tally.gaps_s, default=0):.1f} |"
        )
    print(
        f"\n{total.runs} runs, {total.acknowledged} acknowledged, {total.seen} seen, {total.unsure} without an answer"
    )
    print(f"{total.refused} runs ended with a broker that refuses to follow a master without what it has confirmed")
    print("; ".join(f"{count} {kind}" for kind, count in sorted(total.troubles.items())))


if __name__ == "__main__":
    main()
