"""Each step of RocketMQ's registration algorithm."""

from __future__ import annotations

import pytest

from gantrymq.errors import RequestError
from gantrymq_nameserver.registration import RegistrationResult, register
from gantrymq_nameserver.tables import BrokerAddress
from gantrymq_nameserver.topics import cluster_info
from gantrymq_nameserver.unregistration import Unregistration, unregister


def perms(tables, topic="T"):
    return {name: data.perm for name, data in tables.queues[topic].items()}


def test_a_master_brings_cluster_address_topics_and_life(tables, registration):
    asked = registration(zone="z1", acting_master=True, connection="conn")
    assert register(tables, asked, 1000) == RegistrationResult()
    assert tables.clusters == {"C": {"a"}}
    broker = tables.brokers["a"]
    assert (broker.cluster, broker.addresses, broker.zone, broker.acting_master) == ("C", {0: "a0:1"}, "z1", True)
    assert set(tables.queues) == {"T", "U"}
    live = tables.live[BrokerAddress("C", "a0:1")]
    assert (live.updated_ms, live.timeout_ms, live.connection, live.ha_address) == (1000, 120_000, "conn", "ha-a-0")


@pytest.mark.parametrize(("timeout_ms", "kept"), [(None, 120_000), (10_000, 10_000), (0, 0)])
def test_the_time_out_is_the_headers_or_two_minutes(tables, registration, timeout_ms, kept):
    register(tables, registration(timeout_ms=timeout_ms), 0)
    assert tables.live[BrokerAddress("C", "a0:1")].timeout_ms == kept


def test_zone_and_acting_flag_follow_the_last_registration(tables, registration):
    register(tables, registration(zone="z1", acting_master=True), 0)
    register(tables, registration(), 0)
    assert (tables.brokers["a"].zone, tables.brokers["a"].acting_master) == (None, False)


@pytest.mark.parametrize(
    ("ids", "changes"),
    [
        ([0], [None]),  # an empty map is no change in any case
        ([2], [None]),
        ([2, 1], [None, 1]),
        ([2, 1, 0], [None, 1, 0]),
        ([0, 1], [None, None]),
        ([1, 1], [None, None]),
    ],
)
def test_a_smaller_id_than_any_before_is_a_change(tables, registration, ids, changes):
    seen = [register(tables, registration(i, acting_master=True), 0).change for i in ids]
    assert [change and change.minimum_id for change in seen] == changes


def test_the_change_tells_the_others_and_names_the_newcomers_ha_address(tables, registration):
    register(tables, registration(2), 0)
    change = register(tables, registration(1), 0).change
    assert change is not None
    assert change.receivers == ("a2:1",)
    assert (change.minimum_address, change.offline_address, change.ha_address) == ("a1:1", None, "ha-a-1")


def test_a_promoted_slave_leaves_its_old_id(tables, registration):
    register(tables, registration(1, "x:1"), 0)
    register(tables, registration(0, "x:1"), 0)
    assert tables.brokers["a"].addresses == {0: "x:1"}


@pytest.mark.parametrize(
    ("old", "new", "address"),
    [(2, 1, "old:1"), (1, 1, "new:1"), (1, 2, "new:1")],
)
def test_an_id_stays_with_the_newer_state_version(tables, registration, old, new, address):
    register(tables, registration(0, "old:1", state_version=old), 0)
    answer = register(tables, registration(0, "new:1", state_version=new, topics=("V", "W")), 0)
    assert answer == RegistrationResult()
    assert tables.brokers["a"].addresses == {0: address}
    assert (BrokerAddress("C", "new:1") in tables.live) is (address == "new:1")
    assert ("V" in tables.queues) is (address == "new:1")


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_two_live_brokers_of_one_name_and_id_are_warned_of_once(tables, registration, caplog):
    for round_ in range(3):
        register(tables, registration(0, "first:1"), round_)
        register(tables, registration(0, "second:1"), round_)
    (line,) = warnings(caplog)
    assert line.startswith("two brokers are registered as a id 0, at first:1 and at second:1: ")
    assert tables.brokers["a"].addresses == {0: "second:1"}


