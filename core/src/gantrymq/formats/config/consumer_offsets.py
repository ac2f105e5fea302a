"""consumerOffset.json: ``offsetTable`` {"topic@group" -> {queue id -> next offset to consume}}.

    4.9.7   offsetTable only
    5.3.3   + dataVersion, + groupTopicMap {group -> [topics]}, derived from the table and ignored when read
    5.5.0   + pullOffsetTable with the same structure; kept unchanged

With ``enableLmq`` a broker uses lmqConsumerOffset.json instead. It also has lmqOffsetTable {"topic@group" -> next
offset} for the groups of light queues (``%LMQ%``), which have queue 0 only.

The smallest offset of a broadcasting group has the key "topic@group@broadcast".

Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java, LmqConsumerOffsetManager.java,
BroadcastOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from gantrymq.formats.config.json_tables import (
    are_numbers,
    as_number,
    as_object,
    data_version,
    in_order,
    table,
    unknown,
)
from gantrymq.model.data_version import DataVersion
from gantrymq.model.light_queues import LIGHT_QUEUE_ID, is_light
from gantrymq.model.property_order import java_map_order

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
