"""Name servers: parsing of their list, and selection of the next one. No I/O.

Each request goes to one server. A server stays selected until a request to it fails; the next request goes to the next
server in the list. The list is shuffled once per client, so that many clients spread over all servers.

Sources: apache/rocketmq remoting/.../netty/NettyRemotingClient.java (updateNameServerAddressList,
getAndCreateNameserverChannel), common/.../utils/NameServerAddressUtils.java.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, parse_address, split_addresses

DEFAULT_NAMESRV = "127.0.0.1:9876"
_ENVIRONMENT = "NAMESRV_ADDR"


def given_namesrv(given: str | None, environ: Mapping[str, str]) -> str:
    """Return *given*, else $NAMESRV_ADDR, else an empty string."""
    return (given or "").strip() or environ.get(_ENVIRONMENT, "").strip()


def resolve_namesrv(given: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the addresses in *given*, else in $NAMESRV_ADDR, else 127.0.0.1:9876.

    Raises:
        ConfigError: an address is not host:port.
    """
    if given is not None and given.strip():
        return parse_namesrv(given, "the name server address")
    if environ.get(_ENVIRONMENT, "").strip():
        return parse_namesrv(environ[_ENVIRONMENT], f"${_ENVIRONMENT}")
    return (DEFAULT_NAMESRV,)


def parse_namesrv(text: str, where: str) -> tuple[str, ...]:
    """Split ``host:port;host:port``; commas separate as well, and ``http://`` up to the last slash is removed.

    Raises:
        ConfigError: empty, no text, or a part is not host:port; *where* is the prefix of the message.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{where}: {text!r} is not host:port, such as {DEFAULT_NAMESRV}")
    found: list[str] = []
    for part in split_addresses(text):
        address = part.rpartition("/")[2] if part.startswith("http://") else part
        if not address:
            continue
        try:
            host, port = parse_address(address)
        except ValueError:
            raise ConfigError(f"{where}: {part!r} is not host:port, such as {DEFAULT_NAMESRV}") from None
        if (address := format_address(host, port)) not in found:
            found.append(address)
    if not found:
        raise ConfigError(f"{where}: {text!r} names no server; write host:port;host:port")
    return tuple(found)


class NameServerList:
    """The list of name servers and the selected one."""

    def __init__(self, addresses: tuple[str, ...], chance: random.Random) -> None:
        """*addresses*: at least one; *chance* shuffles them and selects the first."""
        self.addresses = addresses
        self._chance = chance
        self._shuffled = list(addresses)
        chance.shuffle(self._shuffled)
        self._index = chance.randrange(999)
        self._chosen: str | None = None

    def __len__(self) -> int:
        return len(self.addresses)

    def update(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        """Replace the list by *addresses*; return the removed ones. The selected server stays selected if it is still
        listed.

        A different order of the same servers is not a change.
        """
        gone = tuple(address for address in self.addresses if address not in addresses)
        if set(addresses) != set(self.addresses):
            self._shuffled = list(addresses)
            self._chance.shuffle(self._shuffled)
        self.addresses = addresses
        if self._chosen in gone:
            self._chosen = None
        return gone

    def choose(self) -> str:
        """Return the server for the next request."""
        if self._chosen is None:
            self._index += 1
            self._chosen = self._shuffled[self._index % len(self._shuffled)]
        return self._chosen

    def failed(self, address: str) -> None:
        """Deselect *address* if it is selected: the next request goes to the next server."""
        if self._chosen == address:
            self._chosen = None
