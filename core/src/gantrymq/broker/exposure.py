"""Addresses of servers that other machines can reach without access control.

Access control is TLS with client certificates (``tls.server.need.client.auth=require``), or an authorizer of a plugin
on a listener that demands accounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.broker.advertised import ANY_ADDRESSES
from gantrymq.config import Settings
from gantrymq.model.hosts import is_loopback
from gantrymq.remoting.listeners import (
    DEFAULT_LISTENER,
    LISTENER_ACCESS_SETTING,
    LISTENERS_SETTING,
    listeners_of,
    optional_access,
)

NAME_SERVER: Final = "name server"
_ROUTES: Final = "read all routes, and register or remove brokers, so that clients go elsewhere"


def exposures(servers: Iterable[tuple[str, Settings]]) -> list[str]:
    """Return a sentence for each address that other machines can reach without access control.

    *servers*: names ("name server", "broker") and settings.
    """
    exposed: dict[str, dict[str, None]] = {}  # host to names, each once
    for name, settings in servers:
        for host, controlled in listens_on(settings).items():
            if not is_loopback(host) and not controlled:
                exposed.setdefault(host, {})[name] = None
    return [_sentence(host, list(names)) for host, names in exposed.items()]


def listens_on(settings: Settings) -> dict[str, bool]:
    """Return the hosts on which a server listens, and whether all its listeners there identify clients."""
    authorizer = "authorizer" in settings.schema and settings.text("authorizer")
    optional = optional_access(settings) if LISTENER_ACCESS_SETTING.key in settings.schema else frozenset()
    certificates = settings.text("tls.server.need.client.auth") == "require"
    enforcing = settings.text("tls.server.mode") == "enforcing"
    listeners = [(DEFAULT_LISTENER, settings.text("bindAddress"), enforcing)]
    for each in listeners_of(settings, any_protocol=True) if LISTENERS_SETTING.key in settings.schema else ():
        listeners.append((each.name, each.host, each.tls or enforcing))
    hosts: dict[str, bool] = {}
    for name, host, tls in listeners:
        controlled = bool(authorizer and name not in optional) or (tls and certificates)
        hosts[host] = hosts.get(host, True) and controlled
    return hosts


def _sentence(host: str, names: list[str]) -> str:
    where = f"{host or '0.0.0.0'}, which is every address of this machine" if host in ANY_ADDRESSES else host
    verb = "listen" if len(names) > 1 else "listens"
    return (
        f"the {' and the '.join(names)} {verb} on {where}, without access control: anyone who can reach it can "
        f"{_ROUTES if names == [NAME_SERVER] else 'read, send and delete everything'}. Set bindAddress to an address "
        "that only your clients reach (127.0.0.1: this machine alone), restrict access with a firewall, or require "
        "client certificates (docs/operations/tls.md)"
    )
