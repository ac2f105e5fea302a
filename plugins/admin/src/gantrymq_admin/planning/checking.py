"""Checks of a whole cluster, beyond the checks of single settings.

`problems` are errors: such a cluster would not start, or not do what its description promises. `notes` are only unwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from itertools import combinations
from pathlib import PurePosixPath

from gantrymq.plugin.model import is_loopback, parse_address, split_addresses
from gantrymq_admin.planning.description import Description
from gantrymq_admin.planning.placing import (
    HA_PORT,
    METRICS_DEFAULT,
    METRICS_HOST,
    METRICS_PORT,
    PORT,
    Server,
    elected,
    number,
)


def _engine(values: Mapping[str, str]) -> tuple[str, str]:
    """Return the engine and the key of its addresses."""
    engine = values.get("electionEngine", "controller").strip()
    return engine, "etcdEndpoints" if engine == "etcd" else "controllerAddr"


def _addresses_in(values: Mapping[str, str]) -> list[str]:
    return split_addresses(values.get(_engine(values)[1], ""))


def election_problems(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each error."""
    for server in servers:
        values = server.values
        if server.kind != "master" or not elected(values):
            continue
        engine, key = _engine(values)
        if not _addresses_in(values):
            yield f"enableControllerMode=true of {server.name} with electionEngine={engine} needs {key}"
        for address in _addresses_in(values):
            yield from _wrong_address(server, key, address, several=len(description.machines) > 1)
        if values.get("enableSlaveActingMaster", "").lower() == "true":
            yield f"enableControllerMode=true and enableSlaveActingMaster=true of {server.name}: choose one of them"
        if "brokerRole" in values or "haMasterAddress" in values:
            given = " and ".join(key for key in ("brokerRole", "haMasterAddress") if key in values)
            yield f"{given} of {server.name}: leave it out, because its role is elected (enableControllerMode=true)"


def _wrong_address(server: Server, key: str, address: str, *, several: bool) -> Iterator[str]:
    try:
        host, _ = parse_address(address)
    except ValueError as problem:
        yield f"{key} of {server.name}: {problem}"
        return
    if several and is_loopback(host):
        yield f"{key} of {server.name} has {address}, which is another process on each machine"


