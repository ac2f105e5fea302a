"""What a user who is not Super may give to others: what its own policies allow, wherever the request comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.errors import InvalidParameter
from gantrymq_access.records import (
    Acl,
    Entry,
    EntryAction,
    EntryResource,
    EntryType,
    Pattern,
    PolicyType,
    parse_network,
)

MAX_COMPARED: Final = 1_000_000  # pairs of entries; some take several microseconds
_EVERY: Final = frozenset(EntryAction) - {EntryAction.ALL, EntryAction.ANY}


def lacking(own: Acl | None, before: Acl | None, after: Acl | None) -> Entry | None:
    """Return an entry by which a change of policies gives more than the *own* policies of its sender allow.

    It gives what a new Allow allows, and what a removed or changed Deny denied.

    Raises:
        InvalidParameter: the comparison would take too long.
    """
    kept, new = _entries(before), _entries(after)
    gained = [entry for _, entry in new - kept if entry.is_allowed]
    gained += [entry for _, entry in kept - new if not entry.is_allowed]
    entries = [] if own is None else [entry for policy in own.policies for entry in policy.entries]
    if len(gained) * len(entries) > MAX_COMPARED:
        raise InvalidParameter(
            f"{len(gained)} entries cannot be compared with the {len(entries)} of the user who grants them; grant "
            f"{max(1, MAX_COMPARED // len(entries))} at once, or as a Super user"
        )
    return next((entry for entry in gained if not _is_covered(entry, entries)), None)


def _is_covered(entry: Entry, entries: Iterable[Entry]) -> bool:
    """Return whether *entries* allow all that an entry is about."""
    wanted = _actions(entry)
    for each in entries:
        if not each.is_allowed and _overlap(each.resource, entry.resource) and _actions(each) & wanted:
            return False
    left = set(wanted)
    for each in entries:
        if each.is_allowed and contains(each.resource, entry.resource) and _within(entry.sources, each.sources):
            left -= _actions(each)
    return not left


def contains(outer: EntryResource, inner: EntryResource) -> bool:
    """Return whether *outer* matches every name that *inner* matches."""
    if outer.type is EntryType.ANY:
        return True
    if outer.type is not inner.type or outer.pattern is Pattern.ANY:
        return outer.type is inner.type
    if outer.pattern is Pattern.PREFIX:
        return inner.pattern is not Pattern.ANY and inner.name.startswith(outer.name)
    return outer == inner


def _overlap(one: EntryResource, other: EntryResource) -> bool:
    """Return whether some name matches both; two prefixes do only if one begins with the other."""
    return contains(one, other) or contains(other, one)


def _entries(acl: Acl | None) -> set[tuple[PolicyType, Entry]]:
    return set() if acl is None else {(policy.type, entry) for policy in acl.policies for entry in policy.entries}


def _actions(entry: Entry) -> frozenset[EntryAction]:
    return _EVERY if EntryAction.ALL in entry.actions else frozenset(entry.actions)


def _within(sources: Iterable[str], outer: tuple[str, ...]) -> bool:
    """Return whether all of *sources* (empty: every address) are in one of the networks *outer* (empty: every one)."""
    if not outer:
        return True
    networks = list(map(parse_network, outer))
    inner = list(map(parse_network, sources))
    return bool(inner) and all(
        any(each.version == net.version and each.subnet_of(net) for net in networks)  # type: ignore[arg-type]
        for each in inner
    )
