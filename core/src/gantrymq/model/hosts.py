"""Hosts in the format of records: address bytes (4 or 16) and the port as a big-endian int32."""

from __future__ import annotations

import ipaddress
import re
import struct

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_PORT = struct.Struct(">i")


def is_ip_address(host: str) -> bool:
    """Return whether *host* is an IP address, which may have an IPv6 zone."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether *host* is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_host_name(host: str) -> bool:
    """Return whether *host* has the form of a host name. A last label of digits is a misspelt IPv4 address."""
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def pack_host(host: str, port: int) -> bytes:
    """Return 8 bytes for IPv4, 20 for IPv6. An IPv6 zone is removed; an IPv4-mapped address becomes IPv4.

    Raises:
        ValueError: *host* is not an IP address.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + _PORT.pack(port)


def pack_peer(host: str, port: int) -> bytes:
    """Return the address of a peer as stored in a record. A host that is not an IP address becomes 0.0.0.0."""
    try:
        return pack_host(host, port)
    except ValueError:
        return pack_host("0.0.0.0", port)


def unpack_host(packed: bytes | memoryview) -> tuple[str, int]:
    """Return address and port of 8 or 20 packed bytes."""
    raw = bytes(packed)
    return str(ipaddress.ip_address(raw[:-4])), _PORT.unpack(raw[-4:])[0]


def host_text(packed: bytes | memoryview) -> str:
    """Return ``ip:port``, IPv6 in brackets."""
    host, port = unpack_host(packed)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_addresses(text: str) -> list[str]:
    """Return the addresses in *text*, separated by semicolons, as RocketMQ has them, or commas, as etcd has them."""
    return [each.strip() for each in text.replace(",", ";").split(";") if each.strip()]


def parse_address(text: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port``.

    Raises:
        ValueError: *text* is not a string, the port is missing or outside 0..65535, or the host contains a comma or a
            slash, as several addresses and URLs do.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not host:port")
    host, mark, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = port.isascii() and port.isdecimal() and len(port) <= 5
    if not mark or not host or "," in host or "/" in host or not number or int(port) > 65535:
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
