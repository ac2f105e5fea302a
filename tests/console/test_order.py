"""The order of lists of groups and topics over several brokers, of which each knows its own part."""

from __future__ import annotations

import attrs
import pytest

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import CallTimeout
from gantrymq.model.group import GroupConfig
from gantrymq_admin.asking import Asking
from gantrymq_admin.summaries import Column, GroupSummaries, GroupSummary, TopicSummaries, TopicSummary
from gantrymq_console.data import groups, table

LAGS = {"1:1": {"X": 5, "Y": 4, "Z": 3}, "2:2": {"Y": 2, "Z": 4, "V": 1}}
"""Lag of groups, and messages of topics, at two brokers: Z is first in neither's order by itself but in the sum."""

AGES = {"1:1": {"X": 50, "Y": 900, "Z": 3}, "2:2": {"Y": 20, "Z": 4, "V": None}}


@pytest.fixture
def brokers(visitor, monkeypatch):
    """What each of two brokers was asked for; an exception in `brokers.fails` is raised for a broker."""
    return Brokers(visitor, monkeypatch)


class Brokers:
    def __init__(self, visitor, monkeypatch):
        visitor.get("/about")
        visitor.cluster.forget()
        self.asked, self.fails = [], {}
        cluster = visitor.cluster

        async def masters():
            return {"a": "1:1", "b": "2:2"}

        async def known_topics():
            return tuple({name for part in LAGS.values() for name in part})

        async def known_groups(address):
            return {name: GroupConfig(name) for name in LAGS[address]}

        async def column(_admin, address, _kind, word):
            self.note(address, word)
            rows = LAGS[address]
            values = {"late": AGES[address], "type": {"Z": "FIFO"}}.get(word)
            return Column({name: rows[name] if values is None else values.get(name, "") for name in rows}, 1000)

        async def page(_admin, address, kind, *, names, **_more):
            self.note(address, names)
            rows = [each for each in sorted(names) if each in LAGS[address]]
            return (group_rows if kind is GroupSummaries else topic_rows)(address, rows)

        def group_rows(address, rows):
            made = (
                GroupSummary(n, False, True, 1, None, LAGS[address][n], AGES[address][n], 0, 0, 0, 1.0) for n in rows
            )
            return GroupSummaries("", 0, 1000, len(rows), False, tuple(made))

        def topic_rows(address, rows):
            made = (TopicSummary(n, "", "", 6, 1, 1, 0, 0, LAGS[address][n], 1.0, 1.0, 1, 7) for n in rows)
            return TopicSummaries("", 0, 1000, len(rows), tuple(made))

        monkeypatch.setattr(cluster, "masters", masters)
        monkeypatch.setattr(cluster.admin, "topics", known_topics)
        monkeypatch.setattr(cluster.admin, "groups", known_groups)
        monkeypatch.setattr(table, "summary_column", column)
        monkeypatch.setattr(table, "summary_page", page)
        monkeypatch.setattr(table, "FEW", 0)

    def note(self, address, what):
        self.asked.append((address, what))
        if address in self.fails:
            raise self.fails[address]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("sort=lag", "ZYXV"),
        ("sort=lag&order=up", "VXYZ"),
        ("sort=late", "YXZV"),  # V is behind, nobody knows how long
        ("sort=name", "VXYZ"),
        ("sort=name&order=down", "ZYXV"),
        ("sort=lag&rows=1&start=1", "Y"),
        ("sort=lag&rows=2&start=2", "XV"),
        ("sort=lag&filter=y", "Y"),
        ("sort=lag&start=4", ""),
    ],
)
def test_groups_are_in_the_order_of_the_whole_cluster(visitor, brokers, order, names):
    found = visitor.api(f"/groups?{order}")["data"]
    assert "".join(each["name"] for each in found["groups"]) == names
    lags = {"X": "5", "Y": "6", "Z": "7", "V": "1"}
    assert [each["lag"] for each in found["groups"]] == [lags[name] for name in names]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("sort=messages", "ZYXV"),
        ("sort=messages&order=up", "VXYZ"),
        ("sort=messages&rows=1", "Z"),
        ("sort=name&rows=2&start=1", "XY"),
        ("kind=fifo", "Z"),
        ("kind=normal&sort=messages", "YXV"),
    ],
)
def test_topics_are_in_the_order_of_the_whole_cluster(visitor, brokers, order, names):
    found = visitor.api(f"/topics?{order}")["data"]
    assert "".join(each["name"] for each in found["topics"]) == names


def test_only_the_rows_of_the_page_are_asked_for(visitor, brokers):
    visitor.api("/groups?sort=lag&rows=1")
    assert sorted(brokers.asked, key=str) == [("1:1", "behind"), ("1:1", ["Z"]), ("2:2", "behind"), ("2:2", ["Z"])]
    brokers.asked.clear()
    visitor.api("/groups?sort=lag&rows=1")
    assert brokers.asked == []
    visitor.api("/topics?rows=2")
    assert sorted(brokers.asked, key=str) == [("1:1", ["V", "X"]), ("2:2", ["V", "X"])]


