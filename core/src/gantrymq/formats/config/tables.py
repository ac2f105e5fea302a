"""The tables of topics and groups. Unknown members of the files, topics and groups are preserved.

    topics.json              ``dataVersion``, ``topicConfigTable`` {topic -> configuration}
    subscriptionGroup.json   ``dataVersion``, ``forbiddenTable`` {group -> {topic -> bits}}, ``subscriptionGroupTable``

4.9.7 omits a topic's ``attributes``, the version's ``stateVersion``, the ``forbiddenTable`` and members of groups;
missing members get their defaults.

Source: apache/rocketmq remoting/.../protocol/body/TopicConfigSerializeWrapper.java,
subscription/SubscriptionGroupConfig.java; broker/.../topic/TopicConfigManager.java,
subscription/SubscriptionGroupManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from gantrymq.errors import FormatError
from gantrymq.formats.config.manager_file import FormattedText, backup_of, pretty, pretty_member
from gantrymq.loose_json import loads
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.world.files import FileReader

TOPICS = "topics.json"
GROUPS = "subscriptionGroup.json"

_TOPICS_MEMBERS: Final = frozenset(("dataVersion", "topicConfigTable"))
_TOPIC_MEMBERS: Final = frozenset(TopicConfig("").to_json())
_GROUPS_MEMBERS: Final = frozenset(("dataVersion", "forbiddenTable", "subscriptionGroupTable"))
_GROUP_MEMBERS: Final = frozenset(GroupConfig("", subscriptions=[]).to_json())
_NUMBERS: Final = {int}
_TEXTS: Final = {str}

Config = TypeVar("Config")


def table(members: Mapping[Any, Any], name: str, file: str) -> dict[str, Any]:
    """Return the object *name* of a file, empty if it is missing or null.

    Raises:
        FormatError: it is not an object.
    """
    return as_object(members.get(name), f"{file}: {name}")


def as_object(value: Any, what: str) -> dict[str, Any]:
    """Return *value* as an object with string keys, the same object if all keys are strings; empty for null.

    Raises:
        FormatError: it is not an object; the message starts with *what*.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{what} holds {value!r:.40} where an object belongs")
    if set(map(type, value)) <= _TEXTS:
        return value
    return {str(key): member for key, member in value.items()}


def as_number(value: Any, what: str) -> int:
    """Return *value*, quoted or not, as a whole number.

    Raises:
        FormatError: it is not a whole number; the message starts with *what*.
    """
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise FormatError(f"{what} holds {value!r:.40} where a whole number belongs") from None


def are_numbers(values: Iterable[Any]) -> bool:
    """Return whether all values are ints, the usual case in large tables."""
    return set(map(type, values)) <= _NUMBERS


def data_version(members: Mapping[Any, Any], file: str) -> DataVersion:
    """Return the dataVersion of a file; zeros if it has none.

    Raises:
        FormatError: a member is not a number.
    """
    stored = table(members, "dataVersion", file)
    numbers = {name: as_number(value, f"{file}: dataVersion.{name}") for name, value in stored.items()}
    return DataVersion.from_json(numbers)


def unknown(members: Mapping[Any, Any], known: Set[str]) -> dict[str, Any]:
    """Return the members that are not in *known*, to be written back unchanged."""
    if members.keys() <= known:
        return {}
    return {str(name): value for name, value in members.items() if name not in known}


