"""The topic table: automatic creation, permissions, attributes, system topics."""

from __future__ import annotations

import pytest

from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import GantryError, InvalidParameter, RequestRefused, TopicNotExist
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import PERM_INHERIT, TopicConfig


@pytest.fixture
def topics(settings, clock):
    table = TopicTable(settings, clock.now_ms)
    table.add_system_topics("C", "b")
    return table


def for_send(topics, name="New", default="TBW102", wanted=4, unit=False):
    return topics.for_send(name, default, wanted, unit=unit, peer="1.2.3.4:5")


def test_system_topics_are_those_of_a_java_broker(topics):
    assert {name: (topic.write_queues, topic.perm) for name, topic in topics.view.items()} == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "C": (16, 7),
        "b": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "C_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_C": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_b": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
    }


def test_settings_decide_which_system_topics_there_are(settings, clock):
    for key in ("autoCreateTopicEnable", "clusterTopicEnable", "brokerTopicEnable"):
        settings.set(key, False, "test")
    settings.set("traceTopicEnable", True, "test")
    table = TopicTable(settings, clock.now_ms)
    table.add_system_topics("C", "b")
    assert table.get("TBW102") is None
    assert table.get("C").perm == table.get("b").perm == PERM_INHERIT
    assert table.get("RMQ_SYS_TRACE_TOPIC") is not None


def test_a_loaded_system_topic_stays_as_it_is(settings, clock):
    table = TopicTable(settings, clock.now_ms)
    table.load({"TBW102": TopicConfig("TBW102", 2, 2, 7)}, DataVersion(counter=3))
    table.add_system_topics("C", "b")
    assert table.get("TBW102").write_queues == 2
    assert table.version.counter == 3


@pytest.mark.parametrize(("wanted", "made"), [(1, 1), (4, 4), (8, 8), (100, 8)])
def test_an_automatic_topic_has_no_more_queues_than_its_model(topics, wanted, made):
    topic = for_send(topics, wanted=wanted)
    assert (topic.read_queues, topic.write_queues, topic.perm) == (made, made, 6)


def test_an_automatic_topic_is_told_once_with_a_new_version(topics):
    told = []
    topics.on_change(told.append)
    before = topics.version.counter
    first = for_send(topics)
    assert for_send(topics) is first
    assert told == [first]
    assert topics.version.counter == before + 1


@pytest.mark.parametrize("default", ["Unknown", "BenchmarkTest", ""])
def test_no_topic_is_made_after_one_that_does_not_allow_it(topics, default):
    with pytest.raises(TopicNotExist, match="gantrymq topic create -t New"):
        for_send(topics, default=default)
    assert topics.get("New") is None


def test_tbw102_makes_no_topics_when_that_is_switched_off_but_others_may(topics, settings):
    settings.set("autoCreateTopicEnable", False, "test")
    with pytest.raises(TopicNotExist):
        for_send(topics)
    assert for_send(topics, default="C", wanted=2).write_queues == 2


def test_a_retry_topic_is_made_as_any_other_and_where_none_may_be_with_one_queue(topics, settings):
    topic = for_send(topics, "%RETRY%CG", wanted=4, unit=True)
    assert (topic.write_queues, topic.perm, topic.sys_flag) == (4, 6, 2)
    settings.set("autoCreateTopicEnable", False, "test")
    topic = for_send(topics, "%RETRY%Other", wanted=4, unit=True)
    assert (topic.write_queues, topic.perm, topic.sys_flag) == (1, 6, 2)


def test_retry_topics_of_a_group_get_its_number_of_queues(topics):
    assert topics.create_retry("%RETRY%CG", 3).write_queues == 3
    assert topics.create_retry("%RETRY%CG", 5).write_queues == 3


@pytest.mark.parametrize("unit", [False, True])
def test_the_unit_flag_comes_from_the_request(topics, unit):
    assert for_send(topics, unit=unit).sys_flag == int(unit)


# --- by an operator -------------------------------------------------------------------------------------------------


