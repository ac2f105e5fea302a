"""A plugin that uses all of `gantrymq.interfaces.Broker` that coming plugins need, from outside and in one place.

It copies every message of topic A to topic B, once a consumer of B waits for it and holds the lock of its queue.
"""

from __future__ import annotations

from gantrymq.errors import NoPermission
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import PullRequest, SendRequest, StoreMessage
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq.remoting.command import response_to

GREETING = 9001
FROM, TO = Queue("A", 0), Queue("B", 0)


class Copier:
    """A service that records notifications in `told`."""

    name = "copier"

    async def start(self, broker):
        self.broker, self.told, self.woken = broker, [], 0
        self.stop_hearing = broker.messages.on_arrival(self.arrived, FROM)
        broker.clients.on_gone(lambda connection: self.told.append(("closed", connection.notes)))
        self.unwanted = ""
        broker.clients.on_heartbeat(self.heard)
        broker.clients.on_group_changed(lambda group: self.told.append(("subscribed", group)))

    async def stop(self):
        self.stop_hearing()

    def arrived(self, queue, end):
        self.told.append(("arrived", queue, end))

    def heard(self, heartbeat, connection):
        self.told.append(("heard", heartbeat.client_id))
        if heartbeat.client_id == self.unwanted:
            raise NoPermission("you are not wanted")

    async def copy(self, group):
        """Copy the messages that match the subscription of *group*."""
        (consumer, *_) = self.broker.clients.consumers(group)
        wanted = self.broker.clients.subscription(group, TO.topic)
        match = self.broker.filters.compiled(wanted)
        queue = MessageQueue(TO.topic, "broker-a", TO.queue_id)
        if not self.broker.locks.lock(group, consumer.client_id, [queue]):
            raise NoPermission("another client holds the queue")
        held = self.broker.held_pulls.hold(
            TO, self.broker.store.bounds(TO).max_offset, match, 60, consumer.connection, self.wake
        )
        request = PullRequest(group, FROM.topic, FROM.queue_id, 0, expression=wanted.expression)
        pulled = await self.broker.messages.pull(request)
        bodies = [b"%d of %d" % (number, pulled.messages) for number in range(pulled.messages)]
        host = self.broker.store_host
        results = await self.broker.messages.put_all(
            [StoreMessage(TO.topic, 0, body, b"", store_host=host) for body in bodies]
        )
        await self.broker.messages.send(SendRequest("copier", TO.topic, b"done", queue_id=0))
        self.broker.locks.unlock(group, consumer.client_id, [queue])
        return held, len(results), self.broker.clients.producers("copier")

    def wake(self):
        self.woken += 1


copier = Copier()


@hookimpl
def gantry_register_services(registry):
    registry.add(copier)


@hookimpl
def gantry_register_handlers(registry):
    registry.add(GREETING, lambda asked, connection: response_to(asked))
