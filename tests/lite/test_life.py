"""Lite topics come with the first message and go when they are unused; restarts; sends."""

import asyncio

import pytest

from gantrymq.errors import LightQueueQuotaExceeded, LiteTopicIllegal, MessageIllegal, ServiceNotAvailable
from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.interfaces import SendRequest
from gantrymq.model.properties import encode, encode_text
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig

LIGHT = Queue("%LMQ%$P$a", 0)
HOUR_S = 3600.0


def test_a_lite_topic_without_messages_expires_with_its_offsets(lite):
    async def work(served):
        served.topic("P", lite_topic_expiration="30")
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1")
        await served.send("b", b"1")
        (message,) = await client.receive()
        await message.ack()
        for _ in range(3):
            await served.clock.sleep(1200.0)
            await served.send("b", b"more")
            await client.complete("a", "b")
        assert served.lite._topics.counts() == {"P": 1}
        assert served.broker.store.bounds(LIGHT) == (0, 0)
        assert served.broker.offsets.committed("G", LIGHT) is None
        await served.send("a", b"2")
        assert b"2" in await client.bodies()
        await served.cluster.restart()
        assert served.broker.store.bounds(LIGHT) == (0, 1)
        assert served.lite._topics.counts() == {"P": 2}

    lite(work)


@pytest.mark.parametrize("minutes", [None, *(pytest.param(each, marks=pytest.mark.slow) for each in ("-1", "0"))])
def test_without_an_expiration_lite_topics_stay(lite, minutes):
    async def work(served):
        served.topic("P", **({"lite_topic_expiration": minutes} if minutes else {}))
        await served.send("a", b"1")
        await served.clock.sleep(20 * HOUR_S)
        assert served.lite._topics.counts() == {"P": 1}

    lite(work)


def test_a_restart_keeps_messages_and_offsets_and_the_time_of_the_last_message(lite):
    async def work(served):
        served.topic("P", lite_topic_expiration="120")
        client = served.client()
        await client.subscribe("a")
        for number in range(3):
            await served.send("a", str(number).encode())
        first, second, _ = await client.receive()
        await second.ack()
        await first.ack()
        await served.clock.sleep(HOUR_S)
        await served.cluster.restart()
        client = served.client()
        await client.complete("a")
        (third,) = await client.receive()
        assert (third.body, third.deliveries) == (b"2", 0)
        await served.clock.sleep(0.8 * HOUR_S)
        assert served.lite._topics.counts() == {"P": 1}
        await served.clock.sleep(0.5 * HOUR_S)
        assert served.lite._topics.counts() == {}

    lite(work)


def test_an_acknowledgement_after_a_restart_never_passes_an_unacknowledged_message(lite):
    async def work(served):
        client = served.client()
        await client.subscribe("a")
        for number in range(2):
            await served.send("a", str(number).encode())
        first, second = await client.receive()
        await served.cluster.restart()
        client = first.client = second.client = served.client()
        await second.ack()
        assert served.broker.offsets.committed("G", LIGHT) is None
        await first.ack()
        assert served.broker.offsets.committed("G", LIGHT) == 1
        await client.complete("a")
        assert await client.bodies() == [b"1"]

    lite(work)


def test_a_message_has_the_properties_of_rocketmq(lite):
    async def work(served):
        answer = await served.send("a", b"1", KEYS="k")
        record = served.broker.messages.read(answer.results[0].log_offset)
        assert record.topic == "P"
        own = dict(record.properties)
        assert (own["__LITE_TOPIC"], own["INNER_MULTI_DISPATCH"]) == ("a", "%LMQ%$P$a")
        assert own["INNER_MULTI_QUEUE_OFFSET"] == "0"
        plain = await served.send("", b"1")  # a message of the parent topic only
        assert served.broker.messages.read(plain.results[0].log_offset).properties.get("INNER_MULTI_DISPATCH") is None

    lite(work)


def test_messages_that_name_a_wrong_lite_topic_are_refused(lite):
    async def work(served):
        served.broker.topics.put(TopicConfig("plain"))
        for name in ("x" * 65, "bad lite!", "%LMQ%"):
            with pytest.raises(LiteTopicIllegal):
                await served.send(name)
        with pytest.raises(LiteTopicIllegal, match="topic plain has no lite topics"):
            await served.send("a", topic="plain")
        body = encode_batch([BatchEntry(0, b"x", encode({"__LITE_TOPIC": "a"}))])
        with pytest.raises(MessageIllegal, match="batch cannot be listed in light queues"):
            await served.broker.messages.send(SendRequest("p", "P", body, encode_text({"UNIQ_KEY": "1"}), batch=True))
        assert served.broker.store.bounds(Queue("P", 0)).max_offset == 0

    lite(work)


def test_a_light_queue_too_many_is_refused_with_its_own_code(lite):
    async def work(served):
        await served.send("a")
        with pytest.raises(LightQueueQuotaExceeded, match="maxLmqConsumeQueueNum allows 1") as refused:
            await served.send("b")
        assert refused.value.response_code == 2017
        assert served.lite._topics.counts() == {"P": 1}
        await served.send("a")

    lite(work, {"maxLmqConsumeQueueNum": 1})


def test_a_delayed_message_is_in_its_lite_topic_when_it_is_due(lite):
    pytest.importorskip("gantrymq_schedule")

    async def work(served):
        client = served.client()
        await client.subscribe("a")
        await served.send("a", b"1", DELAY="1")
        assert served.broker.store.bounds(LIGHT).max_offset == 0
        assert await client.bodies(wait_ms=5000) == [b"1"]

    lite(work, {"messageDelayLevel": "1s 3s"})


def test_metrics_count_lite_topics_and_subscriptions(lite):
    async def work(served):
        await served.client().subscribe("a", "b")
        for lite_topic in ("a", "c", "c"):
            await served.send(lite_topic)
        values = {each.name: each.values for each in served.broker.metrics.of_plugins() if "lite" in each.name}
        assert values == {"gantrymq_lite_topics": {("P",): 2}, "gantrymq_lite_subscriptions": {("P", "G"): 2}}

    lite(work)


def test_a_broker_without_light_queues_has_no_metrics_of_them(lite):
    async def work(served):
        assert [each.name for each in served.broker.metrics.of_plugins() if "lite" in each.name] == []

    lite(work, {"enableLmq": "false", "enableMultiDispatch": "false"})


def test_a_consumer_that_asks_again_at_once_does_not_hold_up_a_stop(lite):
    async def work(served):
        async def consume():
            client = served.client()
            await client.complete("a")
            while True:
                await client.receive(wait_ms=20_000)

        consuming = asyncio.ensure_future(consume())
        await served.clock.sleep(1.0)
        await served.cluster.restart()
        with pytest.raises(ServiceNotAvailable):
            await consuming

    lite(work)
