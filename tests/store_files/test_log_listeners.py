"""Registrations of a raw log: floors, and listeners that fail or are removed."""

import pytest

from gantrymq_store_files.log_listeners import LogListeners


def test_the_lowest_floor_counts():
    listeners = LogListeners(print)
    assert listeners.floor(100) == 100
    cancel = listeners.retain_from(lambda: 40)
    listeners.retain_from(lambda: 70)
    assert [listeners.floor(100), listeners.floor(30)] == [40, 30]
    cancel()
    cancel()
    assert listeners.floor(100) == 70


def test_a_floor_that_fails_is_an_error_of_the_caller():
    listeners = LogListeners(print)
    listeners.retain_from(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        listeners.floor(100)


def test_a_listener_that_fails_is_reported_and_the_others_are_called():
    said, told = [], []
    listeners = LogListeners(said.append)

    def once(log_offset):
        told.append(log_offset)
        cancel()

    listeners.on_truncated(lambda log_offset: 1 // 0)
    cancel = listeners.on_truncated(once)
    listeners.on_truncated(told.append)
    for _ in range(2):
        listeners._tell(listeners._truncated, 5)
    assert told == [5, 5, 5]
    assert said == ["a listener of the raw log failed: ZeroDivisionError: integer division or modulo by zero"] * 2
