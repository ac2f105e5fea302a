"""Decisions of one user's policies, compiled so that their cost does not depend on the number of entries.

    the entries of the custom policy; only if none of them applies, those of the default policy
        a literal name, before the longest prefix, before shorter ones, before Type:*, before *
            an entry applies if it has one of the wanted actions, or All, and the client's address is in its networks
            the first that applies decides; of two for the same resource, Deny

This is the order of RocketMQ 5.4. Up to 5.3.3, the shorter prefix takes precedence, and of a literal name and a prefix
the entry that was created later (issue 9539 of apache/rocketmq).

Source: apache/rocketmq auth/.../authorization/chain/AclAuthorizationHandler.java (handle, matchPolicyEntries,
comparePolicyEntries).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryType,
    Pattern,
    PolicyType,
    parse_network,
    source_network,
)

_BIT: Final = {action: 1 << index for index, action in enumerate(EntryAction)}
_EVERY: Final = (1 << len(EntryAction)) - 1

NO_MATCH: Final = "no matched policies"
DENIED: Final = "the decision is deny"


class Verdict(NamedTuple):
    """A decision, and what it is based on."""

    allowed: bool
    policy: PolicyType | None = None  # of the entry
    entry: Entry | None = None  # the deciding one; None: none applies

    @property
    def reason(self) -> str:
        """RocketMQ's words for a refusal."""
        return NO_MATCH if self.entry is None else DENIED


class _Address(NamedTuple):
    """The address of a client."""

    bits: int  # 32 or 128; 0 if unknown
    number: int


@lru_cache(maxsize=65_536)
def _address(text: str) -> _Address:
    found = source_network(text)
    return _Address(0, 0) if found is None else _Address(found.max_prefixlen, int(found.network_address))


class _Networks:
    """A set of networks: by size, the numbers of those with this size."""

    __slots__ = ("_of_bits",)

    def __init__(self, texts: Iterable[str]) -> None:
        self._of_bits: dict[int, dict[int, set[int]]] = {}  # address bits -> host bits -> network numbers
        for network in map(parse_network, texts):
            host_bits = network.max_prefixlen - network.prefixlen
            by_size = self._of_bits.setdefault(network.max_prefixlen, {})
            by_size.setdefault(host_bits, set()).add(int(network.network_address) >> host_bits)

    def __contains__(self, address: _Address) -> bool:
        by_size = self._of_bits.get(address.bits, {})
        return any(address.number >> host_bits in numbers for host_bits, numbers in by_size.items())


class _Rule(NamedTuple):
    """An entry, compiled."""

    actions: int  # bits
    networks: _Networks | None  # None: all
    entry: Entry

    def applies(self, actions: int, address: str) -> bool:
        return bool(self.actions & actions) and (self.networks is None or _address(address) in self.networks)


_Rules = tuple[_Rule, ...]


class _OfType:
    """The entries of one policy and one type of resource."""

    __slots__ = ("every", "lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, _Rules] = {}
        self.prefixes: dict[str, _Rules] = {}
        self.lengths: list[int] = []  # of the prefixes, the longest first
        self.every: _Rules = ()  # of Type:*


class _Compiled:
    """The entries of one policy."""

    __slots__ = ("_everything", "_of_type")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._of_type: dict[EntryType, _OfType] = {}
        self._everything: _Rules = ()  # of *
        for entry in entries:
            self._add(entry)
        for each in self._of_type.values():
            each.lengths = sorted({len(prefix) for prefix in each.prefixes}, reverse=True)

    def _add(self, entry: Entry) -> None:
        actions = _EVERY if EntryAction.ALL in entry.actions else sum(_BIT[each] for each in entry.actions)
        rule = _Rule(actions, _Networks(entry.sources) if entry.sources else None, entry)
        resource = entry.resource
        if resource.type is EntryType.ANY:
            self._everything = _with(self._everything, rule)
            return
        of_type = self._of_type.setdefault(resource.type, _OfType())
        if resource.pattern is Pattern.ANY:
            of_type.every = _with(of_type.every, rule)
            return
        by_name = of_type.literals if resource.pattern is Pattern.LITERAL else of_type.prefixes
        by_name[resource.name] = _with(by_name.get(resource.name, ()), rule)

    def strongest(self, actions: int, type_: EntryType, name: str, address: str) -> Entry | None:
        """Return the deciding entry, if one applies."""
        for rules in self._candidates(type_, name):
            for rule in rules:
                if rule.applies(actions, address):
                    return rule.entry
        return None

    def _candidates(self, type_: EntryType, name: str) -> Iterator[_Rules]:
        of_type = self._of_type.get(type_)
        if of_type is not None:
            if (found := of_type.literals.get(name)) is not None:
                yield found
            for length in of_type.lengths:
                if length <= len(name) and (found := of_type.prefixes.get(name[:length])) is not None:
                    yield found
            yield of_type.every
        yield self._everything


def _with(rules: _Rules, added: _Rule) -> _Rules:
    """Return *rules* of one resource with another one; Deny is first."""
    return (*rules, added) if added.entry.is_allowed else (added, *rules)


class Decider:
    """The policies of one user, compiled at the first decision."""

    __slots__ = ("_compiled", "acl")

    def __init__(self, acl: Acl) -> None:
        self.acl = acl
        self._compiled: list[tuple[PolicyType, _Compiled]] | None = None

    def compile(self) -> None:
        """Compile the policies now; for many entries in a thread, before the first decision."""
        self._compiled = [(kind, _Compiled(self.acl.entries(kind))) for kind in (PolicyType.CUSTOM, PolicyType.DEFAULT)]

    def decide(self, actions: Iterable[EntryAction], type_: EntryType, name: str, address: str) -> Verdict:
        """Decide whether the user may perform at least one of *actions* on a resource.

        Args:
            address: of the client, without port; entries with networks do not apply to an unknown address.
        """
        if self._compiled is None:
            self.compile()
        wanted = 0
        for each in actions:
            wanted |= _BIT[each]
        for kind, compiled in self._compiled or ():
            entry = compiled.strongest(wanted, type_, name, address)
            if entry is not None:
                return Verdict(entry.is_allowed, kind, entry)
        return Verdict(False)
