"""A master and a slave of Java or of GantryMQ, and what the master knows of its slave; for `bench_replication.py`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import attrs
from servers_in_turn import DEFAULT_SIZES, GantryServer, JavaBroker, JavaNameServer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "election"))

from harness.ports import free_port
from java_controllers import JavaController

from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request

__all__ = ["ASYNC_MASTER", "SYNC_MASTER", "Copied", "Servers", "controller", "copied", "followed", "servers"]

SYNC_MASTER = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
ASYNC_MASTER = {"brokerRole": "ASYNC_MASTER"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
OURS = {"metricsExporterType": "DISABLE"}


@attrs.define
class Servers:
    """A name server, a master and, after `add_slave`, a slave of it."""

    name: str
    version: str
    scratch: Path
    settings: Mapping[str, str]
    namesrv: str
    slave: Mapping[str, str]
    processes: list[GantryServer | JavaBroker | JavaNameServer]

    @property
    def master(self) -> GantryServer | JavaBroker:
        """The first broker."""
        found = self.processes[1]
        assert not isinstance(found, JavaNameServer)
        return found

    @property
    def master_address(self) -> str:
        """HOST:PORT of the master."""
        return self.master.address if isinstance(self.master, JavaBroker) else self.master.broker_address

    def add(self, role: str, settings: Mapping[str, str]) -> None:
        """Start a broker with a store in the folder *role*."""
        if self.name == "java":
            sizes = {**DEFAULT_SIZES, **self.settings, **settings}
            self.processes.append(JavaBroker(self.version, self.scratch / role, self.namesrv, settings=sizes))
        else:
            own = {**OURS, **self.settings, **settings}
            self.processes.append(GantryServer.broker(self.scratch / role, self.namesrv, settings=own))

    def add_slave(self) -> None:
        """Start a slave."""
        self.add("slave", self.slave)


@contextmanager
def servers(
    name: str,
    scratch: Path,
    settings: Mapping[str, str],
    *,
    version: str,
    master: Mapping[str, str] = ASYNC_MASTER,
    slave: Mapping[str, str] = SLAVE,
    with_slave: bool = True,
) -> Iterator[Servers]:
    """Run a name server, a master and a slave of *name*, with *settings* for both."""
    first: GantryServer | JavaNameServer
    if name == "java":
        first = JavaNameServer(version, scratch / "namesrv")
        address = first.address
    else:
        first = GantryServer.name_server(scratch / "namesrv")
        address = first.namesrv
    running = Servers(name, version, scratch, settings, address, slave, [first])
    try:
        running.add("master", master)
        if with_slave:
            running.add_slave()
        yield running
    finally:
        for process in reversed(running.processes):
            process.stop()


@contextmanager
def controller(scratch: Path) -> Iterator[dict[str, str]]:
    """Run a controller of Java; yield the settings of two brokers of which it elects the master."""
    running = JavaController(scratch, 0, [free_port()])
    try:
        yield {
            "enableControllerMode": "true",
            "controllerAddr": running.address,
            "allAckInSyncStateSet": "true",
            "minInSyncReplicas": "2",
        }
    finally:
        running.kill()


class Copied(NamedTuple):
    """What a master knows at one moment."""

    at: float  # monotonic seconds
    end: int  # of its log
    acked: int  # by its slave; -1 without one


async def copied(client: RemotingClient, master: str) -> Copied:
    """Ask *master*."""
    began = time.monotonic()
    answer = await client.call(master, request(RequestCode.GET_BROKER_HA_STATUS), timeout_s=10)
    at = (began + time.monotonic()) / 2
    found = json.loads(bytes(answer.body or b"{}"))
    slaves = found.get("haConnectionInfo") or []
    return Copied(at, int(found["masterCommitLogMaxOffset"]), int(slaves[0]["slaveAckOffset"]) if slaves else -1)


async def followed(client: RemotingClient, master: str, limit_s: float, *, least: int = 0) -> Copied:
    """Wait until the slave of *master* has everything, or the log up to *least*."""
    deadline = time.monotonic() + limit_s
    while (found := await copied(client, master)).acked < (least or found.end):
        if time.monotonic() > deadline:
            raise SystemExit(f"the slave has {found.acked} of {found.end} bytes after {limit_s:g} s")
        await asyncio.sleep(0.02)
    return found
