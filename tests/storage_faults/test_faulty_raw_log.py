"""`FaultyRawLog`: what a call that fails does, and where reads are cut."""

import asyncio

import pytest

from gantrymq.errors import StoreError
from gantrymq.interfaces import LogRange, Segment
from gantrymq_storage_faults import FaultyRawLog


class BytesLog:
    """A log of bytes that takes everything it gets."""

    visibility_limit = None

    def __init__(self):
        self.data = b""
        self.told = []

    def log_range(self):
        return LogRange(0, len(self.data))

    def read_log(self, start, max_bytes):
        return self.data[start : start + max_bytes]

    def append_raw(self, log_offset, data):
        self.data = self.data[:log_offset] + data
        return len(self.data)

    async def truncate(self, log_offset):
        self.data = self.data[:log_offset]

    async def hide(self, log_offset):
        self.visibility_limit = log_offset

    def limit_visibility(self, log_offset):
        self.visibility_limit = log_offset

    def retain_from(self, floor):
        return lambda: self.told.append(floor())

    def sealed_segments(self):
        return [Segment(0, 5)]

    def on_sealed(self, listener):
        return lambda: self.told.append(listener)

    on_appended = on_limit_moved = on_truncated = on_sealed


def test_calls_pass_through_and_are_counted():
    inner = BytesLog()
    log = FaultyRawLog(inner)
    assert log.append_raw(0, b"0123456789") == 10
    assert log.log_range() == (0, 10)
    assert {len(log.read_log(0, 10)) for _ in range(200)} == set(range(1, 11))
    asyncio.run(log.truncate(4))
    asyncio.run(log.hide(2))
    log.limit_visibility(3)
    log.retain_from(lambda: 7)()
    for register in (log.on_sealed, log.on_appended, log.on_limit_moved, log.on_truncated):
        register("listener")()
    assert (inner.data, log.visibility_limit, list(log.sealed_segments())) == (b"0123", 3, [(0, 5)])
    assert inner.told == [7, *["listener"] * 4]
    assert log.calls == {
        "append_raw": 1,
        "log_range": 1,
        "read_log": 200,
        "truncate": 1,
        "hide": 1,
        "limit_visibility": 1,
        "retain_from": 1,
        "sealed_segments": 1,
    }


def test_a_call_fails_as_often_as_it_was_told():
    log = FaultyRawLog(BytesLog())
    calls = {
        "log_range": log.log_range,
        "read_log": lambda: log.read_log(0, 1),
        "append_raw": lambda: log.append_raw(0, b"1"),
        "truncate": lambda: asyncio.run(log.truncate(0)),
        "hide": lambda: asyncio.run(log.hide(0)),
        "limit_visibility": lambda: log.limit_visibility(0),
        "retain_from": lambda: log.retain_from(lambda: 0),
        "sealed_segments": log.sealed_segments,
    }
    for name, call in calls.items():
        log.fail(name, times=2)
        for _ in range(2):
            with pytest.raises(StoreError, match=name):
                call()
        call()
    log.fail("read_log", OSError(5, "broken"))
    with pytest.raises(OSError, match="broken"):
        log.read_log(0, 1)
    with pytest.raises(ValueError, match="on_sealed is not one of"):
        log.fail("on_sealed")


def test_a_failing_append_keeps_a_part():
    kept = set()
    for seed in range(100):
        inner = BytesLog()
        log = FaultyRawLog(inner, seed)
        log.fail("append_raw")
        with pytest.raises(StoreError):
            log.append_raw(0, b"0123")
        kept.add(inner.data)
    assert kept == {b"0123"[:n] for n in range(5)}
