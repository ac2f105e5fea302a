"""consumerOffset.json: ``offsetTable`` {"topic@group" -> {queue id -> next offset to consume}}.

    4.9.7   offsetTable only
    5.3.3   + dataVersion, + groupTopicMap {group -> [topics]}, derived from the table and ignored when read
    5.5.0   + pullOffsetTable with the same structure; kept unchanged

With ``enableLmq`` a broker uses lmqConsumerOffset.json instead. It also has lmqOffsetTable {"topic@group" -> next
offset} for the groups of light queues (``%LMQ%``), which have queue 0 only.

The smallest offset of a broadcasting group has the key "topic@group@broadcast".

`OffsetTextCache` keeps the text of the file, so that a save formats only the changed members.

Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java, LmqConsumerOffsetManager.java,
BroadcastOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from gantrymq.formats.config.manager_file import FormattedText, format_value, pretty
from gantrymq.formats.config.tables import (
    are_numbers,
    as_number,
    as_object,
    data_version,
    in_order,
    table,
    unknown,
)
from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion
from gantrymq.model.java import java_map_order
from gantrymq.model.light_queues import LIGHT_QUEUE_ID, is_light

CONSUMER_OFFSETS = "consumerOffset.json"
LIGHT_CONSUMER_OFFSETS = "lmqConsumerOffset.json"

LIGHT_OFFSETS = "lmqOffsetTable"
_MEMBERS = frozenset(("dataVersion", "groupTopicMap", "offsetTable"))
_JAVA_BUCKETS = 16  # an empty HashMap, HashSet or ConcurrentHashMap


@attrs.define
class ConsumerOffsetsFile:
    """Content of consumerOffset.json."""

    offsets: dict[str, dict[int, int]] = attrs.field(factory=dict)  # "topic@group" -> queue id -> queue offset
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # unknown members of the file
    light: bool = False  # lmqConsumerOffset.json, with a separate table for light groups

    @classmethod
    def from_json(cls, members: Mapping[Any, Any], *, light: bool = False) -> ConsumerOffsetsFile:
        """Parse the result of `manager_file.load`; with *light* the file is lmqConsumerOffset.json.

        Raises:
            FormatError: a member has the wrong type; the message names it.
        """
        name = LIGHT_CONSUMER_OFFSETS if light else CONSUMER_OFFSETS
        known = _MEMBERS | {LIGHT_OFFSETS} if light else _MEMBERS
        found = cls(version=data_version(members, name), kept=unknown(members, known), light=light)
        if light:
            for key, queue_offset in table(members, LIGHT_OFFSETS, name).items():
                found.offsets[key] = {LIGHT_QUEUE_ID: as_number(queue_offset, f"{name}: {LIGHT_OFFSETS} of {key}")}
        for key, queues in table(members, "offsetTable", name).items():
            if isinstance(queues, dict) and are_numbers(queues) and are_numbers(queues.values()):
                found.offsets[key] = queues
                continue
            where = f"{name}: offsetTable of {key}"
            found.offsets[key] = {
                as_number(queue_id, where): as_number(queue_offset, f"{where}, queue {queue_id}")
                for queue_id, queue_offset in as_object(queues, where).items()
            }
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the members that 5.3.3 writes, and unknown ones."""
        offsets = self.offsets
        known: dict[str, Any] = {"dataVersion": self.version.to_json()}
        if self.light:
            of_light = {
                key: queues[LIGHT_QUEUE_ID] for key, queues in offsets.items() if is_of_light_group(key, queues)
            }
            offsets = {key: queues for key, queues in offsets.items() if key not in of_light}
            known[LIGHT_OFFSETS] = of_light
        known |= {"groupTopicMap": topics_by_group(offsets), "offsetTable": offsets}
        return in_order(known, self.kept)


def is_of_light_group(key: str, queues: Mapping[int, int]) -> bool:
    """Return whether "topic@group" with these offsets belongs to the table of light groups."""
    return is_light(key.rpartition("@")[2]) and queues.keys() == {LIGHT_QUEUE_ID}


def topics_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the topics of each group for keys "topic@group", both in the order of Java's hash tables."""
    found: dict[str, list[str]] = {}
    for key in keys:
        parts = key.split("@")
        if len(parts) == 2:
            found.setdefault(parts[1], []).append(parts[0])
    return {group: java_map_order(found[group], _JAVA_BUCKETS) for group in java_map_order(found, _JAVA_BUCKETS)}


class OffsetTextCache:
    """Cached text of one file, with one formatted text per member "topic@group" of the tables.

    The text equals ``pretty(ConsumerOffsetsFile(...).to_json())``, except that a member that moves to the other table
    is appended to it. groupTopicMap is formatted again when members were added or removed. A broker reports changes
    with `change`, because it modifies its table in place.

    Not thread-safe. With tens of thousands of queues a save is done by one worker thread in the background.
    """

    def __init__(self, kept: Mapping[str, Any] | None = None, *, light: bool = False) -> None:
        """Create an empty cache.

        Args:
            kept: unknown members of the file.
            light: the file is lmqConsumerOffset.json, with a separate table for light groups.
        """
        self._kept = dict(kept or {})
        self._light = light
        self._texts: dict[str, str] = {}  # members of offsetTable by "topic@group"
        self._light_texts: dict[str, str] = {}  # members of lmqOffsetTable; each key is in one of the two
        self._by_group: FormattedText | None = None  # groupTopicMap, None if outdated

    def change(self, gone: Iterable[str], changed: Mapping[str, Mapping[int, int]]) -> None:
        """Apply changes: remove the keys *gone*, then set the offsets by queue id of the *changed* keys, in order."""
        for key in gone:
            self._remove(key)
        for key, queues in changed.items():
            if self._light and is_of_light_group(key, queues):
                self._put(key, f"{_name(key)}{queues[LIGHT_QUEUE_ID]}", self._light_texts, self._texts)
            else:
                self._put(key, _member(key, queues), self._texts, self._light_texts)

    def text(self, version: DataVersion) -> str:
        """Return the text of the file."""
        if self._by_group is None:
            self._by_group = format_value(topics_by_group(self._texts), level=1)
        known: dict[str, Any] = {
            "dataVersion": version.to_json(),
            "groupTopicMap": self._by_group,
            "offsetTable": _table(self._texts),
        }
        if self._light:
            known["lmqOffsetTable"] = _table(self._light_texts)
        return pretty(in_order(known, self._kept))

    def _put(self, key: str, text: str, into: dict[str, str], other: dict[str, str]) -> None:
        if key not in into:
            self._by_group = None
            other.pop(key, None)
        into[key] = text

    def _remove(self, key: str) -> None:
        if self._texts.pop(key, None) is not None:
            self._by_group = None
        self._light_texts.pop(key, None)


def _name(key: str) -> str:
    return f"\n\t\t{dumps(key).decode()}:"


def _member(key: str, queues: Mapping[int, int]) -> str:
    """Format an object with integer keys like `pretty`: on one line, closing brace on the next."""
    if not queues:
        return _name(key) + "{}"
    inner = ",".join([f"{queue_id}:{queue_offset}" for queue_id, queue_offset in queues.items()])
    return f"{_name(key)}{{{inner}\n\t\t}}"


def _table(texts: Mapping[str, str]) -> Any:
    return FormattedText("{" + ",".join(texts.values()) + "\n\t}") if texts else {}
