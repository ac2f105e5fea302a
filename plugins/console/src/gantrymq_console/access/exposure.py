"""Who can reach a console, and whether that is permitted.

On a loopback address a console needs a log-in or ``--no-login``. Visitors from elsewhere, directly or through a proxy,
need users and encryption: TLS of the console, or a trusted proxy that serves HTTPS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.model import is_host_name

__all__ = ["Exposure", "Networks", "check", "is_loopback", "names_of", "networks_of"]

Networks: TypeAlias = "tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]"


@attrs.frozen
class Exposure:
    """Under which names and how a console is reached."""

    hosts: frozenset[str] = frozenset()  # names that Host may have, besides loopback addresses
    secure: bool = False  # whether browsers use HTTPS: TLS of ours or of a trusted proxy
    proxies: Networks = ()  # addresses whose X-Forwarded-* headers count

    def is_proxy(self, address: str) -> bool:
        """Return whether *address* is a trusted proxy's."""
        if not self.proxies:
            return False
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self.proxies)


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def networks_of(texts: Iterable[str]) -> Networks:
    """Return the networks of ``--trusted-proxy``: addresses, or networks such as 10.0.0.0/8. Raises ConfigError."""
    found = []
    for text in texts:
        try:
            network = ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            raise ConfigError(
                f"--trusted-proxy {text}: this is neither an IP address nor a network such as 10.0.0.0/8"
            ) from None
        if network.prefixlen == 0:
            raise ConfigError(f"--trusted-proxy {text}: this trusts every address; name the proxy's address")
        found.append(network)
    return tuple(found)


def names_of(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of ``--host-name``, in lower case. Raises ConfigError: an address with scheme, port or path."""
    for text in texts:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            if not is_host_name(text):
                raise ConfigError(
                    f"--host-name {text}: write the name in the browser's address line without scheme, port and path, "
                    "such as console.example.com"
                ) from None
    return frozenset(text.lower() for text in texts)


def check(
    host: str,
    *,
    log_in: bool,
    users: Sequence[str],
    user_header: bool,
    tls: bool,
    names: frozenset[str],
    proxies: Networks,
) -> Exposure:
    """Return the exposure of a console on *host*.

    Args:
        log_in: whether visitors have to log in.
        users: names of those who can.
        user_header: whether a proxy names the users.
        tls: whether the console serves HTTPS itself.
        names: public names.
        proxies: trusted proxies.

    Raises:
        ConfigError: the console would be open to others; the sentence names the option to add.
    """
    if user_header and not proxies:
        raise ConfigError(
            "--user-header counts in requests of trusted proxies only: add --trusted-proxy with the proxy's address"
        )
    if user_header and not log_in:
        raise ConfigError("--no-login and --user-header exclude each other: leave one of them out")
    local = is_loopback(host) and not proxies
    where = f"on {host}" if not is_loopback(host) else "through a proxy"
    if not local and not log_in:
        raise ConfigError(
            f"--no-login is for a console that only this machine reaches, and others reach this one {where}: leave "
            "--no-login out"
        )
    if not local and not user_header and not users:
        raise ConfigError(
            f"others reach this console {where}, and there is no user who could log in: add one with `gantrymq console "
            "user add NAME --role admin` (with the same --state, if any), or let a trusted proxy name the users with "
            "--user-header"
        )
    if not is_loopback(host) and not tls and not proxies:
        raise ConfigError(
            f"passwords would cross the network unencrypted {where}: add --tls-cert and --tls-key, or, behind a proxy "
            "that serves HTTPS, --trusted-proxy with its address"
        )
    own = frozenset() if is_loopback(host) or host in ("", "0.0.0.0", "::") else frozenset({host.lower()})
    return Exposure(names | own, secure=tls or bool(proxies), proxies=proxies)
