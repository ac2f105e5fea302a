"""JSON written in slices: the bytes of `dumps`, one call per member, generators closed."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.errors import FormatError
from gantrymq.loose_json import Entries, Items, ObjectKey, RawJson, dumps, dumps_in_slices

QUEUE = {"brokerName": "b", "queueId": 0, "topic": "T"}


def written(value, item_done=None, max_bytes=1 << 20):
    async def nothing():
        pass

    return asyncio.run(dumps_in_slices(value, item_done or nothing, max_bytes=max_bytes))


async def numbers(count, closed=None):
    try:
        for number in range(count):
            yield number
    finally:
        if closed is not None:
            closed.append(count)


async def pairs(count):
    for number in range(count):
        yield number, {"b": number, "a": None}


@pytest.mark.parametrize(
    ("sliced", "plain"),
    [
        (Entries([]), {}),
        (Items([]), []),
        (Items(numbers(0)), []),
        (Items(numbers(3000)), list(range(3000))),
        (Entries(pairs(3)), {0: {"b": 0}, 1: {"b": 1}, 2: {"b": 2}}),
        (Entries([("b", 1), ("a", None), ("c", Items(["x"]))]), {"b": 1, "c": ["x"]}),
        (Entries([("a", None)]), {}),
        (Entries([(ObjectKey(QUEUE), 1), (7, None), (-8, 2.5e-7)]), {ObjectKey(QUEUE): 1, -8: 2.5e-7}),
        (Entries([('\u2028"', "\x7fé\U0001f600")]), {'\u2028"': "\x7fé\U0001f600"}),
        (
            Items([Entries([("g", Items([1, Items([])]))]), None, {"z": 1, "y": ()}]),
            [{"g": [1, []]}, None, {"y": [], "z": 1}],
        ),
        ({"b": [1, {"d": 1, "c": 2}]}, {"b": [1, {"c": 2, "d": 1}]}),
    ],
)
def test_the_bytes_are_those_of_one_piece(sliced, plain):
    assert written(sliced) == dumps(plain)


def test_members_of_a_class_are_sorted():
    assert written(Entries.of({"b": 1, "a": Items([2])})) == b'{"a":[2],"b":1}'


def test_raw_json_is_neither_quoted_nor_checked():
    assert (
        written(Entries([(RawJson("{0:1}"), RawJson("[x]")), ("k", Items([RawJson("}")]))])) == b'{{0:1}:[x],"k":[}]}'
    )


def test_each_member_is_one_item_and_later_ones_see_what_happened_meanwhile():
    seen, calls = {"a": 1, "b": 2, "c": 3}, 0

    async def item_done():
        nonlocal calls
        calls += 1
        seen.pop("b", None)

    table = Entries((name, seen[name]) for name in list(seen) if name in seen)
    assert written(Entries([("table", table)]), item_done) == b'{"table":{"a":1,"c":3}}'
    assert calls == 3


def test_an_error_between_two_items_closes_the_generators():
    closed, calls = [], 0

    async def item_done():
        nonlocal calls
        calls += 1
        if calls == 5:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        written(Items([Items(numbers(100, closed))]), item_done)
    assert (closed, calls) == ([100], 5)


def test_a_document_that_is_too_long_ends_early():
    closed = []
    with pytest.raises(FormatError, match="limit of 5000 bytes"):
        written(Items(numbers(10**9, closed)), max_bytes=5000)
    assert closed == [10**9]
    with pytest.raises(FormatError, match="limit of 4 bytes"):
        written(Items([12, 3]), max_bytes=4)
    assert written(Items([12, 3]), max_bytes=6) == b"[12,3]"
