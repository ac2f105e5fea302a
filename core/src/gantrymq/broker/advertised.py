"""The addresses under which clients reach a broker: one for each of its listeners, and one in message ids.

routes         advertisedAddresses, else brokerIP1, else the address that the listener is bound to; names are kept
message ids    the IP address of the main listener in routes; a name is resolved once, at the start
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from gantrymq.broker.identity import BrokerIdentity
from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, is_host_name, is_ip_address, parse_address
from gantrymq.remoting.listeners import DEFAULT_LISTENER, listeners_of, named_entries
from gantrymq.world import World

log = logging.getLogger(__name__)

ANY_ADDRESSES: Final = ("0.0.0.0", "::", "")
_KEY: Final = "advertisedAddresses"
_FORM: Final = "NAME=HOST:PORT with an IP address or host name and a port of 1 to 65535, several separated by commas"


class AdvertisedAddresses:
    """The listeners of a broker, and what its settings say about their addresses."""

    def __init__(self, settings: Settings) -> None:
        """Read the settings.

        Raises:
            ConfigError: an entry is malformed, names no listener, or its host is neither an IP address nor a host name.
        """
        self.listeners = listeners_of(settings, any_protocol=True)
        self._settings = settings
        self._host = settings.text("brokerIP1")
        if self._host and not _is_host(self._host):
            raise ConfigError(f"brokerIP1={self._host} is neither an IP address nor a host name")
        names = (DEFAULT_LISTENER, *(each.name for each in self.listeners))
        self._given: dict[str, tuple[str, int]] = {}
        for name, text in named_entries(settings, _KEY, _FORM):
            try:
                if name not in names:
                    raise ValueError(f"no listener is called {name} (there is {', '.join(names)})")
                host, port = self._given[name] = parse_address(text)
                if not _is_host(host) or not port:
                    raise ValueError(f"{name}={text} is not the address of a host")
            except ValueError as problem:
                raise ConfigError(f"{settings.source(_KEY)}: {_KEY}: {problem}; write {_FORM}") from None

    async def identity(
        self, world: World, bound: tuple[str, int], others: Mapping[str, tuple[str, int]]
    ) -> BrokerIdentity:
        """Return the identity of a broker with its main listener at *bound*; *others*: its other ones by name."""
        settings = self._settings
        host, port = self._address(world, DEFAULT_LISTENER, bound)
        return BrokerIdentity(
            settings.text("brokerClusterName"),
            settings.text("brokerName") or world.host_name,
            0,  # a master; a plugin for replication changes it for a slave
            host,
            port,
            ip=host if is_ip_address(host) else await _resolved(world, host, _own(world, bound)),
            listen_port=bound[1],
            listeners={name: format_address(*self._address(world, name, at)) for name, at in others.items()},
        )

    def _address(self, world: World, name: str, bound: tuple[str, int]) -> tuple[str, int]:
        return self._given.get(name) or (self._host or _own(world, bound), bound[1])


def _is_host(host: str) -> bool:
    return is_ip_address(host) or is_host_name(host)


def _own(world: World, bound: tuple[str, int]) -> str:
    """Return this host's own address for a listener at *bound*."""
    return world.network.own_address() if bound[0] in ANY_ADDRESSES else bound[0]


async def _resolved(world: World, host: str, own: str) -> str:
    """Return the IP address of the name *host*, or *own* with a warning."""
    try:
        return await world.network.resolve(host)
    except OSError as error:
        log.warning(
            "the name %s, which this broker advertises, cannot be resolved (%s): message ids contain %s instead",
            *(host, error.strerror or error, own),
        )
        return own
