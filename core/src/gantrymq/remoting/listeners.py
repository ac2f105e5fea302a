"""Named listeners: the addresses on which a server listens besides its main one, and the names of all of them.

    listeners = internal=remoting://10.0.0.5:10921,external=remoting+tls://0.0.0.0:10931,sdk=grpc://0.0.0.0:8081

The main listener (bindAddress, listenPort) is called ``default``. A connection knows the name of its listener, and a
name server answers routes with the addresses that brokers advertise for the listener of the same name. A broker's
listeners may have protocols of plugins (`gantrymq.hooks.gantry_register_protocols`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, parse_address

DEFAULT_LISTENER: Final = "default"  # the main listener

REMOTING: Final = "remoting"
GRPC: Final = "grpc"  # a protocol of the plugin `GRPC_TO_INSTALL`
GRPC_TO_INSTALL: Final = "gantrymq-grpc"

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PROTOCOL: Final = re.compile(r"([a-z][a-z0-9.-]*)(\+tls)?")
_FORM: Final = "NAME=PROTOCOL://HOST:PORT, several separated by commas"

LISTENERS_SETTING = Setting.text(
    "listeners",
    "",
    "Further addresses to listen on, NAME=PROTOCOL://HOST:PORT separated by commas; the protocol remoting accepts TLS "
    "as tls.server.mode says, remoting+tls requires it; a broker also has those of plugins, such as grpc and grpc+tls "
    "(GantryMQ's own).",
)


LISTENER_ACCESS_SETTING = Setting.text(
    "listenerAccess",
    "",
    "Whether a listener serves requests without an account while an authorizer is selected, NAME=required or "
    "NAME=optional separated by commas; such requests may do everything, default: required (GantryMQ's own).",
)
_ACCESS_FORM: Final = "NAME=required or NAME=optional, several separated by commas"


class NamedListener(NamedTuple):
    """One entry of the setting."""

    name: str
    tls: bool  # clients without TLS are refused
    host: str
    port: int
    protocol: str = REMOTING


def listeners_of(settings: Settings, *, any_protocol: bool = False) -> tuple[NamedListener, ...]:
    """Return the entries of the setting ``listeners``.

    With *any_protocol*, the protocols are not checked: `gantrymq.broker.protocols` does that for a broker.

    Raises:
        ConfigError: an entry is malformed, its protocol is not remoting, or a name occurs twice or is ``default``.
    """
    found = []
    for name, text in named_entries(settings, LISTENERS_SETTING.key, _FORM):
        protocol, _, address = text.partition("://")
        try:
            if name == DEFAULT_LISTENER:
                raise ValueError(f"{name} is the name of the main listener, which bindAddress and listenPort set")
            found_protocol = _PROTOCOL.fullmatch(protocol)
            if found_protocol is None:
                raise ValueError(f"{name}={text} does not begin with a protocol")
            word, tls = found_protocol.groups()
            listener = NamedListener(name, tls is not None, *parse_address(address), word)
            if word != REMOTING and not any_protocol:
                raise ValueError(unknown_protocol(listener))
            found.append(listener)
        except ValueError as problem:
            raise _problem(settings, LISTENERS_SETTING.key, str(problem), _FORM) from None
    return tuple(found)


def unknown_protocol(listener: NamedListener, others: Iterable[str] = ()) -> str:
    """Return the sentence about a protocol that is neither remoting nor one of *others*."""
    known = ", ".join(f"{each}, {each}+tls" for each in (REMOTING, *others))
    return f"{listener.name} has the protocol {listener.protocol}, and this server has only {known}"


def optional_access(settings: Settings) -> frozenset[str]:
    """Return the names of the listeners that serve requests without an account: the setting ``listenerAccess``.

    Raises:
        ConfigError: an entry is malformed, or names no listener.
    """
    known = [DEFAULT_LISTENER, *(each.name for each in listeners_of(settings, any_protocol=True))]
    optional = set()
    for name, text in named_entries(settings, LISTENER_ACCESS_SETTING.key, _ACCESS_FORM):
        if name not in known:
            problem = f"{name} is no listener; there is {', '.join(known)}"
            raise _problem(settings, LISTENER_ACCESS_SETTING.key, problem, _ACCESS_FORM)
        if text not in ("required", "optional"):
            raise _problem(settings, LISTENER_ACCESS_SETTING.key, f"{name}={text} is unknown", _ACCESS_FORM)
        if text == "optional":
            optional.add(name)
    return frozenset(optional)


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
