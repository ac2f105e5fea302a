"""The document of definitions. No I/O.

    {
      "definitions_version": 1,
      "cluster": "DefaultCluster",
      "brokers": ["broker-a", "broker-b"],
      "topics": {
        "Orders": {"read_queues": 8, "write_queues": 8,
                   "brokers": {"broker-b": {"read_queues": 4, "write_queues": 4}}},
        "Audit": {"read_queues": 1, "write_queues": 1, "only_at": ["broker-a"]}
      },
      "groups": {"billing": {"retry_max_times": 3}},
      "order_configs": {"Orders": "broker-a:8;broker-b:4"}
    }

A definition has the values that most brokers have; ``brokers`` has what differs at one, ``only_at`` the brokers that
have it, if not all do. Members with their default are left out. Without top-level ``brokers`` the definitions are those
of every broker. The text has one member a line, sorted by name, and no times: it changes only with the definitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.errors import ClientError
from gantrymq_admin.definitions.fields import KINDS, Kind, Values

__all__ = ["VERSION", "Definition", "DefinitionsInvalid", "Document", "combine"]

VERSION: Final = 1


class DefinitionsInvalid(ClientError):
    """Raised if a document is not one of definitions, or does not fit the cluster; nothing was changed."""


@attrs.frozen
class Definition:
    """One topic or group."""

    common: Values
    only_at: tuple[str, ...] | None = None  # brokers that have it; None for all
    exceptions: Mapping[str, Values] = attrs.field(factory=dict)  # all members, by broker

    def at(self, broker: str | None) -> Values | None:
        """Return the members at one broker of the document, None if it does not have the definition.

        *broker* is None if the document has no brokers.
        """
        if broker is None:
            return self.common
        if self.only_at is not None and broker not in self.only_at:
            return None
        return self.exceptions.get(broker, self.common)


@attrs.frozen
class Document:
    """The definitions of a cluster."""

    cluster: str  # it was exported from; "" if not known
    brokers: tuple[str, ...]  # sorted; empty if the definitions are for every broker
    definitions: Mapping[Kind, Mapping[str, Definition]]
    order_configs: Mapping[str, str]  # by topic: "broker-a:4;broker-b:8"

    def count(self, kind: Kind) -> int:
        """Return the number of topics or groups."""
        return len(self.definitions[kind])

    def to_text(self) -> str:
        """Return the JSON text."""
        members: dict[str, Any] = {"definitions_version": VERSION}
        if self.cluster:
            members["cluster"] = self.cluster
        if self.brokers:
            members["brokers"] = list(self.brokers)
        for kind in KINDS:
            found = self.definitions[kind]
            members[kind.section] = {name: _members(kind, found[name]) for name in sorted(found)}
        members["order_configs"] = dict(sorted(self.order_configs.items()))
        return json.dumps(members, indent=2, ensure_ascii=False) + "\n"


def combine(kind: Kind, at: Mapping[str, Values], brokers: Sequence[str]) -> Definition:
    """Return the definition for its values by broker.

    The common value of a member is the most frequent one; of equally frequent ones, the value at the first broker.

    Args:
        kind: of the definition.
        at: values of the brokers that have it, sorted by broker; not empty.
        brokers: all brokers.
    """
    only_at = None if len(at) == len(brokers) else tuple(at)
    first, *others = at.values()
    if all(each == first for each in others):
        return Definition(first, only_at)
    common = {field.name: _most_frequent([values[field.name] for values in at.values()]) for field in kind.fields}
    return Definition(
        common,
        only_at,
        exceptions={broker: values for broker, values in at.items() if kind.differing(common, values)},
    )


def _most_frequent(values: list[Any]) -> Any:
    return max(values, key=values.count)  # the first of the maximums


def _members(kind: Kind, definition: Definition) -> dict[str, Any]:
    members = kind.shown(definition.common)
    if definition.only_at is not None:
        members["only_at"] = list(definition.only_at)
    if definition.exceptions:
        members["brokers"] = {
            broker: {name: values[name] for name in kind.differing(definition.common, values)}
            for broker, values in sorted(definition.exceptions.items())
        }
    return members