def in_order(known: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Merge both, sorted by name as fastjson sorts the fields of a class. A known member takes precedence."""
    merged = {**kept, **known}
    return {name: merged[name] for name in sorted(merged)}


def _configurations(
    table: Mapping[str, Any], kind: str, read: Callable[[dict[str, Any], str], Config], known: Set[str]
) -> tuple[dict[str, Config], dict[str, dict[str, Any]]]:
    """Return the configurations of *table* by name, and their members that are not in *known*."""
    found, kept = {}, {}
    for name, value in table.items():
        where = f"{kind} {name}"
        members = as_object(value, where)
        try:
            found[name] = read(members, name)
        except FormatError as problem:
            raise FormatError(f"{where}: {problem}") from None
        if extra := unknown(members, known):
            kept[name] = extra
    return found, kept


@attrs.define
class TopicsFile:
    """Content of topics.json."""

    topics: dict[str, TopicConfig] = attrs.field(factory=dict)  # in the order of the file
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # unknown members of the file
    kept_of_topics: dict[str, dict[str, Any]] = attrs.field(factory=dict)  # unknown members of topics
    _laid: dict[str, TopicConfig] = attrs.field(factory=dict, init=False, eq=False, repr=False)  # topics in `_texts`
    _texts: dict[str, str] = attrs.field(factory=dict, init=False, eq=False, repr=False)  # formatted topics

    @classmethod
    def from_json(cls, members: Mapping[Any, Any]) -> TopicsFile:
        """Parse the result of `manager_file.load`.

        Raises:
            FormatError: a member has the wrong type; the message names it.
        """
        version, kept = data_version(members, TOPICS), unknown(members, _TOPICS_MEMBERS)
        topics = table(members, "topicConfigTable", TOPICS)
        found, kept_of_topics = _configurations(topics, f"{TOPICS}: topic", TopicConfig.from_json, _TOPIC_MEMBERS)
        return cls(found, version, kept, kept_of_topics)

    def to_json(self) -> dict[str, Any]:
        """Return the members to write. Unknown members of deleted topics are omitted."""
        return self._members({name: self._topic_members(name, topic) for name, topic in self.topics.items()})

    def to_text(self) -> str:
        """Return ``pretty(self.to_json())``, formatting only topics that changed since the last call.

        With 10,000 topics a new one takes 3 ms. Topic objects are replaced, never modified.
        """
        topics, laid, texts = self.topics, self._laid, self._texts
        for name in [name for name, topic in topics.items() if laid.get(name) is not topic]:
            texts[name] = pretty_member(name, self._topic_members(name, topics[name]), level=2)
        if len(texts) > len(topics):
            texts = self._texts = {name: texts[name] for name in topics}
        self._laid = dict(topics)
        table = FormattedText("{" + ",".join([texts[name] for name in topics]) + "\n\t}") if topics else {}
        return pretty(self._members(table))

    def _topic_members(self, name: str, topic: TopicConfig) -> dict[str, Any]:
        return in_order(topic.to_json(), self.kept_of_topics.get(name, {}))

    def _members(self, topics: Any) -> dict[str, Any]:
        return in_order({"dataVersion": self.version.to_json(), "topicConfigTable": topics}, self.kept)


def read_topics_file(files: FileReader, root: Path) -> TopicsFile | None:
    """Read ``config/topics.json`` in the store folder *root*, or its backup. Return None if neither is readable.

    Nothing is renamed or logged: the broker loads the file itself and reports errors.
    """
    path = root / "config" / TOPICS
    for place in (path, backup_of(path)):
        try:
            return TopicsFile.from_json(loads(files.read(place)))
        except (FormatError, OSError, ValueError, TypeError, AttributeError):
            continue
    return None


@attrs.define
class GroupsFile:
    """Content of subscriptionGroup.json."""

    groups: dict[str, GroupConfig] = attrs.field(factory=dict)  # in the order of the file
    forbidden: dict[str, dict[str, int]] = attrs.field(factory=dict)  # group -> topic -> bits
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # unknown members of the file
    kept_of_groups: dict[str, dict[str, Any]] = attrs.field(factory=dict)  # unknown members of groups

    @classmethod
    def from_json(cls, members: Mapping[Any, Any]) -> GroupsFile:
        """Parse the result of `manager_file.load`.

        Raises:
            FormatError: a member has the wrong type; the message names it.
        """
        version, kept = data_version(members, GROUPS), unknown(members, _GROUPS_MEMBERS)
        groups = table(members, "subscriptionGroupTable", GROUPS)
        found, kept_of_groups = _configurations(groups, f"{GROUPS}: group", GroupConfig.from_json, _GROUP_MEMBERS)
        forbidden = {}
        for name, topics in table(members, "forbiddenTable", GROUPS).items():
            where = f"{GROUPS}: forbiddenTable of {name}"
            forbidden[name] = {
                topic: as_number(bits, f"{where}, topic {topic}") for topic, bits in as_object(topics, where).items()
            }
        return cls(found, forbidden, version, kept, kept_of_groups)

    def to_json(self) -> dict[str, Any]:
        """Return the members to write. Unknown members of deleted groups are omitted."""
        groups = {
            name: in_order(group.to_json(), self.kept_of_groups.get(name, {})) for name, group in self.groups.items()
        }
        known = {
            "dataVersion": self.version.to_json(),
            "forbiddenTable": self.forbidden,
            "subscriptionGroupTable": groups,
        }
        return in_order(known, self.kept)
