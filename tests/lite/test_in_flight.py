"""Messages that are delivered and not acknowledged, and subscriptions: without a broker."""

from gantrymq_lite.in_flight import InFlight
from gantrymq_lite.subscriptions import Consumer, Subscriptions

KEY = "%LMQ%$P$a", "G"


def delivered(offsets, pop_ms=1000, invisible_ms=100, attempt_id=None, table=None):
    table = InFlight() if table is None else table
    return table, table.delivered(KEY, attempt_id, pop_ms, invisible_ms, offsets)


def test_a_queue_is_blocked_until_all_are_acknowledged_or_the_time_is_over():
    table, earlier = delivered(range(5, 8))
    assert (earlier, len(table)) == ({}, 1)
    assert table.blocked_until_ms(KEY, None, 1099) == 1100
    assert table.blocked_until_ms(KEY, None, 1100) is None
    assert table.blocked_until_ms(("%LMQ%$P$b", "G"), None, 1000) is None
    assert [table.acknowledged(KEY, each, 1000, 0) for each in (6, 5, 7)] == [5, 7, 8]
    assert table.blocked_until_ms(KEY, None, 1000) is None
    assert len(table) == 0


def test_only_the_last_delivery_is_acknowledged():
    table, _ = delivered(range(2))
    _, earlier = delivered(range(3), 2000, table=table)
    assert earlier == {0: 1, 1: 1}
    assert table.acknowledged(KEY, 0, 1000, 0) is None
    assert table.acknowledged(KEY, 9, 2000, 0) is None
    _, earlier = delivered(range(3), 3000, table=table)
    assert earlier == {0: 2, 1: 2, 2: 1}


def test_a_repeated_attempt_is_not_counted():
    table, _ = delivered(range(2), attempt_id="one")
    assert table.blocked_until_ms(KEY, "one", 1000) is None
    _, earlier = delivered(range(2), 1050, attempt_id="one", table=table)
    assert earlier == {}


def test_without_a_delivery_only_the_next_message_to_commit_is_acknowledged():
    table = InFlight()
    assert table.acknowledged(KEY, 4, 1000, 3) is None
    assert table.acknowledged(KEY, 3, 1000, 3) == 4


def test_a_changed_time_is_kept_when_the_others_are_renewed():
    table, _ = delivered(range(2))
    assert table.visible_later(KEY, 0, 1000, 1500)
    assert not table.visible_later(KEY, 0, 999, 1)
    assert table.renew(KEY, 1000, 9000) == [1]
    assert table.blocked_until_ms(KEY, None, 1200) == 1500
    assert table.blocked_until_ms(KEY, None, 1600) == 9000
    assert table.renew(KEY, 999, 9000) == []


def test_a_clock_that_is_set_back_blocks_no_longer_than_the_invisible_time():
    table, _ = delivered(range(1), 100_000)
    assert table.blocked_until_ms(KEY, None, 500) == 600
    assert table.blocked_until_ms(KEY, None, 600) is None


def test_what_belongs_to_a_queue_or_a_group_is_forgotten():
    table, _ = delivered(range(1))
    table.delivered(("%LMQ%$P$a", "G2"), None, 1000, 100, range(1))
    table.clear_group("G2")
    assert len(table) == 1
    table.clear_queue("%LMQ%$P$a")
    assert len(table) == 0


def test_subscriptions_are_counted_once_and_leave_nothing_behind():
    table = Subscriptions()
    first, second = (Consumer("G", name, "P", None, 0) for name in ("c1", "c2"))
    assert table.add(first, ["a", "b", "a"]) == ["a", "b"]
    assert table.add(second, ["a"]) == ["a"]
    assert (table.count, list(table.of_queue("a"))) == (3, [[first, second]])
    table.served(first, "a")
    assert list(table.of_queue("a", "G")) == [[second, first]]
    first.marks["b"] = None
    assert table.remove(first, ["b", "none"]) == ["b"]
    assert (first.marks, list(table.of_queue("b")), list(table.of_queue("a", "other"))) == ({}, [], [])
    table.remove(first, ["a"])
    table.remove(second, ["a"])
    assert (table.count, len(table.all()), table.get("G", "c1"), table._of_queue) == (0, 0, None, {})
