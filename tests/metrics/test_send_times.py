"""The histogram of send times."""

import pytest

from gantrymq_metrics.send_times import BOUNDS_S, SendTimes


def test_every_message_of_a_batch_counts_with_the_time_of_the_batch():
    times = SendTimes()
    times.acknowledged(3, 0.0001)
    times.acknowledged(64, 0.004)
    times.acknowledged(1, 60.0)
    found = times.histogram()
    assert found.buckets == (3, 3, 3, 3, 3, *[67] * 10, 68)
    assert found.sum_s == pytest.approx(60.2563)


def test_bounds_rise_and_reach_the_default_timeout_of_a_flush():
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    assert BOUNDS_S[-1] == 5.0
