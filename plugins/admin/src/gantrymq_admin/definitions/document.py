"""The document of definitions, and parsing it. No I/O.

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

When a document is parsed, everything is checked before the first use, strictly: a misspelt member would otherwise be a
silent default. Each error is one sentence with the place, the value and the expected values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import attrs

from gantrymq.errors import ClientError
from gantrymq.plugin.loose_json import quote_value
from gantrymq_admin.definitions.fields import KINDS, TOPIC, Kind, Values, name_problem

_VERSION: Final = 1


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
        members: dict[str, Any] = {"definitions_version": _VERSION}
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


_ORDER: Final = re.compile(r"[^:;\s]+:\d{1,9}(;[^:;\s]+:\d{1,9})*", re.ASCII)
_TOP: Final = ("definitions_version", "cluster", "brokers", *(kind.section for kind in KINDS), "order_configs")


def parse(text: str | bytes, source: str) -> Document:
    """Return the document in *text*.

    Args:
        text: JSON, in UTF-8 if it is bytes.
        source: its name for errors.

    Raises:
        DefinitionsInvalid: it is not a document of definitions that this version can read.
    """
    try:
        return _document(_loads(text))
    except _Wrong as problem:
        raise DefinitionsInvalid(f"{source}: {problem}; nothing was changed") from None


class _Wrong(Exception):
    """An error of the document, with its place."""


def _loads(text: str | bytes) -> Any:
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse)
        json.dumps(data, ensure_ascii=False).encode()  # raises for half a surrogate pair, which no request can carry
        return data
    except json.JSONDecodeError as problem:
        raise _Wrong(f"line {problem.lineno}, column {problem.colno} is not JSON: {problem.msg}") from None
    except ValueError:
        raise _Wrong("it is not JSON in UTF-8, or has a number of thousands of digits") from None
    except RecursionError:
        raise _Wrong("it is not a document of definitions: its JSON is nested too deep") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that is given twice: JSON parsers silently take the last one."""
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise _Wrong(f"{twice} is there twice in one object; expected once")
    return members


def _refuse(word: str) -> Any:
    raise _Wrong(f"{word} is not JSON")


def _document(data: Any) -> Document:
    members = _object_at("the document", data)
    version = members.get("definitions_version")
    if type(version) is not int:
        raise _Wrong(f"definitions_version is {_shown(version)}; expected {_VERSION}, in a document of definitions")
    if version != _VERSION:
        advice = "; a newer gantrymq reads it" if version > _VERSION else ""
        raise _Wrong(f"definitions_version is {version}; expected {_VERSION}{advice}")
    _refuse_unknown("", members, _TOP)
    cluster = members.get("cluster", "")
    if not isinstance(cluster, str):
        raise _Wrong(f"cluster is {_shown(cluster)}; expected a text")
    brokers = _brokers_at("brokers", members["brokers"], None) if "brokers" in members else ()
    return Document(
        cluster,
        tuple(sorted(brokers)),
        {kind: _section(kind, members.get(kind.section, {}), brokers) for kind in KINDS},
        {name: _order(name, text) for name, text in _named(TOPIC, "order_configs", members.get("order_configs", {}))},
    )


def _section(kind: Kind, data: Any, brokers: tuple[str, ...]) -> dict[str, Definition]:
    return {
        name: _definition(kind, f"{kind.section}, {name}", members, brokers)
        for name, members in _named(kind, kind.section, data)
    }


def _named(kind: Kind, section: str, data: Any) -> Iterable[tuple[str, Any]]:
    for name, members in _object_at(section, data).items():
        problem = name_problem(kind, name)
        if problem is not None:
            raise _Wrong(f"{section}: {problem}")
        yield name, members


def _definition(kind: Kind, place: str, data: Any, brokers: tuple[str, ...]) -> Definition:
    members = _object_at(place, data)
    known = [field.name for field in kind.fields]
    _refuse_unknown(place, members, (*known, "only_at", "brokers"))
    common = dict(_values(kind, place, members))
    for field in kind.fields:
        if field.name not in common:
            if field.required:
                raise _Wrong(f"{place}: {field.name} is missing; expected {field.expected}")
            common[field.name] = field.default
    only_at = None
    if "only_at" in members:
        only_at = tuple(sorted(_brokers_at(f"{place}: only_at", members["only_at"], brokers)))
    exceptions = {}
    for broker, data_there in _object_at(f"{place}, brokers", members.get("brokers", {})).items():
        there = f"{place}, brokers, {broker}"
        if broker not in (brokers if only_at is None else only_at):
            where = "brokers" if only_at is None else "only_at"
            raise _Wrong(f"{place}, brokers: {broker} is not in {where}; expected one of its brokers")
        members_there = _object_at(there, data_there)
        _refuse_unknown(there, members_there, known)
        exceptions[broker] = {**common, **_values(kind, there, members_there)}
    return Definition(common, only_at, exceptions)


def _values(kind: Kind, place: str, members: Values) -> Values:
    """Return the members that are there, checked, in the form of `Kind.values`."""
    found = {}
    for field in kind.fields:
        if field.name in members:
            value = members[field.name]
            if not field.accepts(value):
                raise _Wrong(f"{place}: {field.name} is {_shown(value)}; expected {field.expected}")
            found[field.name] = value
    return kind.normal(found)


def _order(name: str, text: Any) -> str:
    if not isinstance(text, str) or not _ORDER.fullmatch(text):
        raise _Wrong(f"order_configs, {name} is {_shown(text)}; expected a text such as broker-a:4;broker-b:8")
    return text


def _object_at(place: str, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise _Wrong(f"{place} is {_shown(data)}; expected an object")
    return data


def _brokers_at(place: str, data: Any, known: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return a list of names of brokers, of the *known* ones unless that is None."""
    if not isinstance(data, list) or not data or not all(isinstance(each, str) and each for each in data):
        raise _Wrong(f"{place} is {_shown(data)}; expected a list of names of brokers, not empty")
    for number, broker in enumerate(data):
        if broker in data[:number]:
            raise _Wrong(f"{place} has {broker} twice; expected once")
        if known is not None and broker not in known:
            raise _Wrong(f"{place} has {broker}; expected one of brokers at the top ({', '.join(known) or 'none'})")
    return tuple(data)


def _refuse_unknown(place: str, members: Mapping[str, Any], known: Iterable[str]) -> None:
    known = list(known)
    for name in members:
        if name not in known:
            near = get_close_matches(name, known, 1)
            expected = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
            raise _Wrong(f"{place}{': ' if place else ''}unknown member {name[:100]}; {expected}")


def _shown(value: Any) -> str:
    if value is None:
        return "missing or null"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)[:60] if isinstance(value, str) else quote_value(value)
