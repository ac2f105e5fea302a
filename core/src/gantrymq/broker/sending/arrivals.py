"""Notifying plugins of new messages, per queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from gantrymq.broker.counted_plugins import CountFailure, logged_listener
from gantrymq.broker.queue_kinds import serves_light_queues
from gantrymq.broker.sending.pipeline import Pipeline
from gantrymq.config import Settings
from gantrymq.interfaces import DispatchEntry
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.model.queue import Queue

Listener = Callable[[Queue, int], object]

_topic_of = itemgetter(DispatchEntry._fields.index("topic"))


class Arrivals:
    """Calls listeners for each queue with new messages, once per publication."""

    def __init__(self, pipeline: Pipeline, settings: Settings, failed: CountFailure) -> None:
        """*failed* counts exceptions of listeners."""
        self._failed = failed
        self._light = serves_light_queues(settings)
        self._of_all: dict[Listener, None] = {}
        self._of_queue: dict[Queue, dict[Listener, None]] = {}
        self._topics: set[str] = set()  # topics in _of_queue
        pipeline.on_published(self._published)

    def add(self, callback: Listener, queue: Queue | None = None) -> Callable[[], None]:
        """Call *callback* with queue and new maximum offset. Return a function that removes it."""
        listener = logged_listener(callback, self._failed, "new messages")
        if queue is None:
            self._of_all[listener] = None
            return lambda: self._of_all.pop(listener, None)
        self._of_queue.setdefault(queue, {})[listener] = None
        self._topics = {each.topic for each in self._of_queue}

        def end() -> None:
            listeners = self._of_queue.get(queue, {})
            listeners.pop(listener, None)
            if not listeners:
                self._of_queue.pop(queue, None)
                self._topics = {each.topic for each in self._of_queue}

        return end

    def _published(self, entries: Sequence[DispatchEntry]) -> None:
        if not self._of_all:
            if not self._of_queue:
                return
            if not self._light and self._topics.isdisjoint(map(_topic_of, entries)):
                return  # costs 0.05 us per message; most plugins listen only to their own topics
        newest = {Queue(entry.topic, entry.queue_id): entry.queue_offset + entry.messages for entry in entries}
        if self._light:
            newest |= {
                Queue(name, LIGHT_QUEUE_ID): at + 1 for entry in entries for name, at in entry.light_queue_offsets
            }
        for queue, max_offset in newest.items():
            for listener in [*self._of_all, *self._of_queue.get(queue, ())]:
                listener(queue, max_offset)
