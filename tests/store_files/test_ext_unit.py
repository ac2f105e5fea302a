import pytest

from gantrymq.errors import FormatError
from gantrymq_store_files.ext_unit import (
    END_OF_UNITS,
    ExtUnit,
    ext_address,
    ext_position,
    iter_ext_units,
    pack_ext_unit,
    read_ext_unit,
)

RAW = bytes.fromhex("0022 000000000027a807 0000018bcfe5687b 000e 0000002000000020000000008000")
UNIT = ExtUnit(2598919, 1700000000123, RAW[20:])


def test_a_unit_has_the_documented_bytes():
    assert pack_ext_unit(UNIT) == RAW
    assert read_ext_unit(RAW, 0) == UNIT
    assert UNIT.size == len(RAW) == 34


def test_a_unit_may_have_no_bits():
    raw = pack_ext_unit(ExtUnit(-1, 5))
    assert raw.hex() == "0014" + "f" * 16 + "0000000000000005" + "0000"
    assert read_ext_unit(raw, 0) == ExtUnit(-1, 5, b"")


@pytest.mark.parametrize("rest", [b"", b"\0", bytes(20), END_OF_UNITS, END_OF_UNITS + b"\1" * 30])
def test_units_end_at_the_mark_at_zeros_and_at_the_end(rest):
    assert list(iter_ext_units(RAW + RAW + rest)) == [(0, UNIT), (34, UNIT)]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (RAW[:-1], "size 34 where 20 to 33 is possible"),
        (b"\0\x13" + RAW[2:], "size 19 where 20 to 34"),
        (RAW[:18] + b"\0\x0d" + RAW[20:], "13 bytes of bits do not fit size 34"),
    ],
)
def test_lengths_that_do_not_add_up_are_refused(raw, sentence):
    with pytest.raises(FormatError, match=sentence):
        read_ext_unit(raw, 0)


def test_a_unit_that_is_too_long_is_refused():
    assert len(pack_ext_unit(ExtUnit(0, 0, bytes(32747)))) == 32767
    with pytest.raises(FormatError, match="32768 bytes"):
        pack_ext_unit(ExtUnit(0, 0, bytes(32748)))


def test_an_address_is_the_position_below_the_tags_codes():
    assert ext_address(34) == -(2**63) + 34
    assert ext_position(ext_address(34)) == 34
    with pytest.raises(FormatError, match="-2147483648 is a tags code"):
        ext_position(-2147483648)
