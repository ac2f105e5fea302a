"""Ordered pops: blocked queues, committed offsets, delivery counts, and the file."""

import pytest

from gantrymq.plugin.interfaces import PoppedBatch
from gantrymq_pop.order_info import CLEAN_AFTER_MS, OrderTable
from gantrymq_pop.pop_response import counts_info

KEY = ("T", "CG", 0)


def table_of(offsets, invisible_ms=1000, attempt_id=None):
    table = OrderTable()
    counts = table.popped(KEY, attempt_id, 100, invisible_ms, offsets)
    assert counts == {}
    return table


def test_a_queue_is_blocked_until_all_is_acknowledged():
    table = table_of([4, 5, 7])
    assert table.blocked_until_ms(KEY, None, 200) == 1100
    assert table.acknowledged(KEY, 5, 100) == 4
    assert table.acknowledged(KEY, 4, 100) == 7
    assert table.blocked_until_ms(KEY, None, 200) == 1100
    assert table.acknowledged(KEY, 7, 100) == 8
    assert table.blocked_until_ms(KEY, None, 200) is None


def test_a_queue_is_free_when_the_time_is_over_or_the_same_attempt_asks():
    table = table_of([4], attempt_id="one")
    assert table.blocked_until_ms(KEY, "one", 200) is None
    assert table.blocked_until_ms(KEY, "two", 1099) == 1100
    assert table.blocked_until_ms(KEY, "two", 1100) is None
    table.visible_later(KEY, 4, 100, 5000)
    assert table.blocked_until_ms(KEY, "two", 1100) == 5000


def test_the_times_of_messages_that_the_pop_did_not_deliver_are_not_kept():
    table = table_of([4])
    table.visible_later(KEY, 5, 100, 5000)
    assert table.to_json()["table"]["T@CG"][0]["ot"] is None


def test_after_the_clock_was_set_back_a_queue_is_blocked_for_the_invisible_time():
    table = OrderTable()
    table.popped(KEY, None, 3_600_000, 1000, [4, 5])
    assert table.blocked_until_ms(KEY, None, 200) == 1200
    assert table.blocked_until_ms(KEY, None, 1199) == 1200
    assert table.blocked_until_ms(KEY, None, 1200) is None


def test_what_is_acknowledged_for_another_pop_changes_nothing():
    table = table_of([4, 5])
    assert table.acknowledged(KEY, 4, 99) is None
    with pytest.raises(KeyError):
        table.acknowledged(KEY, 6, 100)
    assert table.acknowledged(("T", "CG", 1), 9, 100) == 10


def test_times_are_counted_but_not_for_the_same_attempt():
    table = table_of([4, 5], attempt_id="one")
    assert table.popped(KEY, "one", 200, 1000, [4, 5]) == {}
    assert table.popped(KEY, "two", 300, 1000, [4, 5, 6]) == {4: 1, 5: 1}
    assert table.popped(KEY, "three", 400, 1000, [4, 5]) == {4: 2, 5: 2}


def test_the_table_is_written_and_read_as_java_does():
    table = table_of([4, 5, 7], attempt_id="one")
    table.acknowledged(KEY, 5, 100)
    table.visible_later(KEY, 4, 100, 900)
    written = {"a": "one", "cm": 2, "i": 1000, "l": 100, "o": [4, 1, 3], "oc": None, "ot": {4: 900}, "popTime": 100}
    assert table.to_json() == {"table": {"T@CG": {0: written}}}
    again = OrderTable()
    again.load({"table": {"T@CG": {"0": {**written, "ot": {"4": 900}}}}})
    assert again.to_json() == table.to_json()


def test_state_of_queues_without_pops_is_removed():
    table = table_of([4])
    table.clean(lambda key: True, 100 + CLEAN_AFTER_MS)
    assert table.to_json()["table"]
    table.clean(lambda key: True, 101 + CLEAN_AFTER_MS)
    assert not table.to_json()["table"]
    table = table_of([4])
    table.clean(lambda key: False, 100)
    assert not table.to_json()["table"]


@pytest.mark.parametrize(
    ("deliveries", "text"),
    [
        ({}, "1 2 0"),
        ({5: 1}, "1 qo2%5 1;1 2 0"),
        ({4: 3, 5: 1}, "1 qo2%4 3;1 qo2%5 1;1 2 1"),
    ],
)
def test_the_counts_for_clients_have_a_minimum_for_the_queue(deliveries, text):
    assert counts_info(PoppedBatch("%RETRY%CG_T", "1", 2, 4, [4, 5], deliveries)) == text
