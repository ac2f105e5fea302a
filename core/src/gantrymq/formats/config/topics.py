"""topics.json: ``dataVersion`` and ``topicConfigTable`` {topic -> configuration}.

4.9.7 omits a topic's ``attributes`` and the version's ``stateVersion``; missing members get their defaults.

Source: apache/rocketmq remoting/.../protocol/body/TopicConfigSerializeWrapper.java;
broker/.../topic/TopicConfigManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.formats.config.json_tables import as_object, data_version, in_order, table, unknown
from gantrymq.formats.config.manager_file import backup_of
from gantrymq.formats.config.pretty import FormattedText, pretty, pretty_member
from gantrymq.loose_json import loads
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq.world.files import FileReader

TOPICS = "topics.json"

_MEMBERS = frozenset(("dataVersion", "topicConfigTable"))
_TOPIC_MEMBERS = frozenset(TopicConfig("").to_json())


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
        found = cls(version=data_version(members, TOPICS), kept=unknown(members, _MEMBERS))
        for name, value in table(members, "topicConfigTable", TOPICS).items():
            where = f"{TOPICS}: topic {name}"
            topic = as_object(value, where)
            try:
                found.topics[name] = TopicConfig.from_json(topic, name)
            except FormatError as problem:
                raise FormatError(f"{where}: {problem}") from None
            if extra := unknown(topic, _TOPIC_MEMBERS):
                found.kept_of_topics[name] = extra
        return found

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
