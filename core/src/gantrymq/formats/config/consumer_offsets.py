"""consumerOffset.json: ``offsetTable`` {"topic@group" -> {queue id -> next offset to consume}}.

    4.9.7   offsetTable alone
    5.3.3   + dataVersion, + groupTopicMap {group -> [topics]}, derived from the table and ignored when read
    5.5.0   + pullOffsetTable, of the table's form; kept as it is

A broadcasting group's smallest offset stands under "topic@group@broadcast".

Source: apache/rocketmq broker/.../offset/ConsumerOffsetManager.java, BroadcastOffsetManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from gantrymq.formats.config.members import as_number, as_object, data_version, in_order, table, unknown
from gantrymq.model.data_version import DataVersion
from gantrymq.model.property_order import java_map_order

CONSUMER_OFFSETS = "consumerOffset.json"

_MEMBERS = ("dataVersion", "groupTopicMap", "offsetTable")
_JAVA_BUCKETS = 16  # an empty HashMap, HashSet or ConcurrentHashMap


@attrs.define
class ConsumerOffsetsFile:
    """What consumerOffset.json holds."""

    offsets: dict[str, dict[int, int]] = attrs.field(factory=dict)  # "topic@group" -> queue id -> queue offset
    version: DataVersion = attrs.field(factory=DataVersion)
    kept: dict[str, Any] = attrs.field(factory=dict)  # members of the file that we do not know

    @classmethod
    def from_json(cls, members: Mapping[Any, Any]) -> ConsumerOffsetsFile:
        """Read what `manager_file.load` returned.

        Raises:
            FormatError: a member has the wrong type; says which.
        """
        found = cls(version=data_version(members, CONSUMER_OFFSETS), kept=unknown(members, _MEMBERS))
        for key, queues in table(members, "offsetTable", CONSUMER_OFFSETS).items():
            where = f"{CONSUMER_OFFSETS}: offsetTable of {key}"
            found.offsets[key] = {
                as_number(queue_id, where): as_number(queue_offset, f"{where}, queue {queue_id}")
                for queue_id, queue_offset in as_object(queues, where).items()
            }
        return found

    def to_json(self) -> dict[str, Any]:
        """The members 5.3.3 writes, and those that are kept."""
        known = {
            "dataVersion": self.version.to_json(),
            "groupTopicMap": topics_by_group(self.offsets),
            "offsetTable": self.offsets,
        }
        return in_order(known, self.kept)


def topics_by_group(keys: Iterable[str]) -> dict[str, list[str]]:
    """Group to topics for keys of the form "topic@group", both in the order Java's tables have."""
    found: dict[str, list[str]] = {}
    for key in keys:
        parts = key.split("@")
        if len(parts) == 2:
            found.setdefault(parts[1], []).append(parts[0])
    return {group: java_map_order(found[group], _JAVA_BUCKETS) for group in java_map_order(found, _JAVA_BUCKETS)}
