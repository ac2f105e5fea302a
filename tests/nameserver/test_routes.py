"""Route lookup: contents, acting masters, zones."""

from __future__ import annotations

import pytest

from gantrymq_nameserver.registration import register
from gantrymq_nameserver.routes import find_route, keep_zone
from gantrymq_nameserver.unregistration import Unregistration, unregister


def addresses(route):
    return {broker.name: broker.addresses for broker in route.brokers}


def test_an_unknown_topic_has_no_route(tables, registration):
    register(tables, registration(), 0)
    assert find_route(tables, "nothing") is None


def test_all_brokers_and_queues_are_listed_by_name(tables, registration):
    register(tables, registration(name="b", queues=2), 0)
    register(tables, registration(1, name="b"), 0)
    register(tables, registration(name="a", zone="z"), 0)
    route = find_route(tables, "T")
    assert route is not None
    assert route.to_json() == {
        "brokerDatas": [
            {
                "brokerAddrs": {0: "a0:1"},
                "brokerName": "a",
                "cluster": "C",
                "enableActingMaster": False,
                "zoneName": "z",
            },
            {
                "brokerAddrs": {0: "b0:1", 1: "b1:1"},
                "brokerName": "b",
                "cluster": "C",
                "enableActingMaster": False,
                "zoneName": None,
            },
        ],
        "filterServerTable": {},
        "orderTopicConf": None,
        "queueDatas": [
            {"brokerName": "a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4},
            {"brokerName": "b", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2},
        ],
        "topicQueueMappingByBroker": None,
    }


def test_a_name_without_broker_data_keeps_its_queues_only(tables, registration):
    register(tables, registration(name="a"), 0)
    register(tables, registration(name="b"), 0)
    del tables.brokers["a"]
    route = find_route(tables, "T")
    assert route is not None
    assert (list(addresses(route)), [queue.broker_name for queue in route.queues]) == (["b"], ["a", "b"])
    del tables.brokers["b"]
    assert find_route(tables, "T") is None


def test_filter_servers_are_named_per_address_once_there_are_any(tables, registration):
    register(tables, registration(name="a", filter_servers=["f:1"]), 0)
    register(tables, registration(name="b"), 0)
    route = find_route(tables, "T")
    assert route is not None
    assert route.filter_servers == {"a0:1": ["f:1"], "b0:1": None}


def test_mappings_ride_along(tables, registration):
    register(tables, registration(mappings={"T": {"bname": "a"}}), 0)
    route = find_route(tables, "T")
    assert route is not None
    assert route.mappings == {"a": {"bname": "a"}}


@pytest.mark.parametrize(
    ("supported", "acting", "topic", "expected"),
    [
        (True, True, "T", {0: "a1:1", 2: "a2:1"}),
        (False, True, "T", {1: "a1:1", 2: "a2:1"}),
        (True, False, "T", {1: "a1:1", 2: "a2:1"}),
        (True, True, "rmq_sys_SYNC_BROKER_MEMBER_a", {1: "a1:1", 2: "a2:1"}),
    ],
)
def test_the_smallest_slave_stands_in_for_a_master(tables, registration, supported, acting, topic, expected):
    for broker_id in (0, 1, 2):
        register(tables, registration(broker_id, acting_master=acting, topics=(topic, "X")), 0)
    unregister(tables, [Unregistration("C", "a", "a0:1", 0)])
    before = dict(tables.brokers["a"].addresses)
    route = find_route(tables, topic, acting_master=supported)
    assert route is not None
    assert addresses(route) == {"a": expected}
    assert tables.brokers["a"].addresses == before  # the table itself is unchanged


def test_a_slave_whose_queues_are_writable_stays_a_slave(tables, registration):
    register(tables, registration(1, acting_master=True), 0)
    tables.queues["T"]["a"].perm = 6
    route = find_route(tables, "T", acting_master=True)
    assert route is not None
    assert addresses(route) == {"a": {1: "a1:1"}}


def test_a_zone_keeps_its_own_and_the_masterless(tables, registration):
    register(tables, registration(name="a", zone="Z1", filter_servers=["f:1"]), 0)
    register(tables, registration(name="b", zone="z2", filter_servers=["g:1"]), 0)
    register(tables, registration(name="c"), 0)
    register(tables, registration(1, name="d", zone="z2", acting_master=False), 0)
    route = find_route(tables, "T")
    assert route is not None
    keep_zone(route, "z1")
    assert list(addresses(route)) == ["a", "d"]
    assert [queue.broker_name for queue in route.queues] == ["a", "d"]
    assert route.filter_servers == {"a0:1": ["f:1"], "d1:1": None}
    assert set(tables.brokers) == {"a", "b", "c", "d"}
