"""The changes that a document of definitions makes in a cluster. No I/O.

An import adds and changes, and never deletes: a definition that only the cluster has is reported. Deleting a topic
deletes its messages, so that remains a command of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq_admin.definitions.cluster_tables import ClusterTables, is_own, left_out, mark_ordered
from gantrymq_admin.definitions.document import Definition, DefinitionsInvalid, Document
from gantrymq_admin.definitions.fields import KINDS, TOPIC, Kind, Values
from gantrymq_admin.topics import Hidden, named_after

ORDER_CONFIG: Final = "order_config"  # beside the words of kinds

Sources = Mapping[str, str | None]
"""Brokers of the cluster to the broker of the document that they become equal to; None if it has no brokers."""


@attrs.frozen
class BrokerChange:
    """The change of one definition at one broker."""

    broker: str  # "" for an order configuration, which name servers have
    before: Values | None  # None if it is new there
    after: Values
    fields: tuple[str, ...]  # that differ; of a new definition, those without their default
    hidden: Hidden | None = None  # messages that no consumer would receive any more


@attrs.frozen
class Change:
    """One definition to add or to change."""

    word: str  # word of the kind, or ORDER_CONFIG
    name: str
    at: tuple[BrokerChange, ...]

    @property
    def adds(self) -> bool:
        """Whether no broker with a change has the definition."""
        return all(each.before is None for each in self.at)

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.word.replace('_', ' ')} {self.name}"


@attrs.frozen
class OnlyThere:
    """A definition that brokers of the cluster have, and the document does not have for them."""

    word: str
    name: str
    brokers: tuple[str, ...]  # empty for an order configuration


@attrs.frozen
class Difference:
    """Everything that an import would change."""

    cluster: str
    changes: tuple[Change, ...]  # topics, groups, order configurations, each sorted by name
    unchanged: int  # definitions
    only_there: tuple[OnlyThere, ...]
    not_compared: tuple[str, ...]  # brokers of the cluster that are not in the document
    own: int  # definitions of the document that are RocketMQ's own, which an import ignores


def sources_of(document: Document, brokers: Sequence[str], moves: Sequence[tuple[str, str]] = ()) -> Sources:
    """Return the broker of the document for each broker of the cluster that it applies to.

    Args:
        document: to import.
        brokers: of the cluster.
        moves: pairs of a broker of the document and one of the cluster, "" to leave the first one out. A broker of the
            document may have several. Brokers without a pair keep their name.

    Raises:
        DefinitionsInvalid: a broker is missing in the cluster, unknown, or would get two of the document.
    """
    if not document.brokers:
        if moves:
            raise DefinitionsInvalid(
                "the document names no brokers; its definitions are for all of them, and none can be mapped"
            )
        return dict.fromkeys(brokers)
    sources: dict[str, str | None] = {}
    for old, new in [*moves, *((each, each) for each in document.brokers if each not in dict(moves))]:
        if old not in document.brokers:
            known = ", ".join(document.brokers)
            raise DefinitionsInvalid(f"broker {old} to be mapped is not in the document, which has {known}")
        if not new:
            continue
        if new not in brokers:
            raise DefinitionsInvalid(
                f"the cluster has no broker {new}, only {', '.join(brokers)}; --map {old}=NAME applies the definitions "
                f"of {old} to another broker, --map {old}= leaves them out"
            )
        if sources.setdefault(new, old) != old:
            raise DefinitionsInvalid(f"broker {new} would get the definitions of {sources[new]} and of {old}")
    return sources


def compare(document: Document, found: ClusterTables, sources: Sources) -> Difference:
    """Return the changes that *document* makes in the cluster."""
    places = found.places | named_after([document.cluster], document.brokers)
    changes: list[Change] = []
    only_there: list[OnlyThere] = []
    unchanged = own = 0
    order = _order_configs(document, sources)
    for kind in KINDS:
        for name, definition in sorted(document.definitions[kind].items()):
            if is_own(kind, name, places):
                own += 1
                continue
            at = _broker_changes(kind, name, definition, found, sources, order)
            if real := tuple(each for each in at if each.before is None or each.fields):
                changes.append(Change(kind.word, name, real))
            else:
                unchanged += 1
        only_there += _only_there(kind, document, found, sources)
    for name, text in sorted(order.items()):
        before = found.order_configs.get(name)
        if before == text:
            unchanged += 1
        else:
            at_servers = BrokerChange("", None if before is None else _order(before), _order(text), ("queues",))
            changes.append(Change(ORDER_CONFIG, name, (at_servers,)))
    only_there += [
        OnlyThere(ORDER_CONFIG, name, ())
        for name in sorted(found.order_configs)
        if name not in order and not is_own(TOPIC, name, places)
    ]
    not_compared = tuple(broker for broker in found.brokers if broker not in sources)
    return Difference(found.cluster, tuple(changes), unchanged, tuple(only_there), not_compared, own)


def _broker_changes(
    kind: Kind, name: str, definition: Definition, found: ClusterTables, sources: Sources, order: Collection[str]
) -> list[BrokerChange]:
    """Return a change for each broker that is to have the definition, also if nothing differs there."""
    changes = []
    for broker, source in sorted(sources.items()):
        before, after = found.brokers[broker][kind].get(name), definition.at(source)
        if after is None:
            continue
        after = mark_ordered(kind, name, after, order)
        if before is None:
            changes.append(BrokerChange(broker, None, after, tuple(kind.shown(after))))
        else:
            before = mark_ordered(kind, name, before, found.order_configs)
            changes.append(BrokerChange(broker, before, after, kind.differing(before, after)))
    return changes


def _only_there(kind: Kind, document: Document, found: ClusterTables, sources: Sources) -> list[OnlyThere]:
    at: dict[str, list[str]] = {}
    for broker, source in sorted(sources.items()):
        tables = found.brokers[broker]
        for name in tables[kind]:
            definition = document.definitions[kind].get(name)
            if definition is not None and definition.at(source) is not None:
                continue
            if not left_out(kind, name, tables, found.places):
                at.setdefault(name, []).append(broker)
    return [OnlyThere(kind.word, name, tuple(at[name])) for name in sorted(at)]


def _order(text: str) -> dict[str, Any]:
    return {"queues": text}


def _order_configs(document: Document, sources: Sources) -> dict[str, str]:
    """Return the order configurations with the names of the cluster's brokers."""
    targets: dict[str | None, list[str]] = {}
    for broker, source in sorted(sources.items()):
        targets.setdefault(source, []).append(broker)
    found = {}
    for name, text in document.order_configs.items():
        parts = []
        for part in text.split(";"):
            broker, _, count = part.rpartition(":")
            # Brokers outside the document are kept: the configuration may name some that do not exist any more.
            parts += [f"{each}:{count}" for each in targets.get(broker, [] if broker in document.brokers else [broker])]
        if parts:
            found[name] = ";".join(parts)
    return found