def election_notes(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each unwise choice."""
    for server in servers:
        values = server.values
        if server.kind != "master" or not elected(values):
            continue
        copies, least = 1 + len(description.slaves.get(server.broker, ())), number(values, "minInSyncReplicas") or 1
        name, (engine, key) = server.broker, _engine(values)
        if copies == 1:
            yield f"{name} is alone: no other broker can be elected when it is lost; slaves = 1 or more adds some"
        elif least == 1:
            yield (
                f"minInSyncReplicas is 1: while one broker of {name} is left, a message that it acknowledges is on its "
                "disk only; 2 refuses messages then"
            )
        elif least == copies:
            yield (
                f"minInSyncReplicas={least} of {name} needs all of its {copies} brokers: without one of them no "
                "message is accepted; another slave helps"
            )
        if len(_addresses_in(values)) in (1, 2):
            what = "members of etcd" if engine == "etcd" else "controllers"
            yield f"{key} of {name} has {len(_addresses_in(values))} of the {what}: with three, one may be lost"
        if values.get("fencing") == "rocketmq":
            yield f"fencing=rocketmq of {name}: a master without its engine acknowledges what is lost later"


_FOLDERS = ("storePathRootDir", "storePathCommitLog", "kvConfigPath")
_MASTER_ADDRESS = "haMasterAddress"
_HA_AND_METRICS = (HA_PORT, METRICS_PORT)  # open with these settings or without


def problems(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each error."""
    yield from _addresses(description)
    for one, other in combinations(servers, 2):
        if one.machine == other.machine:
            yield from _same_machine(one, other)
    if len(description.machines) > 1:
        yield from _copies(servers)
    for server in servers:
        yield from _own_ports(server)
        yield from _metrics_elsewhere(server, description)
        yield from _replicas(server, 1 + len(description.slaves.get(server.broker, ())))
    yield from election_problems(description, servers)
    if len(description.masters) > 1 and _MASTER_ADDRESS in description.settings:
        yield (
            f"{_MASTER_ADDRESS} in [settings] would make the slaves of all masters copy the same one; leave it out "
            "(slaves learn it from the name servers), or set it in [brokers.NAME]"
        )


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
    yield from (note for server in servers for note in _no_effect(server))
    yield from dict.fromkeys(election_notes(description, servers))
    yield from _losses(description, servers)
    yield from dict.fromkeys(sentence for server in servers for sentence in _of_copies(server, description))


def _of_copies(server: Server, description: Description) -> Iterator[str]:
    """Acknowledgements that wait for no slave, and connections of slaves that are not encrypted, or fail."""
    values = server.values
    if server.broker not in description.slaves:
        return
    if _waits(server) and number(values, "inSyncReplicas") < 2 and not _flag(values, "allAckInSyncStateSet"):
        yield (
            "brokerRole=SYNC_MASTER waits for no slave, because inSyncReplicas is 1; with 2 it acknowledges only what "
            "a slave has"
        )
    if description.access and not values.get("haSecretPath") and not _flag(values, "haTlsEnable"):
        yield (
            f"access control does not apply to {HA_PORT}, where slaves copy the log: set haSecretPath to a file with a "
            "secret, or haTlsEnable=true"
        )
    enforcing, encrypts = values.get("tls.server.mode") == "enforcing", _flag(values, "haTlsEnable")
    tables = values.get("tls.enable", "") or str(enforcing).lower()  # as `gantrymq.remoting.tls_settings` reads it
    if enforcing and not encrypts:
        yield (
            "tls.server.mode=enforcing does not apply to copies of the log, which slaves get without TLS; "
            "haTlsEnable=true encrypts them"
        )
    if enforcing and tables == "false":
        yield (
            "slaves cannot copy topics, groups and offsets, because tls.enable is false and tls.server.mode=enforcing"
        )
    if encrypts and not enforcing and tables == "false":
        yield (
            "haTlsEnable=true encrypts copies of the log only: slaves get topics, groups and offsets without TLS; "
            "tls.enable=true encrypts these too"
        )


def _flag(values: Mapping[str, str], key: str) -> bool:
    return values.get(key, "").strip().lower() == "true"


def _no_effect(server: Server) -> Iterator[str]:
    """Settings of an ASYNC_MASTER that only a SYNC_MASTER looks at."""
    values = server.values
    if server.kind != "master" or values.get("brokerRole", "ASYNC_MASTER") != "ASYNC_MASTER" or elected(values):
        return
    for key in ("inSyncReplicas", "allAckInSyncStateSet"):
        if values.get(key, "1") not in ("1", "false"):
            yield f"{key}={values[key]} of {server.name} has no effect: set brokerRole=SYNC_MASTER to wait for slaves"


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
    spelled = {machine: _one_spelling(address) for machine, address in description.machines.items()}
    for address, count in Counter(spelled.values()).items():
        if count > 1:
            same = [machine for machine, its in spelled.items() if its == address]
            yield f"machines {' and '.join(same)} have the same address {address}"


def _one_spelling(address: str) -> str:
    """Return the same text for every way to write an address."""
    try:
        return str(ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")


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


def _own_ports(server: Server) -> Iterator[str]:
    seen: dict[int, str] = {}
    for port, key in _listening(server):
        if port in seen:
            yield f"{seen[port]} and {key} of {server.name} are both {port}"
        seen.setdefault(port, key)


def _metrics_elsewhere(server: Server, description: Description) -> Iterator[str]:
    host = server.values.get(METRICS_HOST, "")
    for machine, address in description.machines.items():
        if host and host == address != server.host:
            yield (
                f"{METRICS_HOST}={host} of {server.name} is the address of machine {machine}, but it runs on "
                f'{server.machine}; write {METRICS_HOST} = "" for the address of each machine'
            )


def _ports(server: Server) -> dict[int, str]:
    """Return the ports that a server listens on."""
    return dict(reversed([*_listening(server)]))  # of equal ones the first


def _listening(server: Server) -> Iterator[tuple[int, str]]:
    """Iterate over the ports that a server listens on, with their settings."""
    values = server.values
    found = [(number(values, key), key) for key in values if key.endswith("Port") and key not in _HA_AND_METRICS]
    if server.broker:
        if values.get("fastPortEnable", "true") == "true":
            found.append((server.port - 2, f"{PORT} - 2, the fast port,"))
        found.append((number(values, HA_PORT) or server.port + 1, HA_PORT))
        found.append((number(values, METRICS_PORT) or METRICS_DEFAULT, METRICS_PORT))
    yield from ((port, key) for port, key in found if port > 0)


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
