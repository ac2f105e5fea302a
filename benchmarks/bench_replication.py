"""Replication, GantryMQ and Java in one run on one machine. The first word says what is measured.

    python benchmarks/bench_replication.py               sends per second to a master that waits for a slave: 64 threads
                                                         and 1, both flush modes, 3 rounds
    python benchmarks/bench_replication.py --quick --flush SYNC_FLUSH --threads 64
    python benchmarks/bench_replication.py elected       the same, the masters elected by a controller of Java, and
                                                         GantryMQ with fixed roles
    python benchmarks/bench_replication.py lag           how late a slave is under full load
    python benchmarks/bench_replication.py copy --gb 5   the copy of a new slave, compared with cp
    python benchmarks/bench_replication.py cpu           the master's CPU per send, without and with a slave

Each round of sends starts a master (SYNC_MASTER, inSyncReplicas=2) and a slave of Java, then of GantryMQ, and loads
them through the official Java client, as `bench_send_java.py` does. Needs Java and Maven, except `copy` and `cpu`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import replica_modes
from replica_servers import SYNC_MASTER, controller, servers
from send_rounds import SendRounds

from gantrymq.client import Client, Message, Producer
from gantrymq.errors import GantryError

GOALS = {(flush, threads): 1.5 for flush in ("ASYNC_FLUSH", "SYNC_FLUSH") for threads in (64, 1)}
JOIN_S = 60.0
FIXED = "fixed"  # a master of GantryMQ that is not elected


@contextmanager
def elected_pair(name: str, flush: str, scratch: Path, *, version: str) -> Iterator[str]:
    """Run the same with a controller, which elects the first broker; `FIXED` without one."""
    if name == FIXED:
        with pair("gantrymq", flush, scratch, version=version) as namesrv:
            yield namesrv
        return
    flushing = {"flushDiskType": flush}
    with (
        controller(scratch / "controller") as roles,
        servers(name, scratch, flushing, version=version, master=roles, slave=roles) as running,
    ):
        asyncio.run(_joined(running.namesrv))
        yield running.namesrv


@contextmanager
def pair(name: str, flush: str, scratch: Path, *, version: str) -> Iterator[str]:
    """Run a name server, a master and a slave; yield the name server's address when the slave follows."""
    with servers(name, scratch, {"flushDiskType": flush}, version=version, master=SYNC_MASTER) as running:
        asyncio.run(_joined(running.namesrv))
        yield running.namesrv


async def _joined(namesrv: str) -> None:
    """Send until the slave confirms."""
    deadline = time.monotonic() + JOIN_S
    async with Client(namesrv) as client:
        producer = client.producer("joining")
        while not await _confirmed(producer):
            if time.monotonic() > deadline:
                raise SystemExit(f"the slave confirms nothing within {JOIN_S:g} s")
            await asyncio.sleep(0.1)


async def _confirmed(producer: Producer) -> bool:
    try:
        return (await producer.send(Message("Joining", b"?"), timeout_s=10)).ok
    except GantryError:  # a master that is not elected yet, or has no slave in sync
        return False


if __name__ == "__main__":
    if sys.argv[1:2] == ["elected"]:
        del sys.argv[1]
        others = {FIXED: "fixed roles, GantryMQ"}
        sys.exit(SendRounds(__doc__, "ReplicatedLoad", GOALS, serve=elected_pair, others=others).main())
    if sys.argv[1:2] and sys.argv[1] in replica_modes.MODES:
        sys.exit(replica_modes.MODES[sys.argv[1]](sys.argv[2:]))
    sys.exit(SendRounds(__doc__, "ReplicatedLoad", GOALS, serve=pair).main())
