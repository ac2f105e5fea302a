"""Sends per second from a load in pure Python: without Java, so a profile of the broker takes half a minute.

    python benchmarks/bench_send_python.py                          both flush modes, 64 sends in flight and 1
    python benchmarks/bench_send_python.py --profile 25             and the broker's time by function

The load is one process that writes prebuilt frames over raw connections; it shares the machine with the broker, so
compare the broker's CPU time per message, and the rate only if the machine has a core for each. With --profile the
rates are those of a broker slowed down by cProfile; the table omits the wait for events.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import pstats
import tempfile
import time
from pathlib import Path

from arguments import FLUSH_MODES, existing_folder, seconds, whole
from load_client import BrokerProcess, Pump, connect, create_topic_request, new_loop, percentile, send_request

TOPIC = "PythonLoad"
WAITING = "run_forever", "run_until_complete", "select.epoll", "'poll'"
LOOP = "runners.py"  # uvloop waits and reads sockets inside a call that is charged to asyncio's runner


async def load(options: argparse.Namespace, broker: BrokerProcess, under_way: int) -> tuple[str, int]:
    """Send for a while; returns a row of the table, and the messages sent in all."""
    connections = await connect(broker.address, min(options.connections, under_way))
    answer = await connections[0].call(create_topic_request(TOPIC, options.queues))
    if answer.code:
        raise SystemExit(f"the broker refused the topic: {answer.header!r}")
    requests = [send_request(TOPIC, queue, b"x" * options.size) for queue in range(options.queues)]
    pump = Pump(connections, itertools.cycle(requests).__next__, under_way)
    pump.start()
    await asyncio.sleep(options.warmup)
    pump.keep_times = True
    before, cpu, began = pump.answers, broker.cpu_s(), time.perf_counter()
    await asyncio.sleep(options.seconds)
    took, cpu, sent = time.perf_counter() - began, broker.cpu_s() - cpu, pump.answers - before
    pump.keep_times = False
    await pump.stop()
    for connection in connections:
        connection.close()
    if pump.refused:
        raise SystemExit(f"the broker refused sends: {dict(pump.refused)}")
    times = sorted(pump.times)
    p50, p99 = (percentile(times, share) * 1000 for share in (0.5, 0.99))
    share = cpu / took * 100
    row = f"{sent / took:10,.0f} {cpu / max(sent, 1) * 1e6:12.1f} {share:8.0f} {p50:8.2f} {p99:8.2f}"
    return row, pump.answers


def show_profile(path: Path, messages: int, most: int) -> None:
    """The functions in which the broker was longest, their own time only."""
    functions = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]  # (file, line, name): (_, calls, own, tree, _)
    rows = [(own, calls, tree, where) for where, (_, calls, own, tree, _) in functions.items()]
    busy = [row for row in rows if LOOP not in row[3][0] and not any(word in row[3][2] for word in WAITING)]
    total = sum(own for own, *_ in busy)
    print(f"\n{total:.2f} s in functions for {messages:,} messages, start and stop included")
    print(f"{'share':>6} {'own us/msg':>10} {'tree us/msg':>11} {'calls/msg':>9}  function")
    for own, calls, tree, (file, line, name) in sorted(busy, reverse=True)[:most]:
        place = f"{name}  {_short(file)}:{line}" if line else name
        per = f"{own / messages * 1e6:10.2f} {tree / messages * 1e6:11.2f} {calls / messages:9.2f}"
        print(f"{own / total:6.1%} {per}  {place}")


def _short(file: str) -> str:
    """The path from the package on."""
    parts = Path(file).parts
    starts = [index for index, part in enumerate(parts) if part.startswith("gantrymq")]
    return "/".join(parts[starts[-1] :] if starts else parts[-2:])


def main() -> None:
    """Run each flush mode and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flush", nargs="+", choices=FLUSH_MODES, default=list(FLUSH_MODES))
    parser.add_argument("--under-way", type=whole(1), nargs="+", default=[64, 1], help="sends without an answer yet")
    parser.add_argument("--connections", type=whole(1), default=1, help="the sends take turns over them")
    parser.add_argument("--queues", type=whole(1), default=8)
    parser.add_argument("--size", type=whole(1), default=1024, help="bytes of a body")
    parser.add_argument("--warmup", type=seconds(0), default=3.0, help="seconds before counting")
    parser.add_argument("--seconds", type=seconds(0.1), default=10.0, help="seconds that count")
    parser.add_argument("--store", type=existing_folder, metavar="DIR", help="where the stores are made")
    parser.add_argument(
        "--profile", type=whole(0), nargs="?", const=25, default=0, metavar="N", help="list N functions"
    )
    options = parser.parse_args()
    print(f"{options.connections} connections, bodies of {options.size} bytes, {options.queues} queues")
    print(f"{'flush':12} {'under way':>9} {'sends/s':>10} {'CPU us/send':>12} {'CPU %':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for flush in options.flush:
        for under_way in options.under_way:
            with tempfile.TemporaryDirectory() as folder:
                profile = Path(folder) / "profile"
                python = ("-m", "cProfile", "-o", str(profile)) if options.profile else ()
                with (
                    BrokerProcess({"flushDiskType": flush}, python=python, scratch=options.store) as broker,
                    asyncio.Runner(loop_factory=new_loop) as runner,
                ):
                    row, messages = runner.run(load(options, broker, under_way))
                print(f"{flush:12} {under_way:9} {row}", flush=True)
                if options.profile:
                    show_profile(profile, messages, options.profile)
                    print()


if __name__ == "__main__":
    main()
