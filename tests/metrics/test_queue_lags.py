"""The queues whose lag has a series of its own."""

from gantrymq_metrics.queue_lags import QueueLags

ORDERS = ("Orders", "readers")
BILLS = ("Bills", "readers")


def chosen(limit, lags, before=None):
    queue_lags = QueueLags(limit, before or {})
    for (pair, queue_id), lag in lags.items():
        queue_lags.offer(pair, queue_id, lag)
    return queue_lags.by_pair()


def test_all_have_one_while_there_is_room_also_without_lag():
    assert chosen(3, {(ORDERS, 1): 0, (ORDERS, 0): 5, (BILLS, 0): 7}) == {ORDERS: {0: 5, 1: 0}, BILLS: {0: 7}}


def test_the_largest_have_one():
    lags = {(ORDERS, queue_id): lag for queue_id, lag in enumerate((1, 9, 3, 8, 2))}
    assert chosen(2, lags) == {ORDERS: {1: 9, 3: 8}}


def test_a_limit_of_0_chooses_none():
    assert chosen(0, {(ORDERS, 0): 5}) == {}
    assert not QueueLags(0, {}).may_choose(ORDERS, 5)


def test_a_queue_keeps_its_series_until_another_has_twice_its_lag():
    before = {ORDERS: {0: 100}}
    assert chosen(1, {(ORDERS, 0): 100, (BILLS, 0): 199}, before) == {ORDERS: {0: 100}}
    assert chosen(1, {(ORDERS, 0): 100, (BILLS, 0): 201}, before) == {BILLS: {0: 201}}
    assert chosen(1, {(BILLS, 0): 0, (ORDERS, 0): 0}, before) == {ORDERS: {0: 0}}


def test_whether_a_queue_could_be_chosen_is_known_before_it_is_offered():
    queue_lags = QueueLags(1, {BILLS: {0: 1}})
    queue_lags.offer(ORDERS, 0, 10)
    assert not queue_lags.may_choose(ORDERS, 10)
    assert queue_lags.may_choose(ORDERS, 11)
    assert queue_lags.may_choose(BILLS, 10)
