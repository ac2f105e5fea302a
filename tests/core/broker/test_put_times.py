"""The longest put and the spread of a minute's, as a Java broker printed them."""

from __future__ import annotations

import pytest

from gantrymq.broker.counting.put_times import PutTimes


def times(*batches):
    """A whole minute of (messages, ms)."""
    found = PutTimes()
    found.tick(0.0)
    for messages, ms in batches:
        found.acknowledged(messages, ms / 1000)
    found.tick(60.0)
    return found


GOLDEN = ((11, 0.4), (5, 2.0), (3, 2.0), (1, 70.0))  # 20 puts of the golden run of mqadmin: 34-brokerStatus


def test_the_figures_of_a_golden_run():
    found = times(*GOLDEN)
    assert found.spread() == (
        "[<=0ms]:11 [0~10ms]:8 [10~50ms]:0 [50~100ms]:1 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 "
        "[3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:0 "
    )
    assert found.max_ms == 70
    assert [f"{found.percentile(share):.2f}" for share in (0.99, 0.999)] == ["2.00", "2.00"]


@pytest.mark.parametrize(
    ("ms", "name"),
    [
        (0, "[<=0ms]"),
        (1, "[0~10ms]"),
        (10, "[10~50ms]"),
        (999, "[500ms~1s]"),
        (1000, "[1~2s]"),
        (9999, "[5~10s]"),
        (10_000, "[10s~]"),
    ],
)
def test_a_time_counts_in_the_range_that_it_begins(ms, name):
    assert f"{name}:1 " in times((1, ms)).spread()


@pytest.mark.parametrize(
    ("batches", "share", "ms"),
    [
        ((), 0.99, 0.0),
        (((100, 1),), 0.5, 0.5),  # straight from 0 to 1
        (((50, 0), (50, 51)), 0.99, 50 + 5 * 49 / 50),  # 51 is in the step from 50 to 55
        (((100, 20_000),), 0.5, 15_000.0),  # between the last step and the longest
    ],
)
def test_percentiles_go_straight_within_a_step(batches, share, ms):
    assert times(*batches).percentile(share) == pytest.approx(ms)


def test_the_spread_is_that_of_the_last_whole_minute():
    found = PutTimes()
    found.tick(0.0)
    found.acknowledged(3, 0.005)
    found.tick(59.0)
    assert "[0~10ms]:0 " in found.spread()
    found.tick(60.0)
    found.acknowledged(4, 0.020)
    assert "[0~10ms]:3 [10~50ms]:0 " in found.spread()
    found.tick(120.0)
    assert "[0~10ms]:0 [10~50ms]:4 " in found.spread()
    found.tick(180.0)
    assert found.percentile(0.99) == 0
    assert found.max_ms == 20
