"""A client of a broker in the same process, which uses its operations without a remoting frame."""

from __future__ import annotations

from gantrymq.errors import ConnectionLost
from gantrymq.interfaces import ConsumerHeartbeat, Heartbeat, LocalClient
from gantrymq.model.pushes import ClientAnswer
from gantrymq.model.subscription import Subscription


class MemoryClient(LocalClient):
    """A client that records what the broker tells it, and answers what it asks."""

    def __init__(self, broker, client_id, number=1):
        super().__init__(("192.0.2.1", number), listener="memory")
        self.broker, self.client_id = broker, client_id
        self.told = []
        self.answers = {}  # name of a method to its answer

    def heartbeat(self, *, producers=(), consumers=(), topics=()):
        subscriptions = [Subscription(topic) for topic in topics]
        groups = [
            ConsumerHeartbeat(
                group, "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET", False, subscriptions
            )
            for group in consumers
        ]
        self.broker.clients.heartbeat(Heartbeat(self.client_id, "OTHER", 479, list(producers), groups), self)

    def close(self):
        super().close()
        self.broker.clients.gone(self)

    def members_changed(self, group):
        self.told.append(("members_changed", group))

    async def reset_offsets(self, reset):
        self.told.append(("reset_offsets", reset))

    def check_transaction(self, check):
        self.told.append(("check_transaction", check))

    async def deliver_reply(self, reply, timeout_s):
        return self._answer("deliver_reply", reply)

    async def running_info(self, group, client_id, fields, timeout_s):
        return self._answer("running_info", (group, client_id))

    async def consume_directly(self, message, fields, timeout_s):
        return self._answer("consume_directly", message)

    async def consumer_offsets(self, topic, group, timeout_s):
        return self._answer("consumer_offsets", (topic, group))

    def _answer(self, name, asked):
        if self.closed:
            raise ConnectionLost(f"{self.address} is closed")
        self.told.append((name, asked))
        return self.answers.get(name, ClientAnswer(0, None, None, None))

    def heard(self, name):
        return [what for each, what in self.told if each == name]
