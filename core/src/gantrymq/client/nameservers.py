"""Name servers: reading their list, and which one to ask next. No I/O.

One server is asked per call. It stays the chosen one until a call to it fails; the next call goes to the one after it.
The list is shuffled once per client, so that many clients spread over all servers.

Sources: apache/rocketmq remoting/.../netty/NettyRemotingClient.java (updateNameServerAddressList,
getAndCreateNameserverChannel), common/.../utils/NameServerAddressUtils.java.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from gantrymq.errors import ConfigError
from gantrymq.model.hosts import format_address, parse_address

__all__ = ["DEFAULT_NAMESRV", "NameServerList", "given_namesrv", "parse_namesrv", "resolve_namesrv"]

DEFAULT_NAMESRV = "127.0.0.1:9876"
ENVIRONMENT = "NAMESRV_ADDR"


def given_namesrv(given: str | None, environ: Mapping[str, str]) -> str:
    """What says the name servers: *given*, else $NAMESRV_ADDR; empty where neither does."""
    return (given or "").strip() or environ.get(ENVIRONMENT, "").strip()


def resolve_namesrv(given: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses in force: those given, else those of $NAMESRV_ADDR, else 127.0.0.1:9876.

    Raises:
        ConfigError: an address is not host:port.
    """
    if given is not None and given.strip():
        return parse_namesrv(given, "the name server address")
    if environ.get(ENVIRONMENT, "").strip():
        return parse_namesrv(environ[ENVIRONMENT], f"${ENVIRONMENT}")
    return (DEFAULT_NAMESRV,)


def parse_namesrv(text: str, where: str) -> tuple[str, ...]:
    """Split ``host:port;host:port``; commas separate as well, and ``http://`` up to the last slash is cut off.

    Raises:
        ConfigError: empty, or a part that is not host:port; *where* stands in front of the sentence.
    """
    found: list[str] = []
    for part in text.replace(",", ";").split(";"):
        address = part.strip()
        if address.startswith("http://"):
            address = address.rpartition("/")[2]
        if not address:
            continue
        try:
            host, port = parse_address(address)
        except ValueError:
            raise ConfigError(f"{where}: {part.strip()!r} is not host:port, such as {DEFAULT_NAMESRV}") from None
        if (address := format_address(host, port)) not in found:
            found.append(address)
    if not found:
        raise ConfigError(f"{where}: {text!r} names no server; write host:port;host:port")
    return tuple(found)


class NameServerList:
    """Remembers which server is asked."""

    def __init__(self, addresses: tuple[str, ...], chance: random.Random) -> None:
        """*addresses*: at least one; *chance* shuffles them and draws where to begin."""
        self.addresses = addresses
        self._chance = chance
        self._shuffled = list(addresses)
        chance.shuffle(self._shuffled)
        self._index = chance.randrange(999)
        self._chosen: str | None = None

    def __len__(self) -> int:
        return len(self.addresses)

    def update(self, addresses: tuple[str, ...]) -> tuple[str, ...]:
        """Ask *addresses* from now on; returns those that are asked no more. The chosen one stays if it is among them.

        The same servers in another order are no change.
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
        """The server for the next call."""
        if self._chosen is None:
            self._index += 1
            self._chosen = self._shuffled[self._index % len(self._shuffled)]
        return self._chosen

    def failed(self, address: str) -> None:
        """Forget *address* if it is the chosen one: the next call goes to the one after it."""
        if self._chosen == address:
            self._chosen = None
