"""Addresses of peers: `gantrymq.model.hosts` raising remoting errors."""

from __future__ import annotations

from gantrymq.errors import LocalProtocolError
from gantrymq.model import hosts
from gantrymq.model.hosts import format_address

__all__ = ["format_address", "packed_host", "parse_address"]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``.

    Raises:
        LocalProtocolError: the port is missing or outside 0..65535.
    """
    try:
        return hosts.parse_address(text)
    except ValueError as error:
        raise LocalProtocolError(f"{text!r} is not an address: expected host:port") from error


def packed_host(host: str, port: int) -> bytes:
    """Return the address as stored in a record. A host that is not an IP address becomes 0.0.0.0."""
    try:
        return hosts.pack_host(host, port)
    except ValueError:
        return hosts.pack_host("0.0.0.0", port)
