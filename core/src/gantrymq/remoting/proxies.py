"""Proxies that may send PROXY protocol headers.

The sender of such a header chooses the client address that appears in logs and stored messages. Headers are therefore
accepted only from the proxies in the setting and from loopback addresses.
"""

from __future__ import annotations

import ipaddress

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError, RemoteProtocolError

__all__ = ["PROXY_SETTING", "TrustedProxies", "trusted_proxies"]

PROXY_SETTING = Setting.text(
    "proxyProtocolAddresses",
    "",
    "Proxies that may send PROXY protocol headers: addresses or networks (10.0.0.0/8), separated by commas; loopback "
    "addresses are always trusted.",
    local=True,
)


class TrustedProxies:
    """Trusted networks of proxies. Loopback addresses are always trusted."""

    def __init__(self, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()) -> None:
        self._networks = networks

    def check(self, host: str) -> None:
        """Check that *host* may send a PROXY header.

        Raises:
            RemoteProtocolError: it is not a trusted proxy.
        """
        if not self._known(host):
            raise RemoteProtocolError(
                f"the peer sends a PROXY header and is not a proxy; if it is one, add {host} to {PROXY_SETTING.key}"
            )

    def _known(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:  # not an IP address
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address.is_loopback or any(address in network for network in self._networks)


def trusted_proxies(settings: Settings) -> TrustedProxies:
    """Return the proxies in ``proxyProtocolAddresses``.

    Raises:
        ConfigError: an entry is neither an address nor a network.
    """
    words = [word.strip() for word in settings.text(PROXY_SETTING.key).split(",")]
    try:
        return TrustedProxies(tuple(ipaddress.ip_network(word, strict=False) for word in words if word))
    except ValueError as error:
        raise ConfigError(
            f"{settings.source(PROXY_SETTING.key)}: {PROXY_SETTING.key}: {error}; write addresses or networks such as "
            "10.0.0.0/8, separated by commas"
        ) from None
