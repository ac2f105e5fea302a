"""Sends per second through the official Java client: GantryMQ and a Java broker, in one run on one machine.

    python benchmarks/bench_send_java.py                      the goals: 64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_send_java.py --bare               also a server with the minimum work of a send
    python benchmarks/bench_send_java.py --quick --flush ASYNC_FLUSH --threads 64

Each round starts the two servers in turn, never both at once; each gets the same load (1 KB bodies, our small load
program on `rocketmq-client`). Its warm-up is not counted: a JVM needs some 20 s of it. The figures are medians over
the rounds, the ratio is ours over Java's. Needs Java and Maven (the jars are downloaded once, see tests/interop).
"""

from __future__ import annotations

import sys

from send_rounds import SendRounds

GOALS = {("ASYNC_FLUSH", 64): 2.0, ("SYNC_FLUSH", 64): 2.5, ("ASYNC_FLUSH", 1): 2.5, ("SYNC_FLUSH", 1): 2.0}

if __name__ == "__main__":
    sys.exit(SendRounds(__doc__, "SendLoad", GOALS, may_be_bare=True).main())
