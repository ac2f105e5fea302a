"""Sentences about elected roles in a planned cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gantrymq.plugin.model import is_loopback, parse_address, split_addresses
from gantrymq_admin.planning.description import Description
from gantrymq_admin.planning.placing import Server, elected, number

__all__ = ["election_notes", "election_problems"]


def _engine(values: Mapping[str, str]) -> tuple[str, str]:
    """Return the engine and the key of its addresses."""
    engine = values.get("electionEngine", "controller").strip()
    return engine, "etcdEndpoints" if engine == "etcd" else "controllerAddr"


def _addresses(values: Mapping[str, str]) -> list[str]:
    return split_addresses(values.get(_engine(values)[1], ""))


def election_problems(description: Description, servers: Sequence[Server]) -> Iterator[str]:
    """Return a sentence for each error."""
    for server in servers:
        values = server.values
        if server.kind != "master" or not elected(values):
            continue
        engine, key = _engine(values)
        if not _addresses(values):
            yield f"enableControllerMode=true of {server.name} with electionEngine={engine} needs {key}"
        for address in _addresses(values):
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
        if len(_addresses(values)) in (1, 2):
            what = "members of etcd" if engine == "etcd" else "controllers"
            yield f"{key} of {name} has {len(_addresses(values))} of the {what}: with three, one may be lost"
        if values.get("fencing") == "rocketmq":
            yield f"fencing=rocketmq of {name}: a master without its engine acknowledges what is lost later"
