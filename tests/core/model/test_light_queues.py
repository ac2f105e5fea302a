import pytest

from gantrymq.model.light_queues import fans_out, light_queue_names, light_queue_offsets


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
