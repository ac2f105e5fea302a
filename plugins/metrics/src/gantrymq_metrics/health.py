"""Whether the broker can do its work: the store takes writes, and a name server tells clients of it."""

from __future__ import annotations

from typing import Any

from gantrymq.interfaces import Broker


def health(broker: Broker) -> dict[str, Any]:
    """What ``/healthz`` says.

    ``healthy`` is false when *problems* has a sentence: the store refuses writes, a table cannot be saved, or name
    servers are configured and none of them has the broker registered. One name server of several that fails is told
    in ``nameServers`` only.
    """
    figures = broker.metrics()
    problems = []
    refusal = broker.store.state().refusal
    if refusal is not None:
        problems.append(f"the store refuses writes: {refusal}")
    problems += figures.unwritten.values()
    servers = figures.name_servers
    if broker.settings.text("namesrvAddr").strip(" ;") and None not in servers.values():
        reasons = "; ".join(f"{address}: {reason}" for address, reason in servers.items()) or "not registered yet"
        problems.append(f"no name server has this broker registered: {reasons}")
    return {
        "healthy": not problems,
        "problems": problems,
        "cluster": figures.cluster,
        "broker": figures.broker,
        "address": figures.address,
        "nameServers": {address: reason or "registered" for address, reason in servers.items()},
        "parked": dict(figures.parked),
    }
