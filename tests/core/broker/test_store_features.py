"""A broker refuses what its store does not support."""

import pytest
from broker_desk import run_broker, topic_ext

from gantrymq.broker.store_features import check_topics
from gantrymq.config import Setting
from gantrymq.errors import ConfigError, PluginError
from gantrymq.interfaces import StoreFeature
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import Plugins

KEYS = ("enableLmq", "enableMultiDispatch", "enableConsumeQueueExt")


def limited(store, *features):
    """*store*, with nothing but *features*."""

    class Limited(store):
        supports = frozenset(features)

    return Limited


def plugins_with(store):
    settings = tuple(Setting(key, "flag", False, "Of a store.") for key in KEYS)
    return Plugins(stores={"memory": store}, config=settings)


@pytest.fixture
def memory(plugins):
    return plugins.stores["memory"]


@pytest.mark.parametrize(("key", "what"), [("enableLmq", "light queues"), ("enableConsumeQueueExt", "ext units")])
def test_a_setting_needs_a_store_that_supports_it(memory, key, what):
    async def main(desk):
        """Nothing to do."""

    with pytest.raises(ConfigError, match=f"{key}=true needs a store with {what}, which store=memory does not"):
        run_broker(plugins_with(memory), main, **{key: True})
    run_broker(plugins_with(limited(memory, *StoreFeature)), main, **{key: True})


def test_a_topic_with_batch_queues_needs_a_store_that_has_them(memory):
    async def main(desk):
        return await desk.ask(17, topic_ext("T", 1, order="false", attributes="+queue.type=BatchCQ"))

    answer = run_broker(plugins_with(memory), main)
    assert answer.code != 0
    assert "queue.type=BatchCQ needs a store with batch queues, which store=memory does not support" in answer.remark
    assert run_broker(plugins_with(limited(memory, *StoreFeature)), main).code == 0


def test_a_stored_topic_with_batch_queues_stops_the_start():
    topics = [TopicConfig("A", 1, 1), TopicConfig("B", 1, 1, attributes={"queue.type": "BatchCQ"})]
    check_topics("", topics)
    with pytest.raises(ConfigError, match="topic B: this store has none"):
        check_topics("this store has none", topics)


def test_queries_by_key_and_by_time_need_a_store_that_supports_them(memory):
    async def main(desk):
        await desk.send("T")
        window = {"beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        by_key = await desk.ask(12, {"topic": "T", "key": "k", "maxNum": "1", **window})
        by_time = await desk.ask(29, {"topic": "T", "queueId": "0", "timestamp": "0"})
        return by_key, by_time

    for answer, what in zip(
        run_broker(plugins_with(limited(memory)), main), ("queries by key", "offsets by time"), strict=True
    ):
        assert (answer.code, f"does not support {what}" in answer.remark) == (1, True)
    by_key, by_time = run_broker(plugins_with(memory), main)
    assert by_time.code == 0
    assert "does not support" not in (by_key.remark or "")


def test_a_store_may_wrap_another_one_but_not_itself(memory):
    class Wrapping:
        def __init__(self, context):
            self.inner = context.store(self.wrapped)

        def __getattr__(self, name):
            return getattr(self.inner, name)

    async def main(desk):
        assert (await desk.send("T")).code == 0

    for wrapped, problem in (
        ("inner", ""),
        ("memory", "cannot wrap itself"),
        ("missing", "no installed plugin offers"),
    ):
        store = type("Wrapping", (Wrapping,), {"wrapped": wrapped})
        found = Plugins(stores={"memory": store, "inner": memory})
        if problem:
            with pytest.raises(PluginError, match=problem):
                run_broker(found, main)
        else:
            run_broker(found, main)
