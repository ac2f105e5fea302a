"""How brokers leave, alone and in batches."""

from __future__ import annotations

import pytest

from gantrymq_nameserver.registration import register
from gantrymq_nameserver.tables import BrokerAddress
from gantrymq_nameserver.unregistration import (
    Unregistration,
    expired,
    forget,
    registered_on,
    unregister,
    unregistration_of,
)


def leaving(broker_id, name="a"):
    return Unregistration("C", name, f"{name}{broker_id}:1", broker_id)


def test_the_last_address_takes_name_cluster_and_topics_along(tables, registration):
    register(tables, registration(filter_servers=["f:1"]), 0)
    assert unregister(tables, [leaving(0)]) == []
    assert (tables.brokers, tables.clusters, tables.queues, tables.live, tables.filter_servers) == ({}, {}, {}, {}, {})


def test_topics_of_other_brokers_stay(tables, registration):
    register(tables, registration(), 0)
    register(tables, registration(name="b", topics=("T", "V")), 0)
    unregister(tables, [leaving(0)])
    assert {topic: set(by_broker) for topic, by_broker in tables.queues.items()} == {"T": {"b"}, "V": {"b"}}
    assert tables.clusters == {"C": {"b"}}


@pytest.mark.parametrize(
    ("acting_master", "gone", "perm", "notified"),
    [
        (True, [0], 4, [1]),
        (False, [0], 6, []),
        (True, [1], 6, []),
        (True, [0, 1], None, []),
        (True, [1, 0], None, []),
    ],
)
def test_a_masterless_broker_that_may_act_becomes_read_only(tables, registration, acting_master, gone, perm, notified):
    for broker_id in (0, 1):
        register(tables, registration(broker_id, acting_master=acting_master), 0)
    changes = unregister(tables, [leaving(i) for i in gone])
    assert [change.minimum_id for change in changes] == notified
    assert (tables.queues["T"]["a"].perm if "T" in tables.queues else None) == perm


def test_the_notice_goes_to_all_remaining_brokers(tables, registration):
    for broker_id in (0, 1, 2):
        register(tables, registration(broker_id, acting_master=True), 0)
    (change,) = unregister(tables, [leaving(0)])
    assert change.receivers == ("a1:1", "a2:1")
    assert (change.minimum_address, change.offline_address, change.ha_address) == ("a1:1", "a0:1", None)


def test_a_slave_with_a_smaller_one_left_goes_quietly(tables, registration):
    for broker_id in (1, 2):
        register(tables, registration(broker_id, acting_master=True), 0)
    assert unregister(tables, [leaving(2)]) == []
    assert tables.brokers["a"].addresses == {1: "a1:1"}


def test_unknown_names_and_addresses_change_nothing(tables, registration):
    register(tables, registration(), 0)
    unregister(tables, [Unregistration("C", "nobody", "n:1", 0), Unregistration("C", "a", "other:1", 0)])
    assert tables.brokers["a"].addresses == {0: "a0:1"}
    assert tables.queues["T"]["a"].perm == 6


@pytest.mark.parametrize(
    "request_of_another",
    [
        pytest.param(Unregistration("C", "a", "a0:1", 1), id="another broker id"),
        pytest.param(Unregistration("D", "a", "a0:1", 0), id="another cluster"),
        pytest.param(Unregistration("C", "b", "a0:1", 0), id="another name"),
    ],
)
def test_an_unregistration_by_another_broker_is_ignored_and_logged(tables, registration, caplog, request_of_another):
    register(tables, registration(filter_servers=["f:1"]), 0)
    register(tables, registration(name="b", cluster="D"), 0)
    assert unregister(tables, [request_of_another]) == []
    assert tables.brokers["a"].addresses == {0: "a0:1"}
    assert tables.queues["T"].keys() == {"a", "b"}
    assert BrokerAddress("C", "a0:1") in tables.live
    assert BrokerAddress("C", "a0:1") in tables.filter_servers
    (line,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "broker a id 0 of cluster C is registered at a0:1" in line


def test_of_two_brokers_of_one_name_and_id_only_the_listed_one_leaves(tables, registration):
    register(tables, registration(0, "first:1"), 0)
    register(tables, registration(0, "second:1"), 0)
    unregister(tables, [Unregistration("C", "a", "first:1", 0)])
    assert tables.brokers["a"].addresses == {0: "second:1"}
    assert list(tables.live) == [BrokerAddress("C", "second:1")]


def test_a_name_in_two_clusters_leaves_both(tables, registration):
    register(tables, registration(0), 0)
    register(tables, registration(1, cluster="D"), 0)
    assert unregistration_of(tables, BrokerAddress("D", "a1:1")) == Unregistration("D", "a", "a1:1", 1)
    unregister(tables, [Unregistration("D", "a", "a1:1", 1)])
    assert tables.brokers["a"].addresses == {0: "a0:1"}
    unregister(tables, [Unregistration("C", "a", "a0:1", 0)])
    assert (tables.brokers, tables.clusters, tables.live) == ({}, {}, {})


def test_one_of_many_leaves_its_cluster(tables, registration):
    register(tables, registration(), 0)
    register(tables, registration(name="b", cluster="D"), 0)
    unregister(tables, [Unregistration("D", "b", "b0:1", 0)])
    assert tables.clusters == {"C": {"a"}}


@pytest.mark.parametrize(("now_ms", "is_expired"), [(10_999, False), (11_000, False), (11_001, True)])
def test_silence_counts_from_the_last_word(tables, registration, now_ms, is_expired):
    register(tables, registration(timeout_ms=10_000), 0)
    tables.refresh(BrokerAddress("C", "a0:1"), 1000)
    tables.refresh(BrokerAddress("C", "nobody:1"), 1000)
    assert expired(tables, now_ms) == ([BrokerAddress("C", "a0:1")] if is_expired else [])


def test_a_connection_is_known_by_identity(tables, registration):
    first, second = [], []  # equal, but two
    register(tables, registration(connection=first), 0)
    register(tables, registration(name="b", connection=second), 0)
    assert registered_on(tables, second) == [BrokerAddress("C", "b0:1")]
    register(tables, registration(name="b", connection=first), 0)
    assert registered_on(tables, second) == []
    assert registered_on(tables, first) == [BrokerAddress("C", "a0:1"), BrokerAddress("C", "b0:1")]


def test_an_address_finds_its_name_within_its_cluster(tables, registration):
    register(tables, registration(1), 0)
    assert unregistration_of(tables, BrokerAddress("C", "a1:1")) == leaving(1)
    assert unregistration_of(tables, BrokerAddress("D", "a1:1")) is None


def test_an_unlisted_address_is_removed(tables, registration):
    register(tables, registration(0, "old:1", filter_servers=["f:1"]), 0)
    register(tables, registration(0, "new:1"), 0)
    old = BrokerAddress("C", "old:1")
    assert unregistration_of(tables, old) is None
    forget(tables, old)
    assert list(tables.live) == [BrokerAddress("C", "new:1")]
    assert tables.filter_servers == {}
