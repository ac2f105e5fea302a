"""Queues of a group as bars, findings that several brokers have, and the readers that only members know."""

from __future__ import annotations

import re
from types import SimpleNamespace

import attrs
import pytest
from console_members import commit, join
from console_visitor import Visitor

from gantrymq.client.admin import ProcessQueueInfo, QueueTimes, RequestNotServed, RunningInfo
from gantrymq.errors import CallTimeout
from gantrymq.model.queue import MessageQueue
from gantrymq_console.data import group, group_overview, held_queues, queue_bars
from gantrymq_console.data.group import GroupReports, QueueState
from gantrymq_console.data.queue_bars import BarMember, QueueBar, bars_of

pytest.importorskip("gantrymq_diagnosis")

HOSTILE = "</svg><script>alert(1)</script>\u202e\"'&"


def state_of(queue=0, **more):
    given = {"topic": "T", "broker": "a", "queue": queue, "owner": "c1", "committed": 60, "max_offset": 100}
    given |= {"behind": 40, "lag_ms": 1, "last_pull_ms_ago": 1, "reason": "reading", "sentence": "", "min_offset": 10}
    return QueueState(**{**given, "pulled": 70, **more})


def reports(*queues):
    by_broker = {}
    for each in queues:
        by_broker.setdefault(each.broker, []).append(each)
    return GroupReports(
        "G", len(by_broker), {name: SimpleNamespace(queues=tuple(each)) for name, each in by_broker.items()}
    )


def bar(**more):
    (found,) = bars_of(reports(state_of(**more))).groups
    return found.bars[0]


@pytest.mark.parametrize(
    ("more", "state", "parts"),
    [
        ({}, "moving", (50, 10, 30)),
        ({"behind": 0, "pulled": 100, "reason": "up-to-date"}, "done", (90, 0, 0)),
        ({"reason": "not-committed", "pulled": 100, "moved_ms_ago": 60_000}, "stuck", (50, 40, 0)),
        ({"reason": "not-committed", "pulled": 100}, "unknown", (50, 40, 0)),  # older brokers say it after 15 s
        ({"reason": "order-stuck", "pulled": 100}, "unknown", (50, 40, 0)),
        ({"reason": "paused"}, "unknown", (50, 10, 30)),
        ({"reason": "slow", "pulled": 100}, "moving", (50, 40, 0)),
        (
            {"reason": "slow", "owner": None, "pulled": None},
            "moving",
            (50, None, 40),
        ),  # since before the broker's start
        ({"reason": "paused", "moved_ms_ago": 59_000}, "moving", (50, 10, 30)),
        ({"reason": "paused", "moved_ms_ago": 60_000}, "stuck", (50, 10, 30)),
        ({"reason": "nothing-matches"}, "moving", (50, 10, 30)),  # its oldest message has come just now
        ({"reason": "nothing-matches", "lag_ms": 60_000}, "stuck", (50, 10, 30)),
        ({"reason": "a-word-of-another-version"}, "stuck", (50, 10, 30)),
        ({"reason": "owner-left", "owner": None}, "unread", (50, 0, 40)),
        ({"reason": "not-owned", "owner": None, "pulled": None}, "unread", (50, 0, 40)),
        ({"reason": "nobody-online", "owner": None, "behind": 0}, "idle", (90, 0, 0)),
        ({"reason": "not-subscribed", "owner": None}, "unsubscribed", (50, 0, 40)),
        ({"reason": "not-subscribed", "owner": None, "behind": 0}, "idle", (90, 0, 0)),
        ({"reason": "lite-unsubscribed", "owner": None, "pulled": None}, "unsubscribed", (50, 0, 40)),
        ({"reason": "reset-pending", "last_pull_ms_ago": 20_000}, "moving", (50, 10, 30)),
        ({"reason": "reset-pending", "last_pull_ms_ago": 60_000}, "stuck", (50, 10, 30)),
        ({"reason": "reset-pending", "owner": None}, "unread", (50, 0, 40)),
        ({"reason": "reset-pending", "variant": "popped", "owner": None, "pulled": None}, "moving", (50, None, 40)),
        ({"reason": "popped", "owner": None, "pulled": None}, "moving", (50, None, 40)),
        ({"reason": "broadcasting", "owner": None, "behind": None}, "unknown", (None, None, None)),
        ({"reason": "", "owner": None, "owner_known": False}, "unknown", (50, None, 40)),
        ({"reason": "", "owner": None}, "unread", (50, 0, 40)),
        ({"reason": "", "halted": True}, "stuck", (50, 10, 30)),
        ({"reason": "", "min_offset": None}, "moving", (60, 10, 30)),
        ({"pulled": 500}, "moving", (50, 40, 0)),  # of before a reset
    ],
)
def test_a_bar_says_what_is_read_in_flight_and_waiting_and_whether_it_moves(more, state, parts):
    found = bar(**more)
    assert (found.state, (found.read, found.in_flight, found.waiting)) == (state, parts)


