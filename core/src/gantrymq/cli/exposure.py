"""Warnings about servers that other machines can reach without access control.

RocketMQ's servers listen on all addresses by default. Servers started by commands listen on 127.0.0.1 unless
bindAddress is set or, for a broker, brokerIP1 is an address that other machines can reach. Access control is TLS with
client certificates (``tls.server.need.client.auth=require``), or for a broker an authorizer of a plugin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.broker.advertised import ANY_ADDRESSES
from gantrymq.config import Settings
from gantrymq.model.hosts import is_loopback
from gantrymq.remoting.listeners import LISTENERS_SETTING, listeners_of

LOOPBACK: Final = "127.0.0.1"
BROKER_CLOSED: Final = "neither bindAddress nor brokerIP1 is set"  # source of the default address
NAME_SERVER: Final = "name server"
_ROUTES: Final = "read all routes, and register or remove brokers, so that clients go elsewhere"
NAME_SERVER_CLOSED: Final = "bindAddress is not set"


def exposure_notes(servers: Iterable[tuple[str, Settings]]) -> tuple[str, ...]:
    """Return a sentence for each server that listens only on loopback by default, and for each address that other
    machines can reach without access control. *servers*: names ("name server", "broker") and settings.
    """
    servers = list(servers)
    notes = list(dict.fromkeys(_closed(name, settings) for name, settings in servers))  # several brokers are alike
    exposed: dict[str, dict[str, None]] = {}  # host to names, each once
    for name, settings in servers:
        for host, tls in _listens_on(settings).items():
            if not is_loopback(host) and not _controls_access(settings, tls):
                exposed.setdefault(host, {})[name] = None
    notes += [_sentence(host, list(names)) for host, names in exposed.items()]
    return tuple(note for note in notes if note)


def _closed(name: str, settings: Settings) -> str:
    why = settings.source("bindAddress")
    if why not in (BROKER_CLOSED, NAME_SERVER_CLOSED) or not all(map(is_loopback, _listens_on(settings))):
        return ""
    also = ", and brokerIP1 to the address that clients reach" if why == BROKER_CLOSED else ""
    return (
        f"the {name} listens on {LOOPBACK}, this machine alone: {why}. To let others in, set bindAddress=0.0.0.0 or "
        f"one address of this machine{also} (in the settings file, the environment or with --set)"
    )


def _controls_access(settings: Settings, tls: bool) -> bool:
    """Return whether a server identifies clients; *tls*: its listeners require TLS."""
    if "authorizer" in settings.schema and settings.text("authorizer"):
        return True
    return tls and settings.text("tls.server.need.client.auth") == "require"


def _listens_on(settings: Settings) -> dict[str, bool]:
    """Return the hosts on which a server listens, and whether all its listeners there require TLS."""
    enforcing = settings.text("tls.server.mode") == "enforcing"
    hosts = {settings.text("bindAddress"): enforcing}
    for each in listeners_of(settings) if LISTENERS_SETTING.key in settings.schema else ():
        hosts[each.host] = hosts.get(each.host, True) and (each.tls or enforcing)
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
