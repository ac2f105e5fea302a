"""The topic table: configurations, automatic creation, and listeners for changes.

Source: apache/rocketmq broker/.../topic/TopicConfigManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from shlex import quote
from types import MappingProxyType

import attrs

from gantrymq.broker.counted_plugins import CountFailure, Listeners
from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.broker.tables.attributes import TOPIC_ATTRIBUTES, changed_attributes
from gantrymq.broker.tables.config_checks import check_limit, check_readable
from gantrymq.config import Settings
from gantrymq.errors import InvalidParameter, ServiceNotAvailable, TopicNotExist
from gantrymq.model import names
from gantrymq.model.data_version import DataVersion
from gantrymq.model.light_queues import is_light
from gantrymq.model.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB, TopicConfig

READ_WRITE = PERM_READ | PERM_WRITE

Changed = Callable[[TopicConfig], None]


class TopicTable:
    """Every topic of this broker. ``on_change`` listeners persist and register the changes."""

    def __init__(
        self, settings: Settings, now_ms: Callable[[], int], failed: CountFailure = lambda kind, name: None
    ) -> None:
        """*failed* counts exceptions of listeners."""
        self._settings = settings
        self._now_ms = now_ms
        self.batch_queues_problem = ""  # why topics cannot have batch queues in this broker's store
        self.may_create: Callable[[], bool] = lambda: True  # False on a replica, whose topics are its master's
        self._topics: dict[str, TopicConfig] = {}
        self._listeners: list[Changed] = []
        self._light = serves_light_queues(settings)
        self._own: frozenset[str] = frozenset()
        self._deleted = Listeners[[str]]("deleted topics", failed)
        self.version = DataVersion()
        self.view: Mapping[str, TopicConfig] = MappingProxyType(self._topics)

    def on_change(self, listener: Changed) -> None:
        """Call *listener* with the new configuration after every change except deletions."""
        self._listeners.append(listener)

    def page(self, start: int = 0, most: int = 2000) -> tuple[Sequence[TopicConfig], int]:
        """Return at most *most* topics from number *start* on, and the number of all."""
        return list(islice(self._topics.values(), start, start + most)), len(self._topics)

    def on_deleted(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call *callback* with the name of each deleted topic."""
        return self._deleted.add(callback)

    def deleted(self, name: str) -> None:
        """Report that the topic and everything that belongs to it are deleted."""
        self._deleted.call(name)

    def load(self, topics: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """Load the content of topics.json."""
        self._topics.update(topics)
        self.version = version

    def add_system_topics(self, cluster: str, broker: str) -> None:
        """Add the missing system topics."""
        own = system_topics(self._settings, cluster, broker)
        self._own = frozenset(topic.name for topic in own)
        for topic in own:
            self._topics.setdefault(topic.name, topic)

    def is_own(self, name: str) -> bool:
        """Return whether a topic belongs to the broker: a system topic, or one named after the broker or cluster."""
        return name in self._own or names.is_system_topic(name)

    def check_own(self, name: str, what: str) -> None:
        """Refuse an operator's request for a topic of the broker; *what*: the refused action, such as "deleted".

        Raises:
            InvalidParameter: the topic belongs to the broker.
        """
        if self.is_own(name):
            raise InvalidParameter(f"topic {name} belongs to the broker itself and cannot be {what}")

    def get(self, name: str) -> TopicConfig | None:
        """Return the topic, or None. Topics of light queues (``%LMQ%``) exist implicitly and are not stored."""
        topic = self._topics.get(name)
        return TopicConfig(name, 1, 1) if topic is None and self._light and is_light(name) else topic

    def reserve_ms(self, name: str) -> int:
        """Return the topic's retention by its attribute ``reserve.time``, ms; -1: the same as the log's."""
        topic = self._topics.get(name)
        text = topic.attributes.get("reserve.time", "") if topic is not None else ""
        return int(text) if text.isascii() and text.isdecimal() else -1

    def has_batch_queues(self, name: str) -> bool:
        """Return whether the topic has batch queues (``queue.type=BatchCQ``)."""
        topic = self._topics.get(name)
        return topic is not None and topic.has_batch_queues

    def put(self, topic: TopicConfig) -> None:
        """Create or replace a topic for the broker itself.

        Raises:
            InvalidParameter: the configuration cannot be read back from topics.json, or the store has no such queues.
            ServiceNotAvailable: this broker is a replica.
        """
        if not self.may_create():
            raise ServiceNotAvailable(f"topic {topic.name}: the topics of a replica are those of its master")
        check_readable(topic, "topic")
        if self.batch_queues_problem and topic.has_batch_queues:
            raise InvalidParameter(f"topic {topic.name}: {self.batch_queues_problem}")
        self._topics[topic.name] = topic
        self.version.next(self._now_ms())
        for listener in self._listeners:
            listener(topic)

    def update(self, topic: TopicConfig, attribute_changes: Mapping[str, str]) -> None:
        """Create or replace a topic for an operator.

        *attribute_changes* has keys ``+name`` (set) and ``-name`` (delete); other attributes are kept.

        Raises:
            InvalidParameter: the name is illegal, the topic belongs to the broker, or a number is out of bounds.
            RequestRefused: an attribute is not implemented, or cannot be changed.
        """
        names.check_topic(topic.name)
        self.check_own(topic.name, "changed")
        if not 0 <= topic.perm < 8:
            raise InvalidParameter(f"topic {topic.name}: perm {topic.perm} is not one of 2 (write), 4 (read), 6 (both)")
        known = self._topics.get(topic.name)
        reads, writes = (known.read_queues, known.write_queues) if known is not None else (0, 0)
        for what, count, before in (
            ("readQueueNums", topic.read_queues, reads),
            ("writeQueueNums", topic.write_queues, writes),
        ):
            check_limit(self._settings, "maxTopicQueueNums", f"topic {topic.name}: {what}", count, before)
        if self._light and is_light(topic.name):
            raise InvalidParameter(f"topic {topic.name} is a light queue, which is there without being created")
        if attribute_changes.get("+message.type") == "MIXED" and not self._settings.flag("enableMixedMessageType"):
            raise InvalidParameter(
                f"topic {topic.name}: message.type=MIXED needs the setting enableMixedMessageType=true; leave the "
                "attribute out, and the topic takes messages of every kind as well"
            )
        kept = known.attributes if known is not None else None
        attributes = changed_attributes(f"topic {topic.name}", TOPIC_ATTRIBUTES, kept, attribute_changes)
        self.put(attrs.evolve(topic, attributes=attributes))

    def is_ordered(self, name: str) -> bool:
        """Return whether the topic exists and is marked as ordered."""
        topic = self._topics.get(name)
        return topic is not None and topic.order

    def mark_ordered(self, names: Iterable[str]) -> None:
        """Mark the existing ones of *names* as ordered, because a name server has an order configuration for them.

        The mark is kept when the configuration is removed, because an operator may have set it. A replica gets it from
        its master.
        """
        for name in names if self.may_create() else ():
            known = self._topics.get(name)
            if known is not None and not known.order:
                self.put(attrs.evolve(known, order=True))

    def registered(self) -> dict[str, TopicConfig]:
        """Return the topics for registration, with permissions limited by brokerPermission."""
        allowed = self._settings.number("brokerPermission")
        if allowed & READ_WRITE == READ_WRITE:
            return dict(self._topics)
        return {name: attrs.evolve(topic, perm=topic.perm & allowed) for name, topic in self._topics.items()}

    def registered_one(self, name: str) -> TopicConfig | None:
        """Return one topic for registration, or None if it does not exist."""
        topic = self._topics.get(name)
        allowed = self._settings.number("brokerPermission")
        if topic is None or allowed & READ_WRITE == READ_WRITE:
            return topic
        return attrs.evolve(topic, perm=topic.perm & allowed)

    def permission_changed(self) -> None:
        """Advance the version after a change of brokerPermission, because name servers compare only versions."""
        self.version.next(self._now_ms())

    def delete(self, name: str) -> TopicConfig | None:
        """Delete a topic from the table; the caller persists this and updates the store.

        Raises:
            InvalidParameter: the name is blank, or the topic belongs to the broker.
        """
        if not name.strip():
            raise InvalidParameter("the topic name is blank; name the topic to delete")
        self.check_own(name, "deleted")
        gone = self._topics.pop(name, None)
        if gone is not None:
            self.version.next(self._now_ms())
        return gone

    def for_send(self, name: str, default_topic: str, queues_wanted: int, *, unit: bool, peer: str) -> TopicConfig:
        """Return the topic of a message, creating it from *default_topic* if allowed.

        Raises:
            TopicNotExist: it does not exist and cannot be created.
            InvalidParameter: it would have no queue.
        """
        known = self.get(name)
        if known is not None:
            return known
        retry = name.startswith(names.RETRY_PREFIX)
        model = self._topics.get(default_topic)
        automatic = default_topic != names.DEFAULT_TOPIC or self._settings.flag("autoCreateTopicEnable")
        if model is None or not model.perm & PERM_INHERIT or not automatic:
            if retry:
                return self.create_retry(name, 1, unit=unit)
            raise TopicNotExist(
                f"topic {name} does not exist on this broker and {default_topic or 'no topic'} does not allow to create"
                f" it for {peer}; create it with: gantrymq topic create -t {quote(name)}"
            )
        queues = min(queues_wanted, model.write_queues, self._settings.number("maxTopicQueueNums"))
        if queues < 1:  # a Java broker creates a topic without queues, which then refuses every message
            raise InvalidParameter(
                f"topic {name} does not exist and cannot be made with {queues_wanted} queues (defaultTopicQueueNums); "
                "ask for 1 or more"
            )
        topic = TopicConfig(
            name=name,
            read_queues=queues,
            write_queues=queues,
            perm=model.perm & ~PERM_INHERIT,
            filter_type=model.filter_type,
            sys_flag=0 if not unit else SYS_FLAG_UNIT_SUB if retry else SYS_FLAG_UNIT,
        )
        self.put(topic)
        return topic

    def create_retry(self, name: str, queues: int, *, unit: bool = False, ordered: bool = False) -> TopicConfig:
        """Return the topic *name* for retries or dead letters of a group, creating it if necessary.

        A new topic has *queues* queues, at most maxRetryQueueNums. *ordered* marks it as ordered, like RocketMQ for a
        group that subscribes to an ordered topic; the mark is permanent. A replica creates and marks nothing.
        """
        known = self._topics.get(name)
        if known is not None and (known.order or not ordered):
            return known
        queues = max(0, min(queues, self._settings.number("maxRetryQueueNums")))
        flags = SYS_FLAG_UNIT_SUB if unit else 0
        topic = known or TopicConfig(name, queues, queues, READ_WRITE, sys_flag=flags)
        topic = attrs.evolve(topic, order=ordered)
        if self.may_create():
            self.put(topic)
        return topic


def system_topics(settings: Settings, cluster: str, broker: str) -> list[TopicConfig]:
    """Return the system topics, the same as those of a Java broker."""
    revive = settings.number("reviveQueueNum") if "reviveQueueNum" in settings.schema else 8
    open_if = PERM_READ | PERM_WRITE | PERM_INHERIT
    found = [
        TopicConfig(names.SELF_TEST_TOPIC, 1, 1),
        TopicConfig(names.BENCHMARK_TOPIC, 1024, 1024),
        TopicConfig(cluster, 16, 16, open_if if settings.flag("clusterTopicEnable") else PERM_INHERIT),
        TopicConfig(broker, 1, 1, open_if if settings.flag("brokerTopicEnable") else PERM_INHERIT),
        TopicConfig(names.OFFSET_MOVED_TOPIC, 1, 1),
        TopicConfig(names.SCHEDULE_TOPIC, 18, 18),
        TopicConfig(f"{cluster}_REPLY_TOPIC", 1, 1),
        TopicConfig(f"rmq_sys_REVIVE_LOG_{cluster}", revive, revive),
        TopicConfig(f"rmq_sys_SYNC_BROKER_MEMBER_{broker}", 1, 1, PERM_INHERIT),
        TopicConfig(names.HALF_TOPIC, 1, 1),
        TopicConfig(names.OP_TOPIC, 1, 1),
    ]
    if settings.flag("autoCreateTopicEnable"):
        queues = settings.number("defaultTopicQueueNums")
        found.append(TopicConfig(names.DEFAULT_TOPIC, queues, queues, open_if))
    if settings.flag("traceTopicEnable"):
        found.append(TopicConfig(settings.text("msgTraceTopicName"), 1, 1))
    return found