def test_two_brokers_of_one_name_in_two_clusters_are_warned_of_with_their_clusters(tables, registration, caplog):
    register(tables, registration(0, "first:1"), 0)
    register(tables, registration(0, "second:1", cluster="D"), 0)
    (line,) = warnings(caplog)
    assert "at first:1 (cluster C) and at second:1 (cluster D)" in line and line.endswith("another brokerName")


def test_other_masters_of_a_name_are_told_as_long_as_they_live(tables, registration):
    register(tables, registration(0, "first:1"), 0)
    assert "rivalAddrs" not in cluster_info(tables)["brokerAddrTable"]["a"]
    for round_ in range(2):
        register(tables, registration(0, "second:1"), round_)
        assert cluster_info(tables)["brokerAddrTable"]["a"]["rivalAddrs"] == ["first:1"]
        register(tables, registration(0, "first:1"), round_)
        assert cluster_info(tables)["brokerAddrTable"]["a"]["rivalAddrs"] == ["second:1"]
    register(tables, registration(1, "second:1"), 3)  # it became a slave
    assert "rivalAddrs" not in cluster_info(tables)["brokerAddrTable"]["a"]
    register(tables, registration(0, "second:1"), 4)
    unregister(tables, [Unregistration("C", "a", "first:1", 0)])
    assert "rivalAddrs" not in cluster_info(tables)["brokerAddrTable"]["a"]


def test_of_three_brokers_of_one_name_and_id_each_is_named(tables, registration, caplog):
    for _ in range(3):
        for address in ("first:1", "second:1", "third:1"):
            register(tables, registration(0, address, cluster="D" if address == "third:1" else "C"), 0)
    lines = warnings(caplog)
    assert len(lines) <= 3
    assert all(any(address in line for line in lines) for address in ("first:1", "second:1", "third:1"))


def test_the_warning_comes_again_after_one_of_the_two_left(tables, registration, caplog):
    for _ in range(2):
        register(tables, registration(0, "first:1"), 0)
        register(tables, registration(0, "second:1"), 0)
        unregister(tables, [Unregistration("C", "a", "second:1", 0)])
    assert len(warnings(caplog)) == 2


def test_a_broker_that_comes_back_at_another_address_is_not_warned_of(tables, registration, caplog):
    register(tables, registration(0, "first:1"), 0)
    unregister(tables, [Unregistration("C", "a", "first:1", 0)])
    register(tables, registration(0, "second:1"), 0)
    register(tables, registration(1, "third:1"), 0)
    assert warnings(caplog) == []


def test_an_outranked_address_loses_its_life(tables, registration):
    register(tables, registration(1, "new:1"), 0)
    register(tables, registration(0, "old:1", state_version=5), 0)
    register(tables, registration(0, "new:1", state_version=4), 0)
    assert BrokerAddress("C", "new:1") not in tables.live


def test_an_id_whose_holder_is_not_live_is_taken_over(tables, registration):
    register(tables, registration(0, "old:1", state_version=9), 0)
    tables.live.clear()
    register(tables, registration(0, "new:1"), 0)
    assert tables.brokers["a"].addresses == {0: "new:1"}


@pytest.mark.parametrize("broker_id", [0, 1])
def test_a_single_topic_before_the_first_full_registration_is_refused(tables, registration, broker_id):
    with pytest.raises(RequestError, match="register broker failed") as caught:
        register(tables, registration(broker_id, topics=("T",)), 0)
    assert caught.value.response_code == 1
    assert (tables.queues, tables.live, tables.brokers["a"].addresses) == ({}, {}, {})
    register(tables, registration(broker_id), 0)  # the full one is a first registration
    assert tables.brokers["a"].addresses == {broker_id: f"a{broker_id}:1"}


def test_a_single_topic_of_a_known_broker_is_added(tables, registration):
    register(tables, registration(), 0)
    register(tables, registration(topics=("V",), version=2), 0)
    assert set(tables.queues) == {"T", "U", "V"}


