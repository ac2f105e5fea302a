"""subscriptionGroup.json: ``dataVersion``, ``forbiddenTable`` {group -> {topic -> bits}}, ``subscriptionGroupTable``.

4.9.7 has no ``forbiddenTable`` and fewer members in a group; missing members get their defaults.

Source: apache/rocketmq broker/.../subscription/SubscriptionGroupManager.java;
remoting/.../protocol/subscription/SubscriptionGroupConfig.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gantrymq.errors import FormatError
from gantrymq.formats.config.json_tables import as_number, as_object, data_version, in_order, table, unknown
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig

GROUPS = "subscriptionGroup.json"

_MEMBERS = frozenset(("dataVersion", "forbiddenTable", "subscriptionGroupTable"))
_GROUP_MEMBERS = frozenset(GroupConfig("", subscriptions=[]).to_json())


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
        found = cls(version=data_version(members, GROUPS), kept=unknown(members, _MEMBERS))
        for name, value in table(members, "subscriptionGroupTable", GROUPS).items():
            where = f"{GROUPS}: group {name}"
            group = as_object(value, where)
            try:
                found.groups[name] = GroupConfig.from_json(group, name)
            except FormatError as problem:
                raise FormatError(f"{where}: {problem}") from None
            if extra := unknown(group, _GROUP_MEMBERS):
                found.kept_of_groups[name] = extra
        for name, topics in table(members, "forbiddenTable", GROUPS).items():
            where = f"{GROUPS}: forbiddenTable of {name}"
            found.forbidden[name] = {
                topic: as_number(bits, f"{where}, topic {topic}") for topic, bits in as_object(topics, where).items()
            }
        return found

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
