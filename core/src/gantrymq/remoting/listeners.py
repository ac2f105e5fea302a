"""Named listeners: the addresses on which a server listens besides its main one, and the names of all of them.

    listeners = internal=remoting://10.0.0.5:10921,external=remoting+tls://0.0.0.0:10931

The main listener (bindAddress, listenPort) is called ``default``. A connection knows the name of its listener, and a
name server answers routes with the addresses that brokers advertise for the listener of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, parse_address

DEFAULT_LISTENER: Final = "default"  # the main listener

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PROTOCOLS: Final = {"remoting": False, "remoting+tls": True}  # whether TLS is required
_FORM: Final = "NAME=PROTOCOL://HOST:PORT, several separated by commas, with the protocol remoting or remoting+tls"

LISTENERS_SETTING = Setting.text(
    "listeners",
    "",
    "Further addresses to listen on, NAME=PROTOCOL://HOST:PORT separated by commas; the protocol remoting accepts TLS "
    "as tls.server.mode says, remoting+tls requires it (GantryMQ's own).",
)


class NamedListener(NamedTuple):
    """One entry of the setting."""

    name: str
    tls: bool  # clients without TLS are refused
    host: str
    port: int


def listeners_of(settings: Settings) -> tuple[NamedListener, ...]:
    """Return the entries of the setting ``listeners``.

    Raises:
        ConfigError: an entry is malformed, its protocol is unknown, or a name occurs twice or is ``default``.
    """
    found = []
    for name, text in named_entries(settings, LISTENERS_SETTING.key, _FORM):
        protocol, _, address = text.partition("://")
        try:
            if name == DEFAULT_LISTENER:
                raise ValueError(f"{name} is the name of the main listener, which bindAddress and listenPort set")
            if protocol not in _PROTOCOLS:
                raise ValueError(f"{name}={text} has no known protocol")
            found.append(NamedListener(name, _PROTOCOLS[protocol], *parse_address(address)))
        except ValueError as problem:
            raise _problem(settings, LISTENERS_SETTING.key, str(problem), _FORM) from None
    return tuple(found)


def named_entries(settings: Settings, key: str, form: str) -> Iterator[tuple[str, str]]:
    """Iterate over the entries ``NAME=TEXT`` of a text key; *form* describes them in errors.

    Raises:
        ConfigError: an entry has no name, or a name occurs twice.
    """
    seen = set()
    for entry in filter(None, map(str.strip, settings.text(key).split(","))):
        name, mark, text = (part.strip() for part in entry.partition("="))
        if not mark or not _NAME.fullmatch(name):
            raise _problem(settings, key, f"{entry} does not start with a name of letters, digits, - _ . and =", form)
        if name in seen:
            raise _problem(settings, key, f"{name} occurs twice", form)
        seen.add(name)
        yield name, text


def _problem(settings: Settings, key: str, problem: str, form: str) -> ConfigError:
    return ConfigError(f"{settings.source(key)}: {key}: {problem}; write {form}")


def text_of_addresses(addresses: Mapping[str, str]) -> str:
    """Return the text of a broker's addresses by name of its listener, as registrations contain it."""
    return ",".join(f"{name}={address}" for name, address in addresses.items())


def addresses_of_text(text: str) -> dict[str, str]:
    """Return the addresses of `text_of_addresses`.

    Raises:
        ValueError: an entry is not ``NAME=HOST:PORT``.
    """
    entries = (entry.partition("=") for entry in text.split(",") if entry)
    return {name: format_address(*parse_address(address)) for name, _, address in entries}
