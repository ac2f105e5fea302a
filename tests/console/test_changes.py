"""What changed in the last hour, on the home page."""

from __future__ import annotations

import asyncio

import pytest
from console_visitor import Visitor
from manual_clock import ManualClock
from memory_history import FINE_MS, MemoryHistory

from gantrymq.client.admin import RequestNotServed
from gantrymq_console.data import table
from gantrymq_console.data.attention import new_dead_letters
from gantrymq_console.history.changes import MOST_OF_A_KIND, changes_of
from gantrymq_console.history.reading import Mark

MIN_MS = 60_000
NOTHING = "Nothing: no broker came or went"


@pytest.fixture
def past(gantrymq_broker):
    """A history in which nothing happens."""
    made = MemoryHistory(gantrymq_broker.cluster.world.clock.now_ms())
    made.put("cluster", "", "in", lambda at: 40.0)
    return made


@pytest.fixture
def visitor(gantrymq_broker, past):
    with Visitor(gantrymq_broker, past=past) as found:
        yield found


def mark(past, minutes_ago, word, name="billing", **fields):
    return Mark(
        past.now_ms - minutes_ago * MIN_MS, word, "group" if word.startswith("group") else "broker", name, fields
    )


def grows(past, word, name, first, last):
    past.put("group", name, word, lambda at: last if past.now_ms - at < 20 * MIN_MS else first)


def found_of(past):
    return asyncio.run(changes_of(past, ManualClock(past.now_ms / 1000)))


def told(past):
    """Return word, name, number of times and fields of all changes, in order."""
    kinds = found_of(past).kinds
    return [(each.word, each.name, each.times, dict(each.fields)) for kind in kinds for each in kind.changes]


def test_nothing_changed_is_said_only_of_an_hour_that_is_known(visitor, past):
    assert NOTHING in visitor.get("/").text
    past.since_ms = past.now_ms - 20 * MIN_MS
    visitor.cluster.forget()
    page = visitor.get("/").text
    assert NOTHING not in page and "No change is known. The history begins within this hour" in page
    past.since_ms = None
    visitor.cluster.forget()
    page = visitor.get("/").text
    assert NOTHING not in page and "Unknown so far: the history has just begun." in page


def test_a_gap_of_the_hour_is_said(visitor, past):
    past.put("cluster", "", "in", lambda at: None if 10 * MIN_MS <= past.now_ms - at < 22 * MIN_MS else 40.0)
    assert found_of(past).unknown_ms == 12 * MIN_MS
    page = visitor.get("/").text
    assert NOTHING not in page and "No change is known." in page
    assert "Not everything was sampled in 12 minutes of this hour" in page


def test_a_broker_that_cannot_tell_of_all_groups_is_said(visitor, monkeypatch):
    """As RocketMQ's."""

    async def not_served(_admin, address, *_, **__):
        raise RequestNotServed(3, "65025", address)

    for name in ("page", "column"):
        monkeypatch.setattr(table, f"summary_{name}", not_served)
    visitor.get("/")
    visitor.cluster.forget("attention", "changes")
    page = visitor.get("/").text
    assert NOTHING not in page and "No change is known. A broker cannot tell about all groups at once" in page


def test_the_newest_samples_may_be_late(past):
    past.put("cluster", "", "in", lambda at: None if past.now_ms - at < 2 * FINE_MS else 40.0)
    assert found_of(past).unknown_ms == 0


def test_the_time_before_the_history_is_not_a_gap(past):
    past.since_ms = past.now_ms - 20 * MIN_MS
    found = found_of(past)
    assert found.is_young and found.unknown_ms == 0


def test_changes_are_sentences_with_links_and_the_worst_comes_first(visitor, past):
    past.events = [
        mark(past, 50, "group_new", "reports"),
        mark(past, 40, "setting", "broker-a", key="fileReservedTime", old="72", new="24"),
        mark(past, 30, "group_silent"),
        mark(past, 20, "elected", "broker-a"),
        mark(past, 10, "broker_gone", "broker-b:1"),
        mark(past, 70, "broker_gone", "broker-c"),
    ]
    grows(past, "lag", "archive", 12.0, 4711.0)
    grows(past, "late_s", "archive", 1.0, 300.0)
    grows(past, "dead_letters", "shipping", 4703.0, 4704.0)
    page = visitor.get("/")
    sentences = [
        "Broker broker-b:1 went away",
        "broker-a got another master",
        "Group shipping got 1 dead letter; it has 4,704",
        "The lag of group archive grew from 12 to 4,711: 4,699 messages more",
        "The last member of group billing left",
        "Setting fileReservedTime of broker broker-a changed from 72 to 24",
        "Group reports appeared",
    ]
    places = [page.text.index(each) for each in sentences]
    assert places == sorted(places)
    links = {text: to for text, to in page.links if to.endswith("#history")}
    assert list(links) == sentences
    assert links[sentences[0]].endswith("/brokers/broker-b?id=1#history")
    assert links[sentences[3]].endswith("/groups/archive#history")
    assert "broker-c" not in page.text, "more than an hour ago"
    kinds = visitor.api("/")["data"]["changes"]["kinds"]
    assert [(each["word"], each["level"]) for each in kinds][:2] == [("broker_gone", "bad"), ("elected", "warn")]