def test_a_broker_without_topics_registers(tables, registration):
    register(tables, registration(topics=()), 0)
    assert tables.brokers["a"].addresses == {0: "a0:1"}


# --- brokers that contribute topics ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broker_id", "acting_master", "expected"),
    [
        (0, None, {"a": 6}),
        (0, True, {"a": 6}),
        (1, None, None),  # an old broker's slave never
        (1, False, {"a": 6}),  # a prime slave that may not act keeps the write bit
        (1, True, {"a": 4}),
    ],
)
def test_masters_and_prime_slaves_bring_topics(tables, registration, broker_id, acting_master, expected):
    register(tables, registration(broker_id, acting_master=acting_master), 0)
    assert (perms(tables) if "T" in tables.queues else None) == expected


def test_a_slave_behind_a_smaller_id_brings_none(tables, registration):
    register(tables, registration(1, acting_master=True), 0)
    register(tables, registration(2, acting_master=True, topics=("V", "W")), 0)
    assert set(tables.queues) == {"T", "U"}


@pytest.mark.parametrize(
    ("change", "queues"),
    [
        ({}, 4),  # same version: nothing is compared
        ({"version": 2}, 8),
        ({"state_version": 1}, 8),
        ({"address": "elsewhere:1"}, 8),  # no live entry there: differs
    ],
)
def test_topics_are_replaced_when_the_version_differs(tables, registration, change, queues):
    register(tables, registration(), 0)
    register(tables, registration(queues=8, **change), 0)
    assert tables.queues["T"]["a"].read_queues == queues


def test_a_topic_that_lost_this_broker_is_added_at_the_same_version(tables, registration):
    register(tables, registration(), 0)
    register(tables, registration(name="b"), 0)
    del tables.queues["T"]["a"]
    del tables.queues["U"]
    register(tables, registration(queues=8), 0)
    assert tables.queues["T"]["a"].read_queues == 8
    assert tables.queues["U"]["a"].read_queues == 8


@pytest.mark.parametrize(
    ("delete_missing", "mappings", "left"),
    [
        (False, None, {"T", "U", "V"}),
        (True, None, {"U", "V", "W"}),
        (True, {"S": {"bname": "a"}}, {"T", "U", "V", "W"}),
    ],
)
def test_topics_a_registration_does_not_name_go_only_when_asked(tables, registration, delete_missing, mappings, left):
    register(tables, registration(topics=("T", "U")), 0)
    register(tables, registration(name="b", topics=("U", "V")), 0)
    topics = ("U", "W") if delete_missing else ("U", "T")
    register(tables, registration(topics=topics, version=2, mappings=mappings), 0, delete_missing=delete_missing)
    assert set(tables.queues) == left


def test_mappings_are_kept_by_topic_and_their_own_broker_name(tables, registration):
    register(tables, registration(mappings={"S": {"bname": "__logical__", "topic": "S"}}), 0)
    assert tables.mappings == {"S": {"__logical__": {"bname": "__logical__", "topic": "S"}}}
    register(tables, registration(mappings={"R": {"bname": "a", "topic": "R"}}), 0)
    assert set(tables.mappings) == {"S"}  # same version


# --- the rest -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("servers", "kept"), [(None, ["f:1"]), ([], None), (["g:1"], ["g:1"])])
def test_filter_servers_are_kept_removed_or_replaced(tables, registration, servers, kept):
    register(tables, registration(filter_servers=["f:1"]), 0)
    register(tables, registration(filter_servers=servers), 0)
    assert tables.filter_servers.get(BrokerAddress("C", "a0:1")) == kept


def test_a_slave_learns_of_a_live_master(tables, registration):
    assert register(tables, registration(1), 0) == RegistrationResult()
    register(tables, registration(0), 0)
    assert register(tables, registration(1), 0) == RegistrationResult("a0:1", "ha-a-0")
    del tables.live[BrokerAddress("C", "a0:1")]
    assert register(tables, registration(1), 0) == RegistrationResult()
