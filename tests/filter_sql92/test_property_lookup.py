"""One property of the stored bytes, against the reader of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.model.properties import decode
from gantrymq_filter_sql92.values import cached_lookup, lookup


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (b"", None),
        (b"a\x01x\x02", b"x"),
        (b"a\x01x", b"x"),
        (b"b\x01y\x02a\x01x\x02", b"x"),
        (b"a\x01x\x02a\x01y\x02", b"y"),
        (b"a\x01x\x02b\x01z\x02a\x01y", b"y"),
        (b"a\x01x\x02a\x01\x02", b"x"),
        (b"a\x01x\x02a\x01\x02a\x01", b"x"),
        (b"a\x01\x02a\x01\x02", None),
        (b"ba\x01x\x02", None),
        (b"b\x01a\x01x\x02", None),
        (b"a\x01x\x01y\x02", b"x\x01y"),
        (b"a\x02\x01x\x02", None),
        (b"\x02\x02a\x01x", b"x"),
        (b"\x01x\x02", None),
        (b"a\x01\xff\x02", b"\xff"),
    ],
)
def test_the_last_value_that_is_not_empty_counts(stored, value):
    assert lookup("a")(stored) == value


@given(st.lists(st.sampled_from([b"a", b"ab", b"b", b"\x01", b"\x02"]), max_size=20).map(b"".join))
def test_it_is_what_reading_all_of_them_gives(stored):
    everything = decode(stored)
    for name in ("a", "ab", "b", "aa"):
        expected = everything.get(name)
        assert lookup(name)(stored) == (expected.encode() if expected is not None else None)


def test_many_empty_values_are_stepped_over():
    assert lookup("a")(b"a\x01x\x02" + b"a\x01\x02" * 10_000) == b"x"


@given(st.lists(st.sampled_from([b"a\x01x\x02", b"a\x01y\x02", b"b\x01x\x02", b""]), max_size=20))
def test_remembering_changes_no_answer(messages):
    once, again = lookup("a"), cached_lookup("a")
    for stored in messages:
        assert [again(stored), again(stored), again(bytes(bytearray(stored)))] == [once(stored)] * 3
