"""The messages of a topic by broker and queue."""

from __future__ import annotations

import re

import pytest

from gantrymq.client.admin import QueueStats
from gantrymq.errors import ConnectFailed
from gantrymq.model.queue import MessageQueue
from gantrymq_console.data import topic, topic_shares
from gantrymq_console.data.topic_shares import shares_of


def stats_of(**counts):
    return {
        MessageQueue("T", broker, number): QueueStats(5, 5 + count, 1)
        for broker, of_broker in counts.items()
        for number, count in enumerate(of_broker)
    }


def test_each_broker_has_its_share_and_uneven_queues_are_marked():
    found = shares_of(["a", "b", "c"], stats_of(a=[100, 100, 100], b=[100, 500, 10]), {"a": 4.0, "b": 1.0})
    assert [(each.broker, each.messages, each.in_per_s) for each in found.brokers] == [
        ("a", 300, 4.0),
        ("b", 610, 1.0),
        ("c", None, None),
    ]
    assert [round(each.percent or 0) for each in found.brokers] == [33, 67, 0] and found.brokers[2].percent is None
    assert [each.percent for each in found.brokers[1].queues] == [20.0, 100.0, 2.0]
    assert [round(each.times, 2) if each.times else None for each in found.brokers[1].queues] == [None, 3.3, 0.07]
    assert [each.uneven for each in found.brokers] == [0, 2, 0] and found.most_per_s == 4.0


def test_few_messages_are_not_called_uneven_and_none_fill_no_bar():
    assert not any(each.uneven for each in shares_of(["a"], stats_of(a=[30, 1, 0, 0]), {}).brokers)
    (broker,) = shares_of(["a"], stats_of(a=[0, 0]), {}).brokers
    assert (broker.messages, broker.percent, [each.percent for each in broker.queues]) == (0, None, [0.0, 0.0])
    assert shares_of([], {}, {}).most_per_s == 0


def test_many_queues_are_folded_and_at_most_some_hundred_drawn():
    found = shares_of(["a", "b"], stats_of(a=[100] * 400, b=[100] * 399 + [900]), {})
    assert [(len(each.queues), each.unfolded) for each in found.brokers] == [(400, False), (112, True)]
    assert found.more == 800 - topic_shares.MOST


def test_the_page_has_a_bar_for_each_queue_with_its_number(visitor):
    visitor.running.create_topic("Orders", 2)
    for number in range(3):
        visitor.running.send("Orders", b"%d" % number)
    page = visitor.get("/topics/Orders")
    html = page.response.text
    assert sorted(re.findall(r'aria-label="Queue \d: (\d) messages?"', html)) == ["1", "2"]
    assert "3 messages, 100 % of the topic" in page.text and "style=" not in html
    (broker,) = visitor.api("/topics/Orders")["data"]["shares"]["brokers"]
    assert broker["messages"] == "3" and sorted(each["messages"] for each in broker["queues"]) == ["1", "2"]


@pytest.mark.parametrize("lacking", ["stats_at", "put_rate"])
def test_what_a_broker_does_not_tell_is_unknown(visitor, monkeypatch, lacking):
    async def fail(*_):
        raise ConnectFailed("no")

    visitor.running.create_topic("Orders", 2)
    visitor.running.send("Orders", b"x")
    monkeypatch.setattr(topic, lacking, fail)
    page = visitor.get("/topics/Orders")
    assert ("unknown number of messages" in page.text) is (lacking == "stats_at")
    assert ("unknown in" in page.text) is (lacking == "put_rate")