def test_attributes_are_set_kept_and_deleted(topics):
    topics.update(TopicConfig("T"), {"+message.type": "FIFO", "+reserve.time": "-1"})
    assert topics.get("T").attributes == {"message.type": "FIFO", "reserve.time": "-1"}
    topics.update(TopicConfig("L"), {"+message.type": "LITE", "+lite.topic.expiration": "-1"})
    assert topics.get("L").attributes == {"message.type": "LITE", "lite.topic.expiration": "-1"}
    topics.update(TopicConfig("T", 8, 8), {"-reserve.time": ""})
    assert topics.get("T").attributes == {"message.type": "FIFO"}
    assert topics.get("T").write_queues == 8


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"+colour": "red"}, "not one of"),
        ({"message.type": "FIFO"}, "not one of"),
        ({"+message.type": "fifo"}, "FIFO"),
        ({"+reserve.time": "soon"}, "whole number"),
        ({"+reserve.time": "9" * 5000}, "whole number"),
        ({"+lite.topic.expiration": "43201"}, "a whole number from -1 to 43200"),
        ({"+lite.topic.expiration": "--1"}, "a whole number from -1 to 43200"),
        ({"-message.type": ""}, "is new, so attribute message.type cannot be deleted"),
        ({"+cleanup.policy": "COMPACTION"}, "not implemented"),
    ],
)
def test_an_attribute_that_cannot_be_kept_is_refused(topics, changes, word):
    with pytest.raises(RequestRefused, match=word):
        topics.update(TopicConfig("T"), changes)
    assert topics.get("T") is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"-reserve.time": ""}, "topic T has no attribute reserve.time to delete"),
        ({"+message.type": "FIFO", "-message.type": ""}, "named twice"),
    ],
)
def test_a_change_that_contradicts_the_topic_or_itself_is_refused(topics, changes, word):
    topics.update(TopicConfig("T"), {"+message.type": "NORMAL"})
    with pytest.raises(RequestRefused, match=word):
        topics.update(TopicConfig("T"), changes)
    assert topics.get("T").attributes == {"message.type": "NORMAL"}


def test_the_retry_topic_of_a_group_with_ordered_topics_is_marked(topics):
    told = []
    topics.on_change(told.append)
    assert not topics.create_retry("%RETRY%CG", 1).order
    topics.create_retry("%RETRY%CG", 4, ordered=True)
    topic = topics.create_retry("%RETRY%CG", 1)  # for a message sent back, or a member that reads other topics
    assert (topic.order, topic.write_queues, len(told)) == (True, 1, 2)
    assert topics.create_retry("%RETRY%Other", 1, ordered=True).order


def test_the_kind_of_queue_is_fixed_at_creation(topics):
    topics.update(TopicConfig("B"), {"+queue.type": "BatchCQ"})
    assert topics.get("B").has_batch_queues
    topics.update(TopicConfig("B", 8, 8), {"+queue.type": "BatchCQ"})
    for name, changes, had in (
        ("B", {"+queue.type": "SimpleCQ"}, "BatchCQ"),
        ("B", {"-queue.type": ""}, "BatchCQ"),
        ("S", {"+queue.type": "BatchCQ"}, "SimpleCQ"),
    ):
        topics.update(TopicConfig("S"), {"+queue.type": "SimpleCQ"})
        with pytest.raises(RequestRefused, match=f"it was made with {had}"):
            topics.update(TopicConfig(name), changes)
    assert topics.get("B").attributes == {"queue.type": "BatchCQ"}


def test_attributes_fixed_at_creation_cannot_change(topics):
    topics.put(TopicConfig("T", attributes={"cleanup.policy": "DELETE"}))
    topics.update(TopicConfig("T"), {"+cleanup.policy": "DELETE"})
    with pytest.raises(RequestRefused, match="fixed"):
        topics.update(TopicConfig("T"), {"+cleanup.policy": "COMPACTION"})


@pytest.mark.parametrize(
    "topic",
    [
        TopicConfig("TBW102"),
        TopicConfig("rmq_sys_own"),
        TopicConfig("a b"),
        TopicConfig(""),
        TopicConfig("T", perm=8),
        TopicConfig("T", read_queues=-1),
        TopicConfig("T", write_queues=65537),
    ],
)
def test_an_operator_cannot_make_what_the_broker_refuses(topics, topic):
    before = dict(topics.view)
    with pytest.raises(GantryError) as caught:
        topics.update(topic, {})
    assert caught.value.response_code == 29
    assert dict(topics.view) == before


def test_deleting_moves_the_version_and_spares_system_topics(topics):
    topics.put(TopicConfig("T"))
    before = topics.version.counter
    assert topics.delete("T").name == "T"
    assert topics.delete("T") is None
    assert topics.version.counter == before + 1
    for name in ("TBW102", " "):
        with pytest.raises(InvalidParameter):
            topics.delete(name)
