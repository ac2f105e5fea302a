"""The table of connected clients."""

from __future__ import annotations

import pytest

from gantrymq.broker.settings import SCHEMA
from gantrymq.broker.tables.clients import ClientTable
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.interfaces import OnlineClient
from gantrymq.model.subscription import Subscription


class FakeConnection:
    """Only its identity counts."""


@pytest.fixture
def clients(clock):
    settings = Settings(SCHEMA)
    return ClientTable(clock, TopicTable(settings, clock.now_ms), GroupTable(settings, clock.now_ms))


@pytest.fixture
def told(clients):
    names = []
    clients.on_group_changed(names.append)
    return names


@pytest.fixture
def join(clients, clock):
    def join(group, connection, client_id="c1", subscriptions=(("T", 1),)):
        wanted = None
        if subscriptions is not None:
            wanted = [Subscription(topic, "*", "TAG", version, group) for topic, version in subscriptions]
        return clients.register_consumer(
            group,
            OnlineClient(connection, client_id, "JAVA", 479, clock.now_ms()),
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscriptions=wanted,
        )

    return join


def test_listeners_hear_of_joining_and_leaving_not_of_each_heartbeat(clients, join, told):
    connection = FakeConnection()
    assert join("CG", connection)
    assert not join("CG", connection)
    assert told == ["CG"]
    clients.gone(connection)
    assert told == ["CG", "CG"]
    assert clients.consumer_group("CG") is None


def test_listeners_hear_of_topics_that_come_and_go_not_of_new_versions(join, told):
    connection = FakeConnection()
    join("CG", connection, subscriptions=[("T", 1)])
    join("CG", connection, subscriptions=[("T", 2)])
    assert told == ["CG"]
    join("CG", connection, subscriptions=[("T", 2), ("U", 1)])
    join("CG", connection, subscriptions=[("U", 1)])
    assert told == ["CG"] * 3


def test_a_subscription_is_replaced_by_a_newer_one_only(clients, join):
    connection = FakeConnection()
    for version in (5, 3, 6):
        join("CG", connection, subscriptions=[("T", version)])
        assert clients.consumer_group("CG").subscriptions["T"].version == max(5, version)


def test_none_leaves_the_subscriptions_as_they_are(clients, join):
    connection = FakeConnection()
    join("CG", connection)
    join("CG", connection, subscriptions=None)
    assert set(clients.consumer_group("CG").subscriptions) == {"T"}


def test_one_client_on_two_connections_counts_twice(clients, join):
    join("CG", FakeConnection(), "c1")
    join("CG", FakeConnection(), "c1")
    assert clients.consumer_group("CG").client_ids() == ["c1", "c1"]


def test_leaving_names_its_groups(clients, join, told, clock):
    connection = FakeConnection()
    join("A", connection)
    join("B", connection)
    clients.register_producer("PG", OnlineClient(connection, "c1", "JAVA", 479, clock.now_ms()))
    clients.unregister(connection, None, "A")
    assert clients.consumer_group("A") is None
    assert list(clients.consumer_group("B").members) == [connection]
    assert [member.connection for member in clients.producers("PG")] == [connection]
    clients.unregister(connection, "PG", "B")
    assert clients.producers("PG") == []
    clients.unregister(connection, "PG", "B")
    assert told == ["A", "B", "A", "B"]


def test_a_member_that_leaves_does_not_take_the_others_along(clients, join):
    first, second = FakeConnection(), FakeConnection()
    join("CG", first, "c1")
    join("CG", second, "c2")
    clients.gone(first)
    assert clients.consumer_group("CG").client_ids() == ["c2"]


def test_who_is_silent_for_too_long_is_named_once(clients, join, clock):
    old, new = FakeConnection(), FakeConnection()
    join("A", old)
    join("B", old)
    clock.advance(100)
    join("A", new)
    clock.advance(20)
    assert clients.silent(120_000) == []
    clock.advance(0.001)
    assert clients.silent(120_000) == [old]
    clients.register_producer("PG", OnlineClient(old, "c1", "JAVA", 479, clock.now_ms()))
    assert clients.silent(120_000) == []  # its producer was heard


def test_the_groups_of_a_connection_are_known_until_it_leaves_them(clients, clock, join):
    connection, other = FakeConnection(), FakeConnection()
    join("CG", connection)
    join("CG", other, "c2")
    for group in ("P", "Q"):
        clients.register_producer(group, OnlineClient(connection, "c1", "JAVA", 479, clock.now_ms()))
    assert clients.groups_of(connection) == ({"P", "Q"}, {"CG"})
    clients.unregister(connection, "P", "CG")
    assert clients.groups_of(connection) == ({"Q"}, set())
    clients.gone(connection)
    assert clients.groups_of(connection) == (set(), set())
    assert clients.producer_groups() == {}
    assert clients.groups_of(other) == (set(), {"CG"})


def test_a_producer_is_found_by_its_client_id_the_latest_connection_first(clients):
    first, second = FakeConnection(), FakeConnection()
    for connection, group in ((first, "PG"), (second, "PG"), (first, "PG"), (first, "other")):
        clients.register_producer(group, OnlineClient(connection, "c1", "JAVA", 479, 0))
    assert clients.producer("c1").connection is second
    clients.gone(second)
    assert clients.producer("c1").connection is first
    clients.unregister(first, "PG", None)
    assert clients.producer("c1").connection is first
    clients.unregister(first, "other", None)
    assert clients.producer("c1") is None


def test_a_connection_is_found_by_the_client_id_that_it_said_last(clients):
    connection = FakeConnection()
    for client_id in ("c1", "c2"):
        clients.register_producer("PG", OnlineClient(connection, client_id, "JAVA", 479, 0))
    assert (clients.producer("c1"), clients.producer("c2").connection) == (None, connection)
    clients.gone(connection)
    assert clients.producer("c2") is None


def test_who_consumes_alone_is_no_producer(clients, join):
    join("CG", FakeConnection(), "c1")
    assert clients.producer("c1") is None


def test_a_connection_that_goes_does_not_look_at_the_groups_of_others(clients, join):
    class Counted(str):
        """A name that counts how often it is looked at."""

        hashed = 0

        def __hash__(self):
            Counted.hashed += 1
            return super().__hash__()

    other, connection = FakeConnection(), FakeConnection()
    for number in range(100):
        join(Counted(f"CG{number}"), other)
    join("CG", connection)
    Counted.hashed = 0
    clients.gone(connection)
    assert clients.consumer_group("CG") is None
    assert Counted.hashed == 0
