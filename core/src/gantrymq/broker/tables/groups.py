"""Consumer groups: configurations, automatic creation, forbidden topics.

Source: apache/rocketmq broker/.../subscription/SubscriptionGroupManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from shlex import quote
from types import MappingProxyType

import attrs

from gantrymq.broker.counted_plugins import CountFailure, Listeners
from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.broker.tables.attributes import GROUP_ATTRIBUTES, changed_attributes
from gantrymq.broker.tables.config_checks import check_limit, check_readable
from gantrymq.config import Settings
from gantrymq.errors import GroupNotExist, InvalidParameter
from gantrymq.model import names
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig
from gantrymq.model.light_queues import is_light

FORBID_READ_BIT = 2  # bit in forbiddenTable that forbids a group to read a topic


class GroupTable:
    """Every consumer group of this broker."""

    def __init__(
        self, settings: Settings, now_ms: Callable[[], int], failed: CountFailure = lambda kind, name: None
    ) -> None:
        """*failed* counts exceptions of listeners."""
        self._settings = settings
        self._now_ms = now_ms
        self._light = serves_light_queues(settings)
        self._groups: dict[str, GroupConfig] = {}
        self._listeners: list[Callable[[], None]] = []
        self.attributes_changed: Callable[[str], object] = lambda group: None
        self.may_create: Callable[[], bool] = lambda: True  # False on a replica, whose groups are its master's
        self.forbidden: dict[str, dict[str, int]] = {}  # group -> topic -> bits
        self._deleted = Listeners[[str]]("deleted groups", failed)
        self.version = DataVersion()
        self.view: Mapping[str, GroupConfig] = MappingProxyType(self._groups)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call *listener* after every change."""
        self._listeners.append(listener)

    def page(self, start: int = 0, most: int = 2000) -> tuple[Sequence[GroupConfig], int]:
        """Return at most *most* groups from number *start* on, and the number of all."""
        return list(islice(self._groups.values(), start, start + most)), len(self._groups)

    def on_deleted(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call *callback* with the name of each deleted group that lost its offsets."""
        return self._deleted.add(callback)

    def deleted(self, name: str) -> None:
        """Report that the group and everything that belongs to it are deleted."""
        self._deleted.call(name)

    def load(
        self, groups: Mapping[str, GroupConfig], forbidden: Mapping[str, Mapping[str, int]], version: DataVersion
    ) -> None:
        """Load the content of subscriptionGroup.json."""
        for name, group in groups.items():  # earlier versions stored the "+" of requests
            attributes = {key.removeprefix("+"): value for key, value in group.attributes.items()}
            self._groups[name] = attrs.evolve(group, attributes=attributes)
        self.forbidden = {group: dict(topics) for group, topics in forbidden.items()}
        self.version = version

    def add_system_groups(self) -> None:
        """Add the system groups."""
        for name in names.SYSTEM_GROUPS:
            self._groups.setdefault(name, GroupConfig(name))

    def get(self, name: str) -> GroupConfig | None:
        """Return the group if it exists. Groups of light queues (``%LMQ%``) exist implicitly and are not stored."""
        group = self._groups.get(name)
        return GroupConfig(name) if group is None and self._light and is_light(name) else group

    def find(self, name: str) -> GroupConfig | None:
        """Return the group, creating it with defaults if allowed; otherwise None.

        A replica creates no group, and returns the defaults: its consumers may read before it gets the group.
        """
        group = self.get(name)
        if group is not None:
            return group
        if not (self._settings.flag("autoCreateSubscriptionGroup") or names.is_system_group(name)):
            return None
        try:
            names.check_group(name)
        except InvalidParameter:
            return None
        group = GroupConfig(name)
        if self.may_create():
            self.put(group)
        return group

    def require(self, name: str) -> GroupConfig:
        """Return the group, creating it if allowed.

        Raises:
            GroupNotExist: it does not exist and cannot be created.
        """
        group = self.find(name)
        if group is None:
            try:
                names.check_group(name)
            except InvalidParameter as error:
                raise GroupNotExist(f"{error}; a consumer group of that name cannot exist") from None
            raise GroupNotExist(
                f"consumer group {name} does not exist on this broker and is not created automatically; "
                f"set autoCreateSubscriptionGroup=true or create it with: gantrymq group create -g {quote(name)}"
            )
        return group

    def update(self, groups: Sequence[GroupConfig]) -> None:
        """Create or replace *groups* for an operator; all are checked before the first is changed.

        The attributes of each group are changes: ``+name`` sets, ``-name`` deletes, and other attributes are kept. A
        name without a sign also sets, so that a configuration can be read, changed and sent back.

        Raises:
            InvalidParameter: same as `put`, or a number is above its limit.
            RequestRefused: an attribute is unknown, or cannot be deleted.
        """
        changed: dict[str, GroupConfig] = {}
        for group in groups:
            changed[group.name] = self.check(group, changed)
        for group in changed.values():
            self.put(group)

    def check(self, group: GroupConfig, earlier: Mapping[str, GroupConfig]) -> GroupConfig:
        """Return *group* as `update` would store it after the *earlier* ones, by name. Raises like `update`."""
        self._check_limits(group)
        known = earlier.get(group.name) or self._groups.get(group.name)
        kept = known.attributes if known is not None else None
        changes = {key if key[:1] in ("+", "-") else f"+{key}": value for key, value in group.attributes.items()}
        attributes = changed_attributes(f"group {group.name}", GROUP_ATTRIBUTES, kept, changes)
        changed = attrs.evolve(group, attributes=attributes)
        check_readable(changed, "group")
        return changed

    def put(self, group: GroupConfig) -> None:
        """Create or replace a group.

        Raises:
            InvalidParameter: the name is illegal, or the configuration cannot be read back from its file.
        """
        names.check_group(group.name)
        check_readable(group, "group")
        before = self._groups.get(group.name)
        self._groups[group.name] = group
        if group.attributes or (before is not None and before.attributes):
            self.attributes_changed(group.name)
        self._changed()

    def _check_limits(self, group: GroupConfig) -> None:
        names.check_group(group.name)
        before = self._groups.get(group.name) or GroupConfig(group.name, retry_queues=0, retry_max_times=0)
        for key, member, count, known in (
            ("maxRetryQueueNums", "retryQueueNums", group.retry_queues, before.retry_queues),
            ("maxRetryTimes", "retryMaxTimes", group.retry_max_times, before.retry_max_times),
        ):
            check_limit(self._settings, key, f"group {group.name}: {member}", count, known)

    def delete(self, name: str) -> GroupConfig | None:
        """Delete a group and return its configuration."""
        gone = self._groups.pop(name, None)
        self.forbidden.pop(name, None)
        if gone is not None:
            self.attributes_changed(name)
            self._changed()
        return gone

    def may_read(self, group: str, topic: str) -> bool:
        """Return whether *group* may read *topic*."""
        bits = self.forbidden.get(group, {}).get(topic, 0)
        return not bits >> FORBID_READ_BIT & 1

    def set_readable(self, group: str, topic: str, *, readable: bool) -> None:
        """Allow or forbid *group* to read *topic*. Raises GroupNotExist."""
        if group not in self._groups:
            raise GroupNotExist(f"consumer group {group} does not exist on this broker; see: gantrymq group list")
        topics = self.forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        topics[topic] = bits & ~(1 << FORBID_READ_BIT) if readable else bits | 1 << FORBID_READ_BIT
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self.forbidden[group]
        self._changed()

    def _changed(self) -> None:
        self.version.next(self._now_ms())
        for listener in self._listeners:
            listener()
