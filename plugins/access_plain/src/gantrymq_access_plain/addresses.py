"""Patterns of client addresses in plain_acl.yml, for IPv4 and IPv6.

    *   *.*.*.*   *:*:*:*:*:*:*:*     every address
    10.1.2.3   2001:db8::1            one address
    10.1.2.3,10.1.2.4                 several
    10.1.2.{3,4}   2001:db8::{1,2}    alternatives of the last part
    10.1.2.*   10.1.*.*   10.1.2-5.*  a part may be a range (0-255; hexadecimal in IPv6), the parts after it are *

Source: apache/rocketmq acl/.../plain/RemoteAddressStrategyFactory.java (4.9.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import attrs

from gantrymq.errors import FormatError

Address = IPv4Address | IPv6Address

MOST_CHARACTERS: Final = 10_000  # of one pattern
_ALL: Final = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_GROUP: Final = re.compile(r"([^{},]*[.:])\{([^{}]*)\}")
_SHOWN: Final = 60


@attrs.frozen
class Span:
    """All addresses of one version from the first to the last."""

    version: int
    first: int
    last: int

    def __contains__(self, address: Address) -> bool:
        return address.version == self.version and self.first <= int(address) <= self.last


@attrs.frozen
class AddressPattern:
    """A parsed pattern."""

    text: str
    is_all: bool = False
    addresses: frozenset[Address] = frozenset()
    span: Span | None = None

    def matches(self, address: str) -> bool:
        """Return whether the pattern has this address; an IPv4 address in IPv6 form counts as IPv4."""
        if self.is_all:
            return True
        found = parse_address(address)
        return found is not None and (found in self.addresses or (self.span is not None and found in self.span))


class AddressPatterns:
    """Several patterns; looked up in constant time for single addresses."""

    def __init__(self, patterns: Iterable[AddressPattern]) -> None:
        """Prepare the lookup."""
        every = list(patterns)
        self._all = any(each.is_all for each in every)
        self._addresses = frozenset(address for each in every for address in each.addresses)
        self._spans = tuple(each.span for each in every if each.span is not None)
        self.is_empty = not every

    def matches(self, address: str) -> bool:
        """Return whether a pattern has this address."""
        if self._all or self.is_empty:
            return self._all
        found = parse_address(address)
        return found is not None and (found in self._addresses or any(found in each for each in self._spans))


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address | None:
    """Return the address of a client without its zone, a mapped IPv4 address as IPv4; None if it is none."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def parse_pattern(text: str) -> AddressPattern | None:
    """Parse a pattern; None for a blank one.

    Raises:
        FormatError: it is malformed.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > MOST_CHARACTERS:
        raise _malformed(text, f"it has {len(text)} characters, at most {MOST_CHARACTERS} are read")
    if text in _ALL:
        return AddressPattern(text, is_all=True)
    if "{" in text or "}" in text:
        return AddressPattern(text, addresses=frozenset(_alternatives(text)))
    if "," in text:
        return AddressPattern(text, addresses=frozenset(_one(each, text) for each in text.split(",")))
    if "/" in text:
        raise _malformed(text, "networks such as 10.0.0.0/8 are not read here; use 10.*.*.*")
    if "*" in text or "-" in text:
        return AddressPattern(text, span=_span(text))
    return AddressPattern(text, addresses=frozenset((_one(text, text),)))


def _malformed(text: str, why: str) -> FormatError:
    return FormatError(f"the address pattern {text[:_SHOWN]!r} is malformed: {why}")


def _one(text: str, pattern: str) -> Address:
    found = parse_address(text.strip())
    if found is None:
        raise _malformed(pattern, f"{text.strip()[:_SHOWN]!r} is not an address")
    return found


def _alternatives(text: str) -> Iterable[Address]:
    groups = _GROUP.fullmatch(text)
    if groups is None:
        raise _malformed(text, "alternatives are the last part, such as 10.1.2.{3,4}")
    return [_one(f"{groups[1]}{each.strip()}", text) for each in groups[2].split(",")]


@attrs.frozen
class _Notation:
    """How the parts of an address are written."""

    version: int
    parts: int
    bits: int  # of a part
    digits: re.Pattern[str]
    base: int
    limit: str  # for errors

    def number(self, part: str, pattern: str) -> int:
        """Return the number of one part. Raises FormatError."""
        found = int(part, self.base) if self.digits.fullmatch(part) else -1
        if not 0 <= found < 1 << self.bits:
            raise _malformed(pattern, f"the part {part[:_SHOWN]!r} is neither *, a range, nor a {self.limit}")
        return found

    def range(self, part: str, pattern: str) -> tuple[int, int]:
        """Return the first and the last number of one part. Raises FormatError."""
        if part == "*":
            return 0, (1 << self.bits) - 1
        first, mark, last = part.partition("-")
        low = self.number(first, pattern)
        high = self.number(last, pattern) if mark else low
        if low > high:
            raise _malformed(pattern, f"the range {part} begins above its end")
        return low, high


_V4: Final = _Notation(4, 4, 8, re.compile(r"[0-9]{1,3}"), 10, "number up to 255")
_V6: Final = _Notation(6, 8, 16, re.compile(r"[0-9a-fA-F]{1,4}"), 16, "hexadecimal number up to ffff")


def _span(text: str) -> Span:
    """Parse fixed parts, at most one range, then only asterisks."""
    notation = _V6 if ":" in text else _V4
    parts = _written_out(text) if notation is _V6 else text.split(".")
    if len(parts) != notation.parts:
        raise _malformed(text, f"it has {len(parts)} parts, an address has {notation.parts}")
    first = last = 0
    is_open = False
    for part in parts:
        if is_open and part != "*":
            raise _malformed(text, "only * may follow * or a range")
        low, high = notation.range(part, text)
        is_open = is_open or part == "*" or "-" in part
        first, last = first << notation.bits | low, last << notation.bits | high
    return Span(notation.version, first, last)


def _written_out(text: str) -> list[str]:
    """Return the parts of an IPv6 pattern, with zeros for a double colon."""
    if text.count("::") > 1 or ":::" in text:
        raise _malformed(text, "it has more than one ::")
    if "::" not in text:
        return text.split(":")
    head, tail = (half.split(":") if half else [] for half in text.split("::"))
    return [*head, *(["0"] * (_V6.parts - len(head) - len(tail))), *tail]
