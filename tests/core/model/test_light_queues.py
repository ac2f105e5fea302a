import pytest

from gantrymq.errors import LiteTopicIllegal
from gantrymq.model.light_queues import (
    check_lite_topic,
    fans_out,
    light_queue_names,
    light_queue_offsets,
    lite_queue,
    lite_topic_of,
)


def own(names, offsets):
    return {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": offsets}


def test_each_queue_has_its_offset_and_counts_once():
    assert light_queue_offsets("T", own("%LMQ%a,%LMQ%b,%LMQ%a", "7,0,7")) == [("%LMQ%a", 7), ("%LMQ%b", 0)]


@pytest.mark.parametrize(
    ("names", "offsets"),
    [("%LMQ%a,%LMQ%b", "7"), ("%LMQ%a", ""), ("", ""), ("q", "1"), ("%LMQ%a", "-1"), ("%LMQ%a", "x")],
)
def test_texts_that_do_not_belong_together_name_nothing(names, offsets):
    assert light_queue_offsets("T", own(names, offsets)) == []


@pytest.mark.parametrize("topic", ["%RETRY%G", "rmq_sys_own", "SCHEDULE_TOPIC_XXXX"])
def test_some_topics_fan_nothing_out(topic):
    assert not fans_out(topic)
    assert light_queue_offsets(topic, own("%LMQ%a", "0")) == []


def test_names_stand_as_they_were_asked_for():
    assert light_queue_names({"INNER_MULTI_DISPATCH": "%LMQ%a,q"}) == ("%LMQ%a", "q")
    assert light_queue_names({}) == light_queue_names({"INNER_MULTI_DISPATCH": " "}) == ()


def test_a_lite_topic_has_a_light_queue_of_its_own():
    assert lite_queue("P", "a-1") == "%LMQ%$P$a-1"
    assert lite_topic_of("%LMQ%$P$a-1") == ("P", "a-1")
    for other in ("%LMQ%a", "P", "%LMQ%$P", "%LMQ%$P$", "%LMQ%$$a", "%LMQ%$P$a$b"):
        assert lite_topic_of(other) is None


def test_names_of_lite_topics():
    for name in ("a", "A_b-1", "x" * 64):
        check_lite_topic(name)
    for name in ("", "x" * 65, "a b", "a$b", "%a", "a\n", "\u4e2d"):
        with pytest.raises(LiteTopicIllegal):
            check_lite_topic(name)
