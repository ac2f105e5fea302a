"""A simulated broker with lite topics, and clients that use its operations without a wire protocol."""

import pytest

pytest.importorskip("gantrymq_storage_mmap")

from memory_client import MemoryClient

from gantrymq.errors import ServiceNotAvailable
from gantrymq.interfaces import LiteAction, LiteMessage, LiteRequest, LiteSubscription, SendRequest
from gantrymq.model.group import GroupConfig
from gantrymq.model.properties import encode_text
from gantrymq.model.topic import TopicConfig

SETTINGS = {"store": "mmap", "enableLmq": "true", "enableMultiDispatch": "true"}


class LiteBroker:
    """A broker of `gantrymq_simulation` with the parent topic P and the group G."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.clock = cluster.world.clock
        self.topic()
        self.group()

    @property
    def broker(self):
        try:
            return self.cluster.broker
        except AssertionError as error:  # between stop and start of a restart
            raise ServiceNotAvailable(str(error)) from error

    @property
    def lite(self):
        return self.broker.service("lite")

    def topic(self, name="P", **attributes):
        named = {key.replace("_", "."): value for key, value in attributes.items()}
        self.broker.topics.put(TopicConfig(name, 2, 2, attributes={"message.type": "LITE", **named}))

    def group(self, name="G", topic="P", **attributes):
        named = {key.replace("_", "."): value for key, value in attributes.items()}
        self.cluster.server.tables.groups.put(GroupConfig(name, attributes={"lite.bind.topic": topic, **named}))

    async def send(self, lite_topic, body=b"hello", topic="P", **more):
        properties = encode_text({"__LITE_TOPIC": lite_topic, **more}) if lite_topic else encode_text(more)
        return await self.broker.messages.send(SendRequest("producers", topic, body, properties))

    def client(self, client_id="c1", group="G"):
        return LiteClient(self, client_id, group)


class LiteClient(MemoryClient):
    """A consumer of lite topics."""

    def __init__(self, served, client_id, group):
        super().__init__(served.broker, client_id)
        self.served, self.group = served, group
        self.unsubscribed = []

    def lite_unsubscribed(self, news):
        self.unsubscribed.append(news)

    async def subscribe(self, *lite_topics, action=LiteAction.PARTIAL_ADD, offset=None, topic="P"):
        change = LiteSubscription(action, self.client_id, self.group, topic, lite_topics, offset)
        await self.served.lite.subscribe(change, self)

    async def unsubscribe(self, *lite_topics):
        await self.subscribe(*lite_topics, action=LiteAction.PARTIAL_REMOVE)

    async def complete(self, *lite_topics):
        await self.subscribe(*lite_topics, action=LiteAction.COMPLETE_ADD)

    async def receive(self, *, most=32, invisible_ms=30_000, wait_ms=0, topic="P", **more):
        request = LiteRequest(self.group, topic, self.client_id, most, invisible_ms, wait_ms, **more)
        answer = await self.served.lite.receive(request, self)
        assert answer.code == (0 if answer.batches else 210)
        return [Received(self, each) for each in answer.messages()]

    async def bodies(self, **more):
        return [each.body for each in await self.receive(**more)]


class Received:
    """A received message."""

    def __init__(self, client, popped):
        self.client, self.popped = client, popped
        self.body = bytes(popped.record.body)
        self.deliveries, self.receipt = popped.deliveries, popped.receipt
        self.lite_topic = popped.record.properties["__LITE_TOPIC"]

    @property
    def name(self):
        return LiteMessage(self.client.group, self.popped.record.topic, self.lite_topic, self.receipt)

    async def ack(self, **changes):
        await self.client.served.lite.ack(self.name._replace(**changes))

    async def change(self, invisible_ms):
        return await self.client.served.lite.change_invisible_time(self.name, invisible_ms)
