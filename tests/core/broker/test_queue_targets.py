"""Queue targets of messages."""

import pytest

from gantrymq.broker.queue_kinds import reported_min_offset, serves_light_queues
from gantrymq.broker.sending.queue_targets import TargetSelector
from gantrymq.broker.settings import SCHEMA
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Setting, Settings
from gantrymq.errors import InvalidParameter, MessageIllegal
from gantrymq.interfaces import Bounds, QueueTargets, StoreMessage
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig

KEYS = [Setting(key, "flag", False, "Of the store.") for key in ("enableLmq", "enableMultiDispatch")]
PLAIN, BATCHES = TopicConfig("T"), TopicConfig("B", attributes={"queue.type": "BatchCQ"})
ASKS = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}


def settings(light):
    return Settings([*SCHEMA, *KEYS], {"enableLmq": light, "enableMultiDispatch": light})


def placed(topic, own, light=True):
    message = StoreMessage(topic.name, 0, b"x", b"")
    TargetSelector(settings(light)).assign(message, topic, own)
    return message.queue_targets


def test_only_what_needs_it_has_a_placing():
    assert placed(PLAIN, {}) is None
    assert placed(BATCHES, {}) == QueueTargets(batch=1)
    assert placed(PLAIN, ASKS) == QueueTargets(light=("%LMQ%a", "%LMQ%b"))
    assert placed(PLAIN, ASKS, light=False) is None
    assert placed(TopicConfig("%RETRY%G"), ASKS) is None
    assert placed(BATCHES, ASKS, light=False) == QueueTargets(batch=1)


def test_what_cannot_be_had_together_is_refused():
    for topic, own in ((BATCHES, ASKS), (PLAIN, {"INNER_NUM": "2"})):
        with pytest.raises(MessageIllegal):
            placed(topic, own)


def test_a_store_without_the_keys_has_no_light_queues():
    assert not serves_light_queues(Settings(SCHEMA))
    assert not serves_light_queues(settings(False))
    assert serves_light_queues(settings(True))


def test_a_plugin_s_message_is_placed_like_a_client_s():
    target_selector = TargetSelector(settings(True))
    text = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02"
    for topic, properties, placing in (
        (PLAIN, text, QueueTargets(light=("%LMQ%a",))),
        (PLAIN, b"", None),
        (BATCHES, b"", QueueTargets(batch=1)),
        (None, text, None),
    ):
        message = StoreMessage("T", 0, b"x", properties)
        target_selector.assign_for_plugin(message, topic)
        assert message.queue_targets == placing


def test_light_topics_and_groups_are_there_without_being_kept():
    topics, groups = TopicTable(settings(True), lambda: 1), GroupTable(settings(True), lambda: 1)
    topic = topics.get("%LMQ%a")
    assert (topic.read_queues, topic.write_queues, topic.perm) == (1, 1, 6)
    assert topics.for_send("%LMQ%a", "TBW102", 4, unit=False, peer="p") == topic
    assert groups.find("%LMQ%g") == groups.get("%LMQ%g") == GroupConfig("%LMQ%g")
    assert (dict(topics.view), dict(groups.view)) == ({}, {})
    with pytest.raises(InvalidParameter, match="light queue"):
        topics.update(TopicConfig("%LMQ%a"), {})
    off = TopicTable(settings(False), lambda: 1), GroupTable(settings(False), lambda: 1)
    assert (off[0].get("%LMQ%a"), off[1].get("%LMQ%g")) == (None, None)


@pytest.mark.parametrize(
    ("topic", "bounds", "told"),
    [(BATCHES, (0, 0), -1), (BATCHES, (0, 3), 0), (BATCHES, (3, 3), 3), (PLAIN, (0, 0), 0), (None, (0, 0), 0)],
)
def test_a_batch_queue_that_never_had_a_message_begins_at_minus_one_as_on_java(topic, bounds, told):
    assert reported_min_offset(topic, Bounds(*bounds)) == told
