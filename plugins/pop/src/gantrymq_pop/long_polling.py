"""Long polling of pops and notifications: the oldest waiting request of a group is woken when a message arrives.

A woken request reads again, and waits again if it finds nothing. A request that leaves messages wakes the next one
(`notify`), so that a burst is shared. Arrivals are observed for topics with waiting requests; not for retry topics,
because their writer calls `notify`.

Source: apache/rocketmq broker/.../longpolling/PopLongPollingService.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.plugin.interfaces import Broker, ClientChannel
from gantrymq.plugin.model import Principal, Queue
from gantrymq.plugin.world import Timer, TimeSlices

RECHECKED_AT_ONCE: Final = 500


class PollingKey(NamedTuple):
    """The queue and group that a request waits for."""

    topic: str
    group: str
    queue_id: int  # -1: any queue


class WaitingPop:
    """One waiting request."""

    __slots__ = ("connection", "lost", "place", "principal", "timer", "wake")

    def __init__(
        self,
        place: PollingKey,
        connection: ClientChannel,
        principal: Principal | None,
        wake: Callable[[], None],
        lost: Callable[[], object],
    ) -> None:
        self.place = place
        self.connection = connection
        self.principal = principal
        self.wake = wake
        self.lost = lost
        self.timer: Timer | None = None


class LongPolling:
    """All waiting requests of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._clock = broker.world.clock
        self._settings = broker.settings
        self._by_topic: dict[str, dict[PollingKey, dict[WaitingPop, None]]] = {}
        self._of_connection: dict[ClientChannel, dict[WaitingPop, None]] = {}
        self._listening: dict[str, list[Callable[[], None]]] = {}
        self._count = 0
        self._places = 0
        self.closed = False
        self._ends = (broker.clients.on_gone(self._connection_closed), broker.access.on_recheck(self._recheck))

    def wait(
        self,
        place: PollingKey,
        connection: ClientChannel,
        principal: Principal | None,
        seconds: float,
        wake: Callable[[], None],
        lost: Callable[[], object] = lambda: None,
    ) -> bool:
        """Call *wake* once, when something arrives or after *seconds*; *lost* instead if *connection* closes before.

        Returns:
            False if a limit is reached; neither is called then.
        """
        places = self._by_topic.get(place.topic, {})
        waiters = places.get(place)
        number = self._settings.number
        if self.closed or connection.closed or self._count >= number("maxPopPollingSize"):
            return False
        if waiters is None:
            if self._places >= number("popPollingMapSize"):
                return False
            self._by_topic[place.topic] = places
            waiters = places[place] = {}
            self._places += 1
        elif len(waiters) >= number("popPollingSize"):
            return False
        waiter = WaitingPop(place, connection, principal, wake, lost)
        waiters[waiter] = None
        self._of_connection.setdefault(connection, {})[waiter] = None
        self._count += 1
        waiter.timer = self._clock.call_later(seconds, self._woken, waiter)
        self._listen(place.topic)
        return True

    def number(self, place: PollingKey) -> int:
        """Return the number of requests waiting for this key."""
        return len(self._by_topic.get(place.topic, {}).get(place, ()))

    def client_of(self, topic: str, group: str) -> ClientChannel | None:
        """Return the connection of a request that waits for *topic* and *group*, None if none does."""
        places, config = self._by_topic.get(topic, {}), self._broker.topics.get(topic)
        queues = range(-1, 0 if config is None else config.read_queues)
        if len(queues) < len(places):
            keys = (PollingKey(topic, group, each) for each in queues)
            found = next(filter(None, map(places.get, keys)), None)
        else:
            found = next((waiters for place, waiters in places.items() if place.group == group), None)
        return None if found is None else next(iter(found)).connection

    def notify(self, topic: str, group: str) -> None:
        """Wake the oldest request that waits for *topic* and *group*: messages are available."""
        for place, waiters in list(self._by_topic.get(topic, {}).items()):
            if place.group == group:
                self._wake_oldest(waiters)

    def close(self) -> None:
        """Wake all requests and accept no more."""
        self.closed = True
        for places in list(self._by_topic.values()):
            for waiters in list(places.values()):
                for waiter in list(waiters):
                    self._woken(waiter)
        for topic in list(self._listening):
            self._unlisten(topic)
        for end in self._ends:
            end()

    async def _recheck(self) -> None:
        """Wake the requests whose users lost the permission; they get the refusal."""
        slices = TimeSlices(self._clock, RECHECKED_AT_ONCE)
        for waiters in list(self._of_connection.values()):
            for waiter in list(waiters):
                place, may_consume = waiter.place, self._broker.access.may_consume
                if waiter in waiters and not may_consume(waiter.principal, place.group, place.topic):
                    self._woken(waiter)
                await slices.item_done()

    def tidy(self) -> None:
        """Stop observing topics without waiting requests."""
        for topic in list(self._listening):
            if topic not in self._by_topic:
                self._unlisten(topic)

    def _listen(self, topic: str) -> None:
        config = self._broker.topics.get(topic)
        queues = config.read_queues if config is not None else 0
        if len(self._listening.get(topic, ())) != queues:
            self._unlisten(topic)
            listen = self._broker.messages.on_arrival
            self._listening[topic] = [listen(self._arrived, Queue(topic, each)) for each in range(queues)]

    def _unlisten(self, topic: str) -> None:
        for end in self._listening.pop(topic, ()):
            end()

    def _arrived(self, queue: Queue, end: int) -> None:
        for place, waiters in list(self._by_topic.get(queue.topic, {}).items()):
            if place.queue_id in (-1, queue.queue_id):
                self._wake_oldest(waiters)

    def _wake_oldest(self, waiters: dict[WaitingPop, None]) -> None:
        for waiter in waiters:
            self._woken(waiter)
            return

    def _woken(self, waiter: WaitingPop) -> None:
        self._forget(waiter)
        waiter.wake()

    def _forget(self, waiter: WaitingPop) -> None:
        place = waiter.place
        places = self._by_topic[place.topic]
        del places[place][waiter]
        if not places[place]:
            del places[place]
            self._places -= 1
            if not places:
                del self._by_topic[place.topic]
        of_connection = self._of_connection[waiter.connection]
        del of_connection[waiter]
        if not of_connection:
            del self._of_connection[waiter.connection]
        self._count -= 1
        if waiter.timer is not None:
            waiter.timer.cancel()

    def _connection_closed(self, connection: ClientChannel) -> None:
        for waiter in list(self._of_connection.get(connection, ())):
            self._forget(waiter)
            waiter.lost()
