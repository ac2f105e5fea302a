"""Unique ids: their parts, and the month they count from."""

from __future__ import annotations

import pytest

from gantrymq.model.hosts import pack_host
from gantrymq.model.ids import (
    OffsetIds,
    UniqueIds,
    is_offset_id,
    month_around,
    offset_id,
    parse_offset_id,
)

HOUR_MS = 3_600_000
NOV_14 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
NOV_1 = 1_698_796_800_000
DEC_1 = 1_701_388_800_000


class Clock:
    def __init__(self, now, ahead_ms=0):
        self.now, self.ahead_ms = now, ahead_ms

    def now_ms(self):
        return self.now

    def utc_offset_ms(self, at_ms):
        return self.ahead_ms


def test_id_has_address_process_loader_time_in_the_month_and_counter():
    text = UniqueIds(bytes([127, 0, 0, 1]), 1234, 0x18B4AAC2, Clock(NOV_14)).next()
    assert text == "7F000001" + "04D2" + "18B4AAC2" + f"{NOV_14 - NOV_1:08X}" + "0001"


@pytest.mark.parametrize(("ahead", "start", "end"), [(0, NOV_1, DEC_1), (9, NOV_1 - 9 * HOUR_MS, DEC_1 - 9 * HOUR_MS)])
def test_month_is_that_of_the_local_time(ahead, start, end):
    assert month_around(NOV_14, ahead * HOUR_MS) == (start, end)


def test_local_month_may_be_another_than_that_of_utc():
    assert month_around(DEC_1 - HOUR_MS, 2 * HOUR_MS)[0] == DEC_1 - 2 * HOUR_MS


def test_year_ends():
    december = month_around(DEC_1, 0)
    assert month_around(december[1], 0)[0] == december[1]


def test_ids_go_on_in_the_next_month_and_the_counter_wraps():
    clock = Clock(DEC_1 - 1)
    ids = UniqueIds(bytes(4), 1, 1, clock)
    before = ids.next()
    clock.now = DEC_1 + 5
    assert ids.next()[20:28] == "00000005" != before[20:28]
    assert len({ids.next() for _ in range(65_536)}) == 65_536


def test_offset_ids_of_a_host_are_those_of_the_single_function():
    host = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])
    assert OffsetIds(host).of(200) == offset_id(host, 200) == "7F00000100002A9F00000000000000C8"
    assert parse_offset_id(offset_id(host, 200)) == ("127.0.0.1", 10911, 200)


@pytest.mark.parametrize(("address", "host"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1")])
def test_an_offset_id_names_broker_and_place(address, host):
    text = offset_id(pack_host(address, 10911), 1 << 40)
    assert parse_offset_id(text) == (host, 10911, 1 << 40)
    assert is_offset_id(text)


def test_a_unique_id_is_no_offset_id():
    assert not is_offset_id(UniqueIds(bytes([127, 0, 0, 1]), 1, 1, Clock(NOV_14)).next())
    assert not is_offset_id("7F0000020000")
    assert not is_offset_id("x" * 32)
