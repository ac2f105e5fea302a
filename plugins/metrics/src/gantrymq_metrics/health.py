"""Health check: the store accepts writes, and the broker is registered with a name server."""

from __future__ import annotations

from typing import Any

from gantrymq.interfaces import Broker


def health(broker: Broker) -> dict[str, Any]:
    """Return the contents of ``/healthz``.

    ``healthy`` is false if ``problems`` is not empty: the store refuses writes, a table cannot be saved, or name
    servers are configured and none of them has the broker registered. A single failing name server of several is
    reported in ``nameServers`` only.
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
