"""A broker refuses what its store does not support."""

import pytest
from broker_desk import records, run_broker, topic_ext

from gantrymq.broker.queue_kinds import check_topics
from gantrymq.config import Setting
from gantrymq.errors import ConfigError, PluginError
from gantrymq.interfaces import MessageStore, StoreFeature
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import Plugins

REQUIRED = [name for name in vars(MessageStore) if not name.startswith("_")]
KEYS = ("enableLmq", "enableMultiDispatch", "enableConsumeQueueExt")


def with_features(store, *features):
    """*store*, with *features*."""

    class WithFeatures(store):
        supports = frozenset(features)

    return WithFeatures


def minimal(store):
    """A store with what `MessageStore` requires, and nothing else, over *store*."""

    class Minimal:
        def __init__(self, context):
            inner = store(context)
            for name in REQUIRED:
                setattr(self, name, getattr(inner, name))

    return Minimal


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
    run_broker(plugins_with(with_features(memory, *StoreFeature)), main, **{key: True})


def test_a_topic_with_batch_queues_needs_a_store_that_has_them(memory):
    async def main(desk):
        return await desk.ask(17, topic_ext("T", 1, order="false", attributes="+queue.type=BatchCQ"))

    answer = run_broker(plugins_with(memory), main)
    assert answer.code != 0
    assert "queue.type=BatchCQ needs a store with batch queues, which store=memory does not support" in answer.remark
    assert run_broker(plugins_with(with_features(memory, *StoreFeature)), main).code == 0


def test_a_stored_topic_with_batch_queues_stops_the_start():
    topics = [TopicConfig("A", 1, 1), TopicConfig("B", 1, 1, attributes={"queue.type": "BatchCQ"})]
    check_topics("", topics)
    with pytest.raises(ConfigError, match="topic B: this store has none"):
        check_topics("this store has none", topics)


def test_a_minimal_store_serves_sends_pulls_and_offsets(memory):
    async def main(desk):
        for number in range(3):
            assert (await desk.send("T", b"%d" % number)).code == 0
        pulled = await desk.pull("T")
        assert [bytes(record.body) for record in records(pulled)] == [b"0", b"1", b"2"]
        position = {"consumerGroup": "CG", "topic": "T", "queueId": "0"}
        assert (await desk.ask(15, {**position, "commitOffset": "2"})).code == 0
        answer = await desk.ask(14, position)
        assert (answer.code, answer.ext["offset"]) == (0, "2")
        viewed = await desk.ask(33, {"offset": "0"})
        assert [bytes(record.body) for record in records(viewed)] == [b"0"]
        assert (await desk.ask(17, topic_ext("T2", 1))).code == 0
        assert (await desk.ask(215, {"topic": "T"})).code == 0
        assert desk.server.store.bounds(Queue("T", 0)) == (0, 0)

    run_broker(plugins_with(minimal(memory)), main)


WINDOW = {"beginTimestamp": "0", "endTimestamp": str(1 << 60)}


@pytest.mark.parametrize(
    ("code", "ext", "what"),
    [
        (12, {"topic": "T", "key": "k", "maxNum": "1", **WINDOW}, "queries by key"),
        (29, {"topic": "T", "queueId": "0", "timestamp": "0"}, "offsets by time"),
    ],
)
def test_a_request_for_what_the_store_lacks_is_refused_with_a_sentence(memory, code, ext, what):
    async def main(desk):
        await desk.send("T", b"k")
        await desk.pull("T")
        return await desk.ask(code, ext)

    answer = run_broker(plugins_with(minimal(memory)), main, useServerSideResetOffset=True)
    assert (answer.code, answer.remark) == (
        3,
        f"the broker's store does not support {what}; a broker with store=mmap does",
    )
    answer = run_broker(plugins_with(memory), main, useServerSideResetOffset=True)
    assert "does not support" not in (answer.remark or "")


def test_a_member_that_is_none_counts_as_missing(memory):
    class NoKeys(memory):
        query = None

    async def main(desk):
        return await desk.ask(12, {"topic": "T", "key": "k", "maxNum": "1", **WINDOW})

    assert run_broker(plugins_with(NoKeys), main).code == 3


def test_a_store_without_a_required_method_is_refused_with_its_name(memory):
    class NoScan(memory):
        __slots__ = ()

        def __getattribute__(self, name):
            if name in ("scan", "bounds"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    async def main(desk):
        """Nothing to do."""

    with pytest.raises(PluginError, match=r"store=memory has no scan, bounds, which every store needs"):
        run_broker(plugins_with(NoScan), main)


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
