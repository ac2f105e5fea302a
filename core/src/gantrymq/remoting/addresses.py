"""Addresses as text ``host:port`` and as the bytes that records hold."""

from __future__ import annotations

import ipaddress

from gantrymq.errors import LocalProtocolError

__all__ = ["format_address", "packed_host", "parse_address"]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        LocalProtocolError: no port, or one outside 0..65535.
    """
    host, _, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise LocalProtocolError(f"{text!r} is no address: expected host:port")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def packed_host(host: str, port: int) -> bytes:
    """Return the address as a record holds it: 4 or 16 bytes of IP and the port as int32, big-endian.

    An IPv4 address inside IPv6 counts as IPv4, as in Java; a host that is no IP address becomes 0.0.0.0.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return bytes(4) + port.to_bytes(4, "big")
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).packed + port.to_bytes(4, "big")