def test_parts_of_a_bar_fill_it_and_small_ones_can_be_seen():
    first, second, third = QueueBar(0, None, "moving", 10**9, 1, 2).percent
    assert round(first + second + third, 1) == 100 and second >= 3.5 and third >= 3.5
    assert QueueBar(0, None, "unknown", None, None, None).percent == (0, 0, 0)
    assert QueueBar(0, None, "done", 0, 0, 0).percent == (0, 0, 0)
    assert [BarMember.letters(place) for place in (0, 25, 26, 27, 702)] == ["A", "Z", "AA", "AB", "AAA"]


def test_groups_of_bars_with_a_problem_come_first_and_hundreds_are_folded():
    far = [state_of(number, broker="b", behind=1000, max_offset=5000) for number in range(200)]
    bad = [
        state_of(number, topic="U", broker="c", reason="paused" if number == 30 else "reading", moved_ms_ago=60_000)
        for number in range(40)
    ]
    found = bars_of(reports(state_of(), *far, *bad))
    assert [(each.topic, each.broker, each.bad, each.unfolded) for each in found.groups] == [
        ("U", "c", 1, True),
        ("T", "b", 0, False),
        ("T", "a", 0, False),
    ]
    assert found.groups[0].bars[0].queue == 30 and [each.queue for each in found.groups[1].bars] == list(range(200))
    assert (found.bad, found.more, found.groups[1].waiting) == (1, 0, 200_000)
    most = [state_of(number, broker=f"b{number // 300}") for number in range(900)]
    few = bars_of(reports(*most))
    assert sum(each.total for each in few.groups) == 300 and few.more == 600
    (one,) = bars_of(reports(*(state_of(number) for number in range(900)))).groups
    assert one.total == queue_bars.MOST


@pytest.fixture
def late(visitor):
    visitor.running.create_topic("Orders", 2)
    for number in range(4):
        visitor.running.send("Orders", b"%d" % number)
    commit(visitor, "Late", "Orders", 1, 0)
    return visitor


def test_a_group_has_bars_with_readable_labels_and_hostile_members_stay_text(late, monkeypatch):
    real = group.explain_group

    async def owned(*given):
        found = await real(*given)
        first, second = found.queues
        stuck = attrs.evolve(
            second, reason="paused", sentence="it hangs", values={}, owner="c2", next_pull=1, moved_ms_ago=90_000
        )
        return attrs.evolve(found, queues=(attrs.evolve(first, owner=HOSTILE, reason="reading", next_pull=2), stuck))

    join(late, "Late", "c2", "Orders")
    monkeypatch.setattr(group, "explain_group", owned)
    page = late.get("/groups/Late")
    html = page.response.text
    assert "<script>alert" not in html and html.count('<svg class="fill"') == 2
    labels = re.findall(r'role="img" aria-label="(Queue[^"]*)"', html)
    assert labels == [
        "Queue 1: 0 consumed, 1 in flight, 1 waiting, read by B, does not move",
        "Queue 0: 1 consumed, 1 in flight, 0 waiting, read by A, moves",
    ]
    assert "1 queue does not move" in page.text and page.link("c2").endswith("/groups/Late/member?id=c2")
    assert html.count("/member?") == 1  # the other one is not online
    assert html.index("U+202E") and "style=" not in html
    bars = late.api("/groups/Late")["data"]["bars"]
    assert [each["client_id"] for each in bars["members"]] == [HOSTILE, "c2"] and bars["bad"] == 1
    with Visitor(late.running, language="zh") as reader:
        assert "队列 1：已消费 0，处理中 1，等待 1，由 B 消费，没有进展" in reader.get("/groups/Late").response.text


def test_unknown_numbers_of_a_bar_are_said(late, monkeypatch):
    real = group.explain_group

    async def unknown(*given):
        found = await real(*given)
        queues = [
            attrs.evolve(each, behind=None, committed=None, reason="broadcasting", variant="never")
            for each in found.queues
        ]
        return attrs.evolve(found, queues=tuple(queues))

    monkeypatch.setattr(group, "explain_group", unknown)
    page = late.get("/groups/Late")
    assert "an unknown number of messages wait" in page.text
    assert "Queue 0: unknown consumed, unknown in flight, unknown waiting, reader unknown" in page.response.text


def plain(late, monkeypatch, running_info):
    """Make the broker one of RocketMQ, whose members answer with *running_info*."""

    async def refuse(*_):
        raise RequestNotServed(3, "a", "no explanations")

    monkeypatch.setattr(group, "explain_group", refuse)
    monkeypatch.setattr(late.cluster.admin, "running_info", running_info)
    join(late, "Late", "c1", "Orders")
    return late


def process_queue(now_ms, consumed_s_ago, cached=1):
    return ProcessQueueInfo(1, 1, 1, cached, 0, False, False, 0, now_ms - 1000, now_ms - consumed_s_ago * 1000)


