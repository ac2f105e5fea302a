"""Settings of strategies: accepted values, and the error sentences for others."""

import pytest

from gantrymq.errors import ConfigError
from gantrymq.model.queue import MessageQueue
from gantrymq_allocate.catalog import PLAIN, SHARING, nearby
from gantrymq_allocate.queue_list import parse_previous, parse_queues

REFUSED = [
    ("AVG", {"rooms": "a"}, "allocation strategy AVG has no setting rooms (it has none)"),
    (
        "CONSISTENT_HASH",
        {"virtual_node": "3"},
        "allocation strategy CONSISTENT_HASH has no setting virtual_node (it knows virtual_nodes); "
        "did you mean virtual_nodes?",
    ),
    (
        "CONSISTENT_HASH",
        {"virtual_nodes": "-1"},
        "allocation strategy CONSISTENT_HASH: virtual_nodes=-1 should be a whole number from 0 to 10000",
    ),
    ("CONSISTENT_HASH", {"virtual_nodes": "ten"}, "virtual_nodes=ten should be a whole number from 0 to 10000"),
    ("CONSISTENT_HASH", {"virtual_nodes": "10001"}, "should be a whole number from 0 to 10000"),
    ("CONSISTENT_HASH", {"virtual_nodes": "9" * 5000}, "should be a whole number from 0 to 10000"),
    ("MACHINE_ROOM", {}, "MACHINE_ROOM: rooms= should be the rooms to consume from, separated by commas"),
    ("MACHINE_ROOM", {"rooms": " , "}, "the rooms to consume from"),
    ("CONFIG", {"queues": "TopicTest/broker-a"}, "TOPIC/BROKER/ID or TOPIC/BROKER/FIRST-LAST"),
    ("CONFIG", {"queues": "T/b/3-1"}, "the entry 'T/b/3-1' is not"),
    ("CONFIG", {"queues": "T/b/0,T/b/65536"}, "the entry 'T/b/65536' is not"),
    ("STICKY", {"previous": "C1"}, "should be a JSON object from client id to queues"),
    ("STICKY", {"previous": '{"C1": [0]}'}, "should be a JSON object from client id to queues"),
    ("STICKY", {"previous": '{"C1": "T/b/0-3", "C2": "T/b/3"}'}, "is given to C1 and to C2"),
]


@pytest.mark.parametrize(("name", "settings", "sentence"), REFUSED)
def test_refuses_with_one_sentence(name, settings, sentence):
    with pytest.raises(ConfigError) as caught:
        (PLAIN | SHARING)[name](settings)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "inner", "sentence"),
    [
        ({"inner": "CONFIG"}, None, "inner=CONFIG should be one of AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, STICKY"),
        ({"separator": ""}, None, "separator= should be a text that is not empty, such as separator=-"),
        ({"inner": "AVG"}, "STICKY", "allocation strategy STICKY has no setting inner (it knows previous)"),
        (
            {"seperator": "@"},
            "AVG",
            "MACHINE_ROOM_NEARBY-AVG has no setting seperator (it knows separator); did you mean",
        ),
        ({"virtual_nodes": "x"}, "CONSISTENT_HASH", "CONSISTENT_HASH: virtual_nodes=x should be"),
    ],
)
def test_nearby_refuses_what_neither_it_nor_its_inner_strategy_knows(settings, inner, sentence):
    with pytest.raises(ConfigError) as caught:
        nearby(settings, inner)
    assert sentence in str(caught.value)


def test_the_settings_that_were_given_stay_as_they_are():
    settings = {"inner": "CONSISTENT_HASH", "virtual_nodes": "5", "separator": "@"}
    assert nearby(settings).name == "MACHINE_ROOM_NEARBY-CONSISTENT_HASH"
    assert settings == {"inner": "CONSISTENT_HASH", "virtual_nodes": "5", "separator": "@"}


def test_queues_as_text():
    assert parse_queues("") == []
    assert parse_queues(" T/b/1 , %RETRY%g/room1@b/0-2 ") == [
        MessageQueue("T", "b", 1),
        MessageQueue("%RETRY%g", "room1@b", 0),
        MessageQueue("%RETRY%g", "room1@b", 1),
        MessageQueue("%RETRY%g", "room1@b", 2),
    ]


def test_the_past_as_text():
    assert parse_previous("") == {}
    assert parse_previous('{"C1": "T/b/0", "C2": ""}') == {"C1": [MessageQueue("T", "b", 0)], "C2": []}
