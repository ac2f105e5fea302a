"""Topic lists, cluster tables and operators' changes."""

from __future__ import annotations

import pytest

from gantrymq_nameserver import topics
from gantrymq_nameserver.registration import register
from gantrymq_nameserver.tables import QueueData


@pytest.fixture
def two_clusters(tables, registration):
    register(tables, registration(name="a", topics=("T", "U")), 0)
    register(tables, registration(name="b", topics=("U", "V"), cluster="D"), 0)
    register(tables, registration(1, name="b", cluster="D"), 0)
    return tables


def test_lists(two_clusters):
    assert topics.all_topics(two_clusters) == ["T", "U", "V"]
    assert topics.topics_of_cluster(two_clusters, "C") == ["T", "U"]
    assert topics.topics_of_cluster(two_clusters, "D") == ["U", "V"]
    assert topics.topics_of_cluster(two_clusters, "nowhere") == []


def test_system_topics_are_cluster_and_broker_names(two_clusters):
    assert topics.system_topics(two_clusters) == (["C", "D", "a", "b"], "a0:1")


def test_an_empty_name_server_has_no_system_topics(tables):
    assert topics.system_topics(tables) == ([], None)


@pytest.mark.parametrize(
    ("sys_flag", "unit", "unit_sub", "unit_sub_only"),
    [(0, 0, 0, 0), (1, 1, 0, 0), (2, 0, 1, 1), (3, 1, 1, 0)],
)
def test_unit_lists_go_by_the_first_flag(tables, registration, sys_flag, unit, unit_sub, unit_sub_only):
    register(tables, registration(topics=("T", "U"), sys_flag=sys_flag), 0)
    found = [
        len(topics.topics_where(tables, matches))
        for matches in (
            lambda data: data.is_unit,
            lambda data: data.has_unit_subscription,
            lambda data: data.has_unit_subscription and not data.is_unit,
        )
    ]
    assert found == [2 * unit, 2 * unit_sub, 2 * unit_sub_only]


def test_cluster_info_and_member_group(two_clusters):
    info = topics.cluster_info(two_clusters)
    assert info["clusterAddrTable"] == {"C": ["a"], "D": ["b"]}
    assert info["brokerAddrTable"]["b"]["brokerAddrs"] == {0: "b0:1", 1: "b1:1"}
    assert topics.member_group(two_clusters, "D", "b") == {
        "brokerMemberGroup": {"brokerAddrs": {0: "b0:1", 1: "b1:1"}, "brokerName": "b", "cluster": "D"}
    }
    assert topics.member_group(two_clusters, "D", "nobody")["brokerMemberGroup"]["brokerAddrs"] == {}


@pytest.mark.parametrize(
    ("cluster", "left"),
    [(None, None), ("C", {"b"}), ("D", {"a"}), ("nowhere", {"a", "b"})],
)
def test_a_topic_is_deleted_everywhere_or_in_one_cluster(two_clusters, cluster, left):
    topics.delete_topic(two_clusters, "U", cluster)
    assert (set(two_clusters.queues["U"]) if "U" in two_clusters.queues else None) == left


def test_a_topic_without_queues_left_is_gone(two_clusters):
    topics.delete_topic(two_clusters, "T", "C")
    topics.delete_topic(two_clusters, "T", "C")
    topics.delete_topic(two_clusters, "T")
    assert "T" not in two_clusters.queues


@pytest.mark.parametrize(
    ("topic", "names", "stored"),
    [
        ("new", ["a", "b"], {"a", "b"}),
        ("new", ["a", "stranger", "b"], None),  # nothing for a new topic
        ("T", ["b", "stranger"], {"a", "b"}),  # a known one keeps the earlier queues
        ("T", ["stranger", "b"], {"a"}),
        ("new", [], None),
    ],
)
def test_a_topic_added_by_hand_stops_at_a_stranger(two_clusters, topic, names, stored):
    topics.add_topic(two_clusters, topic, [QueueData(name, 1, 1, 6, 0) for name in names])
    assert (set(two_clusters.queues[topic]) if topic in two_clusters.queues else None) == stored


@pytest.mark.parametrize(("perm", "wiped"), [(6, 4), (7, 5), (4, 4), (2, 0)])
def test_write_permission_is_wiped_and_set_to_six(tables, registration, perm, wiped):
    register(tables, registration(perm=perm), 0)
    register(tables, registration(name="b", perm=perm), 0)
    assert topics.wipe_write_perm(tables, "a") == 2
    assert (tables.queues["T"]["a"].perm, tables.queues["T"]["b"].perm) == (wiped, perm)
    assert topics.add_write_perm(tables, "a") == 2
    assert tables.queues["T"]["a"].perm == 6
    assert topics.add_write_perm(tables, "nobody") == 0
    register(tables, registration(perm=perm), 0)  # the same version: the operator's change stays
    assert tables.queues["T"]["a"].perm == 6
