"""Subscriptions of lite topics, and which light queues may have messages for which consumer (marks). Pure: no I/O.

    consumer (group, client id) -> light queues, marks
    light queue -> group -> consumers

A message that arrives marks its light queue at each of its consumers. A receive looks at the marked queues only, and
removes the marks of those without messages for it. So there are at most as many marks as subscriptions.

Source: apache/rocketmq broker/.../lite/LiteSubscriptionRegistryImpl.java, LiteEventDispatcher.java.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import attrs

from gantrymq.plugin.interfaces import ClientChannel

ConsumerKey = tuple[str, str]  # group, client id


@attrs.define(eq=False)
class Consumer:
    """One client in one group."""

    group: str
    client_id: str
    topic: str  # the parent topic
    channel: ClientChannel
    heard_ms: int  # time of its last request
    got_ms: int = 0  # and when it last got messages
    queues: dict[str, None] = attrs.field(factory=dict)  # light queues
    marks: dict[str, None] = attrs.field(factory=dict)  # light queues that may have messages, in order of arrival

    @property
    def key(self) -> ConsumerKey:
        """Group and client id."""
        return self.group, self.client_id


class Subscriptions:
    """All subscriptions of one broker."""

    def __init__(self) -> None:
        self._consumers: dict[ConsumerKey, Consumer] = {}
        self._of_queue: dict[str, dict[str, dict[Consumer, None]]] = {}  # by light queue and group
        self._of_group: dict[str, dict[ConsumerKey, Consumer]] = {}
        self.count = 0  # pairs of consumer and light queue

    def get(self, group: str, client_id: str) -> Consumer | None:
        """Return a consumer with subscriptions; None if there is none."""
        return self._consumers.get((group, client_id))

    def all(self) -> Collection[Consumer]:
        """Return all consumers."""
        return self._consumers.values()

    def of_queue(self, light_queue: str, group: str | None = None) -> Iterator[list[Consumer]]:
        """Iterate over the consumers of a light queue, group by group; only those of *group* unless it is None."""
        groups = self._of_queue.get(light_queue, {})
        for each in list(groups) if group is None else [group]:
            if consumers := groups.get(each):
                yield list(consumers)

    def of_group(self, group: str) -> Collection[str]:
        """Return the light queues of all consumers of a group."""
        return {each for consumer in self._of_group.get(group, {}).values() for each in consumer.queues}

    def add(self, consumer: Consumer, light_queues: Iterable[str]) -> list[str]:
        """Subscribe a consumer, and return the light queues that are new to it."""
        self._consumers[consumer.key] = consumer
        self._of_group.setdefault(consumer.group, {})[consumer.key] = consumer
        new = [each for each in dict.fromkeys(light_queues) if each not in consumer.queues]
        for each in new:
            consumer.queues[each] = None
            self._of_queue.setdefault(each, {}).setdefault(consumer.group, {})[consumer] = None
        self.count += len(new)
        return new

    def remove(self, consumer: Consumer, light_queues: Iterable[str]) -> list[str]:
        """Unsubscribe a consumer, and return the light queues that it had. Without any, it is forgotten."""
        gone = [each for each in dict.fromkeys(light_queues) if each in consumer.queues]
        for each in gone:
            del consumer.queues[each]
            consumer.marks.pop(each, None)
            groups = self._of_queue[each]
            del groups[consumer.group][consumer]
            if not groups[consumer.group]:
                del groups[consumer.group]
            if not groups:
                del self._of_queue[each]
        self.count -= len(gone)
        if not consumer.queues and self._consumers.pop(consumer.key, None) is not None:
            members = self._of_group[consumer.group]
            del members[consumer.key]
            if not members:
                del self._of_group[consumer.group]
        return gone

    def served(self, consumer: Consumer, light_queue: str) -> None:
        """Let the other consumers of a group take their turn before *consumer* gets the next message of a queue."""
        consumers = self._of_queue.get(light_queue, {}).get(consumer.group, {})
        if consumer in consumers:
            del consumers[consumer]
            consumers[consumer] = None