def test_at_most_a_handful_of_each_kind_is_shown(visitor, past):
    past.events = [mark(past, 30, "group_new", f"g{number}") for number in range(9)]
    past.events += [mark(past, 20, "group_silent", f"g{number}") for number in range(6)]
    for number in range(8):
        grows(past, "lag", f"lag{number}", 0.0, 100.0 + number)
    page = visitor.get("/").text
    assert "and 4 more groups appeared" in page and page.count(" appeared") == MOST_OF_A_KIND + 1
    assert "and 1 more group lost its members" in page
    assert "and the lags of 3 more groups grew" in page
    assert "group lag7 grew" in page and "group lag2 grew" not in page, "the largest growth first"


def test_of_gone_and_back_the_last_one_is_told(past):
    past.events = [
        mark(past, 50, "broker_gone", "a"),
        mark(past, 40, "broker_back", "a"),
        mark(past, 30, "broker_gone", "a"),
        mark(past, 20, "broker_back", "a"),
        mark(past, 40, "group_back"),
        mark(past, 30, "group_silent"),
    ]
    assert told(past) == [("group_silent", "billing", 1, {}), ("broker_back", "a", 2, {})]


def test_a_setting_that_changed_twice_is_told_once_with_its_first_value(past):
    past.events = [
        mark(past, 50, "setting", "a", key="x", old="1", new="2"),
        mark(past, 45, "setting", "a", key="y", old="5", new="6"),
        mark(past, 40, "setting", "a", key="x", old="2", new="3"),
    ]
    assert [fields for *_, fields in told(past)] == [
        {"key": "x", "old": "1", "new": "3"},
        {"key": "y", "old": "5", "new": "6"},
    ]


def test_a_setting_that_was_changed_back_has_not_changed_from_a_value_to_itself(visitor, past):
    past.events = [
        mark(past, 50, "setting", "a", key="brokerPermission", old="6", new="4"),
        mark(past, 45, "setting", "a", key="x", old="5", new="6"),
        mark(past, 40, "setting", "a", key="brokerPermission", old="4", new="6"),
    ]
    assert [(word, fields["key"]) for word, _, _, fields in told(past)] == [
        ("setting", "x"),
        ("setting_back", "brokerPermission"),
    ]
    page = visitor.get("/").text
    assert "Setting brokerPermission of broker a was changed and has its value from before again: 6" in page
    assert "from 6 to 6" not in page
    past.events = past.events[:2]
    assert [word for word, *_ in told(past)] == ["setting", "setting"]


@pytest.mark.parametrize(
    ("first", "last", "late_s", "is_told"),
    [
        (12.0, 4711.0, 300.0, True),
        (0.0, 9.0, 300.0, False),
        (0.0, 10.0, 300.0, True),
        (1000.0, 1200.0, 300.0, False),
        (4711.0, 12.0, 0.0, False),
        (12.0, 4711.0, 2.0, False),  # a busy group, which is not late
        (12.0, 4711.0, None, True),  # brokers that do not tell how late it is
    ],
)
def test_which_lags_grew(past, first, last, late_s, is_told):
    grows(past, "lag", "billing", first, last)
    if late_s is not None:
        grows(past, "late_s", "billing", 0.5, late_s)
    assert bool(told(past)) is is_told


def test_events_of_another_version_are_left_out(past):
    past.events = [mark(past, 30, "no_such_word")]
    assert told(past) == []


def test_home_says_why_nothing_is_known(visitor, past, gantrymq_broker):
    past.failure = "The file history.db cannot be read: disk I/O error."
    page = visitor.get("/")
    assert "Unknown, because the history cannot be read. The file history.db" in page.text and NOTHING not in page.text
    with Visitor(gantrymq_broker) as other:
        assert "Unknown: the console was started without a history." in other.get("/").text


def test_hostile_names_are_text(visitor, past):
    past.events = [mark(past, 30, "group_new", "<b>x</b>\u202e")]
    page = visitor.get("/")
    assert "Group <b>x</b> U+202E appeared" in page.text and "<b>x" not in page.response.text


def test_in_chinese(gantrymq_broker, past):
    past.events = [mark(past, 30, "elected", "broker-a")]
    with Visitor(gantrymq_broker, language="zh", past=past) as visitor:
        assert "broker-a 选出了新的 Master" in visitor.get("/").text


def test_dead_letters_of_the_hour_are_read_once_for_home_and_alerts(visitor, past):
    grows(past, "dead_letters", "shipping", 4703.0, 4704.0)
    cluster = visitor.cluster
    for _ in range(2):
        found = visitor.running.run(new_dead_letters(cluster, past))
        assert dict(found.counts) == {"shipping": 1} and found.since_ms >= past.now_ms - 61 * MIN_MS
    assert past.reads == ["marks", "moved", "known_since"]
    cluster.forget()
    past.failure = "The file history.db cannot be read: disk I/O error."
    assert visitor.running.run(new_dead_letters(cluster, past)) is None
    assert visitor.get("/").status == 200
