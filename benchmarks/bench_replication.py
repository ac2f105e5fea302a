"""Sends per second to a master that waits for a slave, GantryMQ and Java, in one run on one machine.

    python benchmarks/bench_replication.py                         64 threads and 1, both flush modes, 3 rounds
    python benchmarks/bench_replication.py --quick --flush ASYNC_FLUSH --threads 64

Each round starts a master (SYNC_MASTER, inSyncReplicas=2) and a slave of Java, then of GantryMQ, and loads them through
the official Java client, as `bench_send_java.py` does. Needs Java and Maven.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from send_rounds import SendRounds
from servers_in_turn import DEFAULT_SIZES, GantryServer, JavaBroker, JavaNameServer

from gantrymq.client import Client, Message

GOALS = {(flush, threads): 1.5 for flush in ("ASYNC_FLUSH", "SYNC_FLUSH") for threads in (64, 1)}
MASTER = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
OURS = {"metricsExporterType": "DISABLE"}
JOIN_S = 60.0


@contextmanager
def pair(name: str, flush: str, scratch: Path, *, version: str) -> Iterator[str]:
    """Run a name server, a master and a slave; yield the name server's address when the slave follows."""
    if name == "java":
        namesrv = JavaNameServer(version, scratch / "namesrv")
        address = namesrv.address
        sizes = {**DEFAULT_SIZES, "flushDiskType": flush}
        brokers = [
            JavaBroker(version, scratch / role, address, settings={**sizes, **own})
            for role, own in (("master", MASTER), ("slave", SLAVE))
        ]
    else:
        namesrv = GantryServer.name_server(scratch / "namesrv")
        address = namesrv.namesrv
        brokers = [
            GantryServer.broker(scratch / role, address, settings={**OURS, "flushDiskType": flush, **own})
            for role, own in (("master", MASTER), ("slave", SLAVE))
        ]
    try:
        asyncio.run(_joined(address))
        yield address
    finally:
        for process in (*reversed(brokers), namesrv):
            process.stop()


async def _joined(namesrv: str) -> None:
    """Send until the slave confirms."""
    deadline = time.monotonic() + JOIN_S
    async with Client(namesrv) as client:
        producer = client.producer("joining")
        while not (await producer.send(Message("Joining", b"?"), timeout_s=10)).ok:
            if time.monotonic() > deadline:
                raise SystemExit(f"the slave confirms nothing within {JOIN_S:g} s")
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    sys.exit(SendRounds(__doc__, "ReplicatedLoad", GOALS, serve=pair).main())
