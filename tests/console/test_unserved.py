"""Lists and groups at brokers that serve none of GantryMQ's own requests, as RocketMQ's brokers."""

from __future__ import annotations

import pytest
from console_members import commit, join, produce
from polling import wait_until

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import BrokerRefused
from gantrymq.remoting.codes import ResponseCode
from gantrymq_console.data import clients, group, groups, table


@pytest.fixture
def plain(visitor, monkeypatch):
    """A console whose broker refuses GantryMQ's own requests; three groups, of which B is behind by two messages."""

    async def refuse(admin, address, *_args, **_more):
        raise RequestNotServed(65000, address, "")

    for name in ("page", "column"):
        monkeypatch.setattr(table, f"summary_{name}", refuse)
    monkeypatch.setattr(clients, "summary_page", refuse)
    monkeypatch.setattr(group, "explain_group", refuse)
    visitor.running.create_topic("Orders", 1)
    for number in range(3):
        visitor.running.send("Orders", b"%d" % number)
    for name, offset in (("A", 3), ("B", 1), ("C", 3)):
        commit(visitor, name, "Orders", offset)
    return visitor


def test_few_groups_and_topics_are_all_asked_for_at_once(plain):
    twin = plain.api("/groups")["data"]
    assert twin["groups"][0]["name"] == "B" and twin["unknown"] == 0
    first = twin["groups"][0]
    assert (first["lag"], first["members"], first["dead_letters"], first["per_s"]) == ("2", 0, None, None)
    assert first["late_ms"] > 0 and not first["late_at_most"]
    row = next(each for each in plain.api("/topics")["data"]["topics"] if each["name"] == "Orders")
    assert (row["queues"], row["messages"], row["groups"], row["out_per_s"]) == (1, "3", 3, None)
    assert "unknown" in plain.get("/groups").text


def test_with_many_groups_the_order_says_what_it_does_not_know_until_all_were_asked(plain, monkeypatch):
    monkeypatch.setattr(groups, "FEW", 1)
    monkeypatch.setattr(table, "FEW", 1)
    monkeypatch.setattr(table, "PER_S", 1000.0)
    page = plain.get("/groups?rows=1")
    assert "Nothing is known of " in page.text and "they are at the end of this order" in page.text
    wait_until(lambda: plain.api("/groups?rows=1")["data"]["unknown"] == 0, "knowledge of all groups")
    assert [each["name"] for each in plain.api("/groups?rows=1")["data"]["groups"]] == ["B"]
    assert plain.api("/groups?rows=1&sort=name")["data"]["unknown"] == 0


class Nothing(tuple):
    """No names; fails if they are looked at again and again."""

    looks = 0

    def __iter__(self):
        type(self).looks += 1
        assert type(self).looks < 100, "a loop without an end"
        return super().__iter__()


def test_a_walk_ends_when_there_is_nothing_left_to_ask_for(visitor):
    """A page that asks for rows alone leaves no names; the walk of another page must not spin on them."""

    async def ask(_address, name):
        made._everything = Nothing()
        return name

    made = table.BrokerTable(visitor.cluster, "things", "127.0.0.1:1", None, ask)

    async def work():
        made._everything, made._seen_ms = ("A",), made._now_ms()
        await made._walk()

    visitor.running.run(work())
    assert list(made.rows) == ["A"]


def test_a_group_is_explained_by_its_offsets_and_members(plain):
    twin = plain.api("/groups/B")["data"]
    assert [each["reason"] for each in twin["findings"]] == ["nobody-online"]
    assert (twin["head"]["lag"], twin["head"]["retries"], twin["head"]["dead_letters"]) == ("2", "0", "0")
    assert "do not explain groups" in plain.get("/groups/B").text
    queue = plain.api("/groups/B/queues")["data"]["queues"][0]
    assert (queue["owner"], queue["behind"]) == (None, "2") and queue["lag_ms"] > 0
    join(plain, "B", "c1", "Orders")
    assert plain.api("/groups/B")["data"]["findings"] == []
    assert "It is not known whether the members are configured alike." in plain.get("/groups/B/members").text
    assert plain.get("/groups/Nobody").status == 404


def test_subscribed_topics_without_offsets_count_and_broadcasting_is_unknown(plain):
    commit(plain, "New", "Orders", 3)
    plain.running.create_topic("Other", 1)
    plain.running.send("Other", b"x")
    join(plain, "New", "c1", "Other")
    assert plain.api("/groups/New")["data"]["head"]["lag"] == "1"
    join(plain, "Wide", "c2", "Orders", messageModel="BROADCASTING")
    head = plain.api("/groups/Wide")["data"]["head"]
    assert (head["members"], head["lag"], head["late_ms"]) == (1, None, None)
    rows = {each["name"]: each for each in plain.api("/groups")["data"]["groups"]}
    assert (rows["New"]["lag"], rows["Wide"]["lag"], rows["Wide"]["model"]) == ("1", None, "BROADCASTING")


def test_a_name_of_a_topic_that_is_no_group_is_left_out(plain, monkeypatch):
    asked = type(plain.client.admin).groups_of_topic

    async def like_5_3_3(admin, address, topic):
        return tuple(sorted({*await asked(admin, address, topic), topic}))

    monkeypatch.setattr(type(plain.client.admin), "groups_of_topic", like_5_3_3)
    assert [each["group"] for each in plain.api("/topics/Orders/groups")["data"]["groups"]] == ["A", "B", "C"]


def test_clients_are_found_group_by_group(plain):
    join(plain, "A", "c1", "Orders")
    produce(plain, "Senders", "p1")
    twin = plain.api("/clients")["data"]
    rows = {each["client_id"]: each for each in twin["clients"]}
    assert (rows["c1"]["groups"], rows["p1"]["groups"], twin["unknown"]) == (["A"], ["Senders"], 0)
    assert rows["c1"]["since_ms"] is None
    assert plain.api("/clients/show?id=c1")["data"]["connections"][0]["listener"] is None
    assert "unknown" in plain.get("/clients/show?id=c1").text


@pytest.mark.parametrize(("code", "messages"), [(ResponseCode.TOPIC_NOT_EXIST, 0), (ResponseCode.NO_PERMISSION, None)])
def test_only_a_missing_topic_counts_as_nothing(plain, monkeypatch, code, messages):
    async def refuse(address, *_args, **_more):
        raise BrokerRefused(code, "no", address)

    monkeypatch.setattr(plain.cluster.admin, "topic_stats", refuse)
    head = plain.api("/topics/Orders")["data"]["head"]
    assert (head["messages"], head["partial"]) == (None if messages is None else "0", messages is None)
    listed = plain.api("/topics")
    row = next(each for each in listed["data"]["topics"] if each["name"] == "Orders")
    assert (row["messages"], row["groups"]) == (None, 3 if messages is None else None)
    assert listed["missing"] == [], "a refusal for one topic says nothing about the others"
    head = plain.api("/groups/A")["data"]["head"]
    assert (head["lag"], head["dead_letters"]) == ("0", None if messages is None else "0")


def test_a_refused_counter_is_an_unknown_rate(plain, monkeypatch):
    async def refuse(address, *_args, **_more):
        raise BrokerRefused(ResponseCode.NO_PERMISSION, "no", address)

    monkeypatch.setattr(plain.cluster.admin, "counter", refuse)
    assert plain.api("/topics/Orders")["data"]["head"]["in_per_s"] is None
    row = next(each for each in plain.api("/topics")["data"]["topics"] if each["name"] == "Orders")
    assert (row["messages"], row["in_per_s"]) == ("3", None)