@pytest.mark.parametrize(
    ("consumed_s_ago", "pulled_s_ago", "cached", "late_ms", "halts"),
    [
        (1, 1, 1, 90_000, False),
        (300, 1, 1, 90_000, True),
        (300, 1, 1, 9_000, False),  # it was idle before
        (300, 1, 1, None, False),
        (1, 300, 1000, 90_000, False),  # its cache is full, so it does not pull
        (300, 300, 0, 90_000, True),
        (300, 300, 0, 9_000, False),  # the clock of its host is behind
        (300, 300, 0, None, False),
    ],
)
def test_a_member_halts_only_if_it_could_have_gone_on(consumed_s_ago, pulled_s_ago, cached, late_ms, halts):
    holder = held_queues.Holder("c1", cached, pulled_s_ago * 1000, consumed_s_ago * 1000)
    assert holder.halts(late_ms) is halts


@pytest.mark.parametrize(("consumed_s_ago", "state"), [(1, "moving"), (300, "stuck")])
def test_members_say_who_reads_a_queue_of_a_broker_that_does_not(late, monkeypatch, consumed_s_ago, state):
    asked = []

    async def told(_address, _group, client_id):
        asked.append(client_id)
        held = {MessageQueue("Orders", "broker-a", 0): process_queue(late.cluster.world.clock.now_ms(), consumed_s_ago)}
        return RunningInfo({}, (), held, {}, "")

    async def aged(_address, _group, topic):
        return {MessageQueue(topic, "broker-a", number): QueueTimes(0, 0, 0, 90_000) for number in range(2)}

    monkeypatch.setattr(late.cluster.admin, "group_times", aged)
    twin = plain(late, monkeypatch, told).api("/groups/Late")["data"]["bars"]
    (found,) = twin["groups"]
    assert {each["queue"]: (each["state"], each["member"]) for each in found["bars"]} == {
        0: (state, 0),
        1: ("unread", None),
    }
    assert twin["members"] == [{"client_id": "c1", "queues": 1, "online": True}] and twin["unread"] == 1
    queues = late.get("/groups/Late/queues").text
    assert "c1 1 second ago" in queues and "nobody" in queues
    assert asked == ["c1"]  # the answer is shared for some seconds


def test_the_reader_is_unknown_if_a_member_does_not_answer(late, monkeypatch):
    async def silent(*_):
        raise CallTimeout("no answer")

    page = plain(late, monkeypatch, silent).get("/groups/Late")
    twin = late.api("/groups/Late")
    assert twin["missing"] == [] and "reader unknown" in page.text
    assert twin["data"]["bars"]["unknown"] == 2 and twin["data"]["bars"]["bad"] == 0


def test_members_that_pop_and_large_groups_are_not_asked(late, monkeypatch):
    async def refuse(*_):
        raise AssertionError("asked")

    monkeypatch.setattr(late.cluster.admin, "running_info", refuse)
    for pops, count in ((True, 1), (False, 17)):
        clients = tuple(SimpleNamespace(client_id=f"c{number}") for number in range(count))
        online = SimpleNamespace(clients=clients, pops=pops, message_model="CLUSTERING")
        found = late.running.run(held_queues.ask_held_queues(late.cluster, "a:1", "Late", online))
        assert found == held_queues.HeldQueues({}, False)


def test_a_finding_of_several_brokers_is_one_with_their_words_folded(late, monkeypatch):
    real = group.group_reports

    async def doubled(cluster, asking, name):
        found = await real(cluster, asking, name)
        ((broker, part),) = found.brokers.items()
        dead = [
            attrs.evolve(
                each,
                reason="dead-letters",
                variant="",
                values={"group": name, "count": count},
                sentence=f"{count} dead",
            )
            for count, each in ((2, part.explained.diagnosis[0]), (5, part.explained.diagnosis[0]))
        ]
        parts = [
            attrs.evolve(part, explained=attrs.evolve(part.explained, diagnosis=(*part.explained.diagnosis, each)))
            for each in dead
        ]
        return attrs.evolve(found, asked=2, brokers={broker: parts[0], "broker-b": parts[1]})

    monkeypatch.setattr(group, "group_reports", doubled)
    page, twin = late.get("/groups/Late"), late.api("/groups/Late")["data"]
    found = {each["reason"]: each for each in twin["findings"]}
    assert [each["reason"] for each in twin["findings"]] == ["nobody-online", "dead-letters"]
    assert found["nobody-online"]["brokers"] == ["broker-a", "broker-b"] and found["nobody-online"]["words"] == []
    assert found["dead-letters"]["values"]["count"] == 7
    assert (
        page.text.count("No member of group Late is online at these brokers;") == 1
        and "brokers broker-a, broker-b" in page.text
    )
    assert "7 messages are on %DLQ%Late" in page.text
    assert "2 sentences of brokers broker-a: 2 dead broker-b: 5 dead" in page.text


def test_the_next_due_time_of_several_brokers_is_the_earliest():
    said = [
        group_overview._Said("retry-waiting", "", {"count": 1, "due_ms": due}, "", False, broker)
        for broker, due in (("a", 9), ("b", 4))
    ]
    (found,) = group_overview._grouped(said)
    assert found.values == {"count": 2, "due_ms": 4} and found.where == "a, b"
