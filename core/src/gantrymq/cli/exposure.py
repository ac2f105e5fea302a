"""Who can reach the servers of this process: an address that others reach, without anything that asks who they are.

Only clients' certificates keep others out in this version: TLS alone, with ``tls.server.need.client.auth=require``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from gantrymq.broker.server import ANY_ADDRESSES
from gantrymq.config import Settings

__all__ = ["exposure_notes", "is_loopback"]


def exposure_notes(servers: Iterable[tuple[str, Settings]]) -> tuple[str, ...]:
    """A sentence for each address that others reach and that anybody may use; servers by what they are called."""
    exposed: dict[str, list[str]] = {}
    for name, settings in servers:
        host = settings.text("bindAddress")
        if not is_loopback(host) and not _asks_for_certificates(settings):
            exposed.setdefault(host, []).append(name)
    return tuple(_sentence(host, names) for host, names in exposed.items())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches *host*."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _asks_for_certificates(settings: Settings) -> bool:
    return settings.text("tls.server.mode") == "enforcing" and settings.text("tls.server.need.client.auth") == "require"


def _sentence(host: str, names: list[str]) -> str:
    where = f"{host or '0.0.0.0'}, which is every address of this machine" if host in ANY_ADDRESSES else host
    verb = "listen" if len(names) > 1 else "listens"
    return (
        f"the {' and the '.join(names)} {verb} on {where}, without access control: whoever reaches it can read, send "
        "and delete everything. Set bindAddress to an address that only your clients reach (127.0.0.1: this machine "
        "alone), keep others out with a firewall, or let clients show certificates (docs/tls.md)"
    )
