"""Warnings about servers that other machines can reach without access control.

RocketMQ's servers listen on all addresses by default. Servers started by commands listen on 127.0.0.1 unless
bindAddress is set or, for a broker, brokerIP1 is an address that other machines can reach. Access control is TLS with
client certificates (``tls.server.need.client.auth=require``), or for a broker an authorizer of a plugin.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from gantrymq.broker.server import ANY_ADDRESSES
from gantrymq.config import Settings

__all__ = ["BROKER_CLOSED", "LOOPBACK", "NAME_SERVER_CLOSED", "exposure_notes", "is_loopback"]

LOOPBACK: Final = "127.0.0.1"
BROKER_CLOSED: Final = "neither bindAddress nor brokerIP1 is set"  # source of the default address
NAME_SERVER_CLOSED: Final = "bindAddress is not set"


def exposure_notes(servers: Iterable[tuple[str, Settings]]) -> tuple[str, ...]:
    """Return a sentence for each server that listens only on loopback by default, and for each address that other
    machines can reach without access control. *servers*: names and settings.
    """
    servers = list(servers)
    notes = [_closed(name, settings) for name, settings in servers]
    exposed: dict[str, list[str]] = {}
    for name, settings in servers:
        host = settings.text("bindAddress")
        if not is_loopback(host) and not _controls_access(settings):
            exposed.setdefault(host, []).append(name)
    notes += [_sentence(host, names) for host, names in exposed.items()]
    return tuple(note for note in notes if note)


def _closed(name: str, settings: Settings) -> str:
    why = settings.source("bindAddress")
    if why not in (BROKER_CLOSED, NAME_SERVER_CLOSED):
        return ""
    also = ", and brokerIP1 to the address that clients reach" if why == BROKER_CLOSED else ""
    return (
        f"the {name} listens on {LOOPBACK}, this machine alone: {why}. To let others in, set bindAddress=0.0.0.0 or "
        f"one address of this machine{also} (in the settings file, the environment or with --set)"
    )


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _controls_access(settings: Settings) -> bool:
    if "authorizer" in settings.schema and settings.text("authorizer"):
        return True
    return settings.text("tls.server.mode") == "enforcing" and settings.text("tls.server.need.client.auth") == "require"


def _sentence(host: str, names: list[str]) -> str:
    where = f"{host or '0.0.0.0'}, which is every address of this machine" if host in ANY_ADDRESSES else host
    verb = "listen" if len(names) > 1 else "listens"
    return (
        f"the {' and the '.join(names)} {verb} on {where}, without access control: anyone who can reach it can read, "
        "send and delete everything. Set bindAddress to an address that only your clients reach (127.0.0.1: this "
        "machine alone), restrict access with a firewall, or require client certificates (docs/operations/tls.md)"
    )