def test_rows_are_asked_for_again_after_the_clock_was_set_back(visitor, brokers, monkeypatch):
    visitor.api("/topics?rows=2")
    brokers.asked.clear()
    clock = visitor.cluster.world.clock
    real = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: real() - 3_600_000)
    for asked in ([("1:1", ["V", "X"]), ("2:2", ["V", "X"])], []):
        visitor.api("/topics?rows=2")
        assert sorted(brokers.asked, key=str) == asked
        brokers.asked.clear()


def test_a_row_is_as_old_as_what_the_broker_computed(visitor, brokers):
    row = visitor.api("/groups?sort=lag")["data"]["groups"][0]
    now_ms = visitor.cluster.world.clock.now_ms()
    assert 1000 <= now_ms - row["as_of_ms"] < 20_000


def test_a_broker_that_does_not_answer_is_named_and_asked_once(visitor, brokers):
    brokers.fails["2:2"] = CallTimeout("late")
    found = visitor.api("/groups?sort=lag&rows=2")
    assert [each["name"] for each in found["data"]["groups"]] == ["X", "Y"]
    assert [each["what"] for each in found["missing"]] == ["b"]
    assert [what for address, what in brokers.asked if address == "2:2"] == ["behind"]


def test_a_broker_without_summaries_among_others_is_asked_name_by_name(visitor, brokers, monkeypatch):
    brokers.fails["2:2"] = RequestNotServed(3, "65023", "2:2")

    async def ask(_cluster, address, name):
        return groups.GroupRow(name, 1, None, LAGS[address][name], 0, False, 0) if name in LAGS[address] else None

    monkeypatch.setattr(groups, "ask_group", ask)
    monkeypatch.setattr(table, "PER_S", 1000.0)
    found = visitor.api("/groups?sort=lag")["data"]
    assert "".join(each["name"] for each in found["groups"]) == "ZYXV" and found["unknown"] == 0
    row = found["groups"][0]
    assert (row["dead_letters"], row["per_s"], row["at_least"]) == ("0", 1.0, ["dead_letters", "per_s"])
    assert "at least 1.0/s" in visitor.get("/groups?sort=rate").text
    assert visitor.api("/groups?sort=rate")["data"]["groups"][0]["per_s"] == 1.0


def test_groups_of_a_topic_at_two_brokers_are_a_least_number(visitor, brokers):
    rows = {each["name"]: each for each in visitor.api("/topics?sort=name")["data"]["topics"]}
    assert (rows["Z"]["groups"], rows["Z"]["at_least"]) == (1, ["groups"])
    assert (rows["X"]["groups"], rows["X"]["at_least"]) == (1, [])
    assert "each broker may have other groups" in visitor.get("/topics").text
    assert "each broker may have other groups" not in visitor.get("/topics?filter=x").text


def test_a_silent_broker_without_summaries_does_not_use_up_the_time_of_the_others(visitor, brokers, monkeypatch):
    monkeypatch.setattr(groups, "FEW", 100)
    brokers.fails["2:2"] = RequestNotServed(65023, "no", "2:2")
    clock, known, rows = visitor.cluster.world.clock, visitor.cluster.admin.groups, table.summary_page
    frozen = []

    async def silent(address, *_more):
        if address in frozen:
            await clock.sleep(3600)
        return await known(address)

    async def ask(_cluster, address, _name):
        await silent(address)

    async def slow(admin, address, kind, **options):
        await clock.sleep(0.3)
        return await rows(admin, address, kind, **options)

    async def look():
        asking = Asking(clock, 1.0)
        found, _ = await groups.latest_groups(visitor.cluster, asking, 10)
        return found, {each.what for each in asking.missing}

    monkeypatch.setattr(visitor.cluster.admin, "groups", silent)
    monkeypatch.setattr(groups, "ask_group", ask)
    monkeypatch.setattr(table, "summary_page", slow)
    visitor.running.run(look())  # b serves no summaries
    visitor.cluster.forget()
    visitor.cluster.kept["groups"].forget()
    frozen.append("2:2")
    found, missing = visitor.running.run(look())
    assert missing == {"b"} and {each.name for each in found if each.lag} == {"X", "Y", "Z"}
    assert all(each.partial for each in found)


def test_a_lag_counts_where_another_broker_has_neither_a_commit_nor_a_member(visitor, brokers, monkeypatch):
    """Z is behind at both, at one by an unknown time."""
    monkeypatch.setitem(LAGS, "1:1", {"X": None, "Y": 4, "Z": 1})
    monkeypatch.setitem(LAGS, "2:2", {"X": 12, "Y": None, "Z": 1})
    monkeypatch.setitem(AGES, "1:1", {"X": None, "Y": 7, "Z": None})
    monkeypatch.setitem(AGES, "2:2", {"X": 30_000, "Y": None, "Z": 5})
    rows = visitor.api("/groups")["data"]["groups"]
    found = [(row["name"], row["lag"], row["late_ms"]) for row in rows]
    assert found == [("X", "12", 30_000), ("Y", "4", 7), ("Z", "2", None)]


def test_a_group_that_broadcasts_has_no_lag_whatever_was_committed_before(visitor, brokers, monkeypatch):
    known = groups.combined

    def combined(*given):
        return attrs.evolve(known(*given), model="BROADCASTING")

    monkeypatch.setattr(groups, "combined", combined)
    assert {(row["lag"], row["late_ms"]) for row in visitor.api("/groups")["data"]["groups"]} == {(None, None)}
