"""The parts of a unique id, and its creation time."""

import pytest

from gantrymq.client.calls.client_ids import parse_unique_id
from gantrymq.model.ids import UniqueIds

HOUR_MS = 3_600_000
NOV_14 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
NOV_1 = 1_698_796_800_000


class Clock:
    def __init__(self, now, ahead_ms=0):
        self.now, self.ahead_ms = now, ahead_ms

    def now_ms(self):
        return self.now

    def utc_offset_ms(self, at_ms):
        return self.ahead_ms


@pytest.mark.parametrize("address", [bytes([10, 0, 0, 7]), bytes(15) + b"\x01"])
def test_the_parts_of_a_unique_id_are_read(address):
    found = parse_unique_id(UniqueIds(address, 0x1234, 0xABCDEF01, Clock(NOV_14)).next())
    assert found.host in ("10.0.0.7", "::1")
    assert found[1:] == (0x1234, 0xABCDEF01, NOV_14 - NOV_1, 1)


def test_an_id_that_is_none_is_refused():
    for text in ("", "7F", "g" * 32):
        with pytest.raises(ValueError, match=r"characters|hexadecimal"):
            parse_unique_id(text)


def test_a_unique_id_tells_when_it_was_made():
    found = parse_unique_id(UniqueIds(bytes(4), 1, 1, Clock(NOV_14)).next())
    assert found.time_ms(NOV_14 + 5, 0) == NOV_14
    assert found.time_ms(NOV_1 + 5, 0) == NOV_14 - 31 * 24 * HOUR_MS  # then it was created in October
