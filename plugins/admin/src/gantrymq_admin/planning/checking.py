"""Checks of a whole cluster, beyond those of single settings.

`problems` are errors: such a cluster would not start, or not do what its description promises. `notes` are only unwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import PurePosixPath

from gantrymq.model.hosts import is_loopback
from gantrymq_admin.planning.description import Description
from gantrymq_admin.planning.placing import METRICS_DEFAULT, METRICS_PORT, PORT, Server, number

__all__ = ["notes", "problems"]

_FOLDERS = ("storePathRootDir", "storePathCommitLog", "kvConfigPath")


def problems(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each error."""
    yield from _addresses(description)
    for one, other in combinations(servers, 2):
        if one.machine == other.machine:
            yield from _same_machine(one, other)
    if len(description.machines) > 1:
        yield from _copies(servers)
    for server in servers:
        yield from _replicas(server, 1 + len(description.slaves.get(server.broker, ())))


def notes(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each unwise choice."""
    several = len(description.machines) > 1
    if several and len(description.name_servers) == 1:
        yield "there is one name server: without it, clients that start find no broker; two or three are usual"
    if not several and description.slaves:
        yield "all copies are on one machine: they do not help if that is lost"
    used = {server.machine for server in servers}
    yield from (f"machine {machine} has no server" for machine in description.machines if machine not in used)
    if description.slaves:
        alone = [name for name in description.masters if not description.slaves.get(name)]
        yield from (f"{name} has no slave, unlike other masters" for name in alone)
    yield from _losses(description, servers)


def _losses(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Machines without which no master has the copies that its acknowledgements need."""
    needed = {server.broker: number(server.values, "inSyncReplicas") for server in servers if _waits(server)}
    if len(description.machines) < 2 or len(needed) < len(description.masters) or min(needed.values()) < 2:
        return
    for machine in description.machines:
        left = Counter(server.broker for server in servers if server.machine != machine)
        if not any(left[name] >= needed[name] for name, its in description.masters.items() if its != machine):
            yield (
                f"without machine {machine} no master has as many copies as its inSyncReplicas, so no message would be "
                "acknowledged; another slave for each master helps"
            )


def _waits(server: Server) -> bool:
    return server.kind == "master" and server.values.get("brokerRole") == "SYNC_MASTER"


def _addresses(description: Description) -> Iterator[str]:
    if len(description.machines) < 2:
        return
    for machine, address in description.machines.items():
        if is_loopback(address):
            yield f"the address of machine {machine} is {address}, which the other machines cannot reach"
    for address, count in Counter(description.machines.values()).items():
        if count > 1:
            same = [machine for machine, its in description.machines.items() if its == address]
            yield f"machines {' and '.join(same)} have the same address {address}"


def _same_machine(one: Server, other: Server) -> Iterator[str]:
    ports = _ports(other)
    for port, key in _ports(one).items():
        if port in ports:
            yield f"on machine {one.machine}, {key} of {one.name} and {ports[port]} of {other.name} are both {port}"
    for key, folder in _folders(one.values).items():
        for its_key, same in _folders(other.values).items():
            if folder == same or folder in same.parents or same in folder.parents:
                yield (
                    f"on machine {one.machine}, {key} of {one.name} ({folder}) and {its_key} of {other.name} ({same}) "
                    "are not separate"
                )


def _ports(server: Server) -> dict[int, str]:
    """Return the ports that a server listens on."""
    found = {number(server.values, key): key for key in server.values if key.endswith("Port")}
    if server.broker:
        found.setdefault(number(server.values, METRICS_PORT) or METRICS_DEFAULT, METRICS_PORT)
        if server.values.get("fastPortEnable", "true") == "true":
            found.setdefault(server.port - 2, f"{PORT} - 2, the fast port,")
    return {port: key for port, key in found.items() if port > 0}


def _folders(values: Mapping[str, str]) -> dict[str, PurePosixPath]:
    return {key: PurePosixPath(values[key]) for key in _FOLDERS if values.get(key)}


def _copies(servers: Sequence[Server]) -> Iterator[str]:
    brokers = [server for server in servers if server.broker]
    for one, other in combinations(brokers, 2):
        if (one.broker, one.machine) == (other.broker, other.machine):
            what = "its master" if one.kind == "master" else f"its slave {one.name}"
            yield f"slave {other.name} is on machine {one.machine}, where {what} is: one failure would take both"


def _replicas(server: Server, copies: int) -> Iterator[str]:
    for key in ("inSyncReplicas", "minInSyncReplicas"):
        if server.kind == "master" and number(server.values, key) > copies:
            yield (
                f"{key}={server.values[key]} of {server.name} is more than its {copies} copies: its messages would "
                "never be acknowledged"
            )
