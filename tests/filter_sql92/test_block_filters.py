"""Block filters skip what cannot match, and never a message that does."""

import asyncio
import os
import random
import time
import tracemalloc

import pytest

pytest.importorskip("gantrymq_storage_mmap")

from block_rig import EXPRESSIONS, PROPERTIES, ROOT, T0, BlockRig, small_blocks

from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model import properties
from gantrymq_filter_sql92.block_filters import BLOCK_ENTRIES, BlockFilters, keys_of
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.skipping import required_keys
from gantrymq_filter_sql92.values import lookup
from gantrymq_storage_mmap.reading import message_scan
from gantrymq_testing.simulated import simulate

SEEDS = range(int(os.environ.get("GANTRYMQ_BLOCK_SEEDS", "8")))
PLENTY = {"hotReadWindow": 1 << 28, "logBlockCacheBytes": 18 << 20, "maxFilterMessageSize": 16_000}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_expression_finds_the_same_messages_with_and_without_block_filters(seed, monkeypatch):
    small_blocks(monkeypatch, random.Random(seed))

    async def main(world):
        await BlockRig(world, seed).run(12)

    simulate(seed, main, limit_s=10_000_000)


def run(case, *, most_bytes=1 << 20, most_values=3, **settings):
    """Run ``case(rig)`` with an open store."""

    async def main(world):
        rig = BlockRig(world, **(PLENTY | settings))
        rig.filters.limit(most_bytes, most_values)
        await rig.start()
        await case(rig)
        await rig.store.stop()
        await world.workers.close()

    simulate(1, main)


async def put_blocks(rig, *values):
    """Store a block of each value."""
    for value in values:
        await rig.put(*[properties.encode({"a": value})] * BLOCK_ENTRIES)


async def get(rig, text, offset=0):
    return rig.store.get(T0, offset, GetLimit(), rig.filter_of(text))


def test_the_third_reading_skips_blocks_without_the_value_in_one_get():
    async def case(rig):
        await put_blocks(rig, "x", "y", "z", "y")
        for value in ("p", "q"):
            assert await rig.read(rig.filter_of(f"a = '{value}'")) == []
        assert (rig.filters.hits, rig.filters.misses) == (0, 0)
        got = await get(rig, "a = 'z'")
        assert got.next_offset > 2 * BLOCK_ENTRIES
        assert got.status is GetStatus.FOUND
        assert (rig.filters.hits, rig.filters.misses) == (2, 1)
        got = await get(rig, "a IN ('r', 's')", 5)
        assert (got.status, got.next_offset, got.max_offset) == (GetStatus.NO_MATCHED_MESSAGE, *[4 * BLOCK_ENTRIES] * 2)
        assert rig.filters.hits == 6

    run(case)


def test_the_second_reading_finds_the_messages_by_the_values_that_it_collects():
    async def case(rig):
        few = [properties.encode({"a": "xy"[number % 100 == 7]}) for number in range(BLOCK_ENTRIES)]
        await rig.put(*few)
        right = await rig.read(rig.plain_of("a = 'y'"))
        await rig.read(rig.filter_of("a = 'p'"))
        assert await rig.read(rig.filter_of("a = 'y'")) == right
        assert len(right) == 11

    run(case)


def test_the_rest_of_a_block_is_skipped_from_the_middle():
    async def case(rig):
        await put_blocks(rig, "x", "y")
        for value in ("p", "q"):
            await rig.read(rig.filter_of(f"a = '{value}'"))
        got = await get(rig, "a = 'y'", 100)
        assert got.buffers
        assert got.next_offset > BLOCK_ENTRIES

    run(case)


def test_a_block_with_too_many_values_is_not_worth_a_filter():
    async def case(rig):
        await rig.put(*[properties.encode({"a": str(number % 4)}) for number in range(BLOCK_ENTRIES)])
        for value in "pqrs":
            assert await rig.read(rig.filter_of(f"a = '{value}'")) == []
        assert (rig.filters.hits, rig.filters.misses) == (0, 0)
        rig.filters.limit(1 << 20, 4)  # now it is
        for value in "tuv":
            assert await rig.read(rig.filter_of(f"a = '{value}'")) == []
        assert rig.filters.hits == 1

    run(case)


def test_a_block_with_very_long_values_is_not_worth_a_filter():
    async def case(rig):
        await rig.put(*[properties.encode({"a": "v" * 9000 + "xy"[number % 2]}) for number in range(2)])
        await put_blocks(rig, "x")
        for value in "pqr":
            assert await rig.read(rig.filter_of(f"a = '{value}'")) == []
        assert rig.filters.hits == 0

    run(case)


def test_a_block_that_is_not_sealed_is_not_counted():
    async def case(rig):
        await rig.put(*[b"a\x01x\x02"] * (BLOCK_ENTRIES - 1))
        for value in "pqr":
            await rig.read(rig.filter_of(f"a = '{value}'"))
        assert (rig.filters.hits, rig.filters.bytes) == (0, 0)

    run(case)


def test_one_reading_in_many_gets_counts_once_and_other_properties_have_their_own_filters():
    async def case(rig):
        await put_blocks(rig, "x", "x")
        await rig.read(rig.filter_of("a = 'p'"))
        await rig.read(rig.filter_of("b = 'p'"))
        assert rig.filters.hits == 0
        await rig.read(rig.filter_of("a = 'q'"))
        await rig.read(rig.filter_of("b = 'q'"))
        assert rig.filters.hits == 0
        await rig.read(rig.filter_of("b = 'r'"))
        assert rig.filters.hits == 2

    run(case, maxFilterMessageSize=2000)


@pytest.mark.parametrize("event", ["truncation", "deletion", "rebuilding"])
def test_what_an_event_touches_is_forgotten(event):
    async def case(rig):
        await put_blocks(rig, "x", "x")
        for value in "pqr":
            await rig.read(rig.filter_of(f"a = '{value}'"))
        assert rig.filters.hits == 2
        if event == "truncation":
            (last,) = (await get(rig, "a = 'x'", 2 * BLOCK_ENTRIES - 1)).buffers
            end = rig.store.raw_log.log_range().max_offset
            await rig.store.raw_log.truncate(end - len(last))
        elif event == "deletion":
            await rig.store.drop("T")
            await put_blocks(rig, "r")
        else:
            await rig.world.clock.sleep(120)  # entries in memory are not read from files
            folder = ROOT / "consumequeue" / "T" / "0"
            file = rig.world.files.open(folder / sorted(rig.world.files.list(folder))[0])
            file.pwrite(bytes(20), 0)
            file.close()
            await rig.read(None)
        hits = rig.filters.hits
        found = await rig.read(rig.filter_of("a = 'r'"))
        assert rig.filters.hits == hits
        assert len(found) == (BLOCK_ENTRIES if event == "deletion" else 0)

    run(case)


def test_values_collected_before_a_truncation_are_not_kept():
    async def case(rig):
        await put_blocks(rig, "x")
        await rig.read(rig.filter_of("a = 'p'"))
        match = rig.filter_of("a = 'q'")
        part = match.candidates(T0, 1, 0, BLOCK_ENTRIES)
        match.candidates(T0, 2, 0, BLOCK_ENTRIES)  # another get has met a later version
        assert match.narrowed(part, BLOCK_ENTRIES, lambda *asked: pytest.fail("its values are of no use")) is None
        match.examined(part, BLOCK_ENTRIES)
        assert rig.filters.bytes == 0

    run(case)


def test_values_that_are_not_in_memory_are_collected_by_a_later_reading():
    filters, required = BlockFilters(), required_keys(compiled("a = 'x'").tree)
    filters.limit(1 << 20, 64)

    def read(values):
        part = filters.candidates(required, T0, 1, 0, BLOCK_ENTRIES)
        found = filters.narrowed(required, part, BLOCK_ENTRIES, values)
        if found is None:
            filters.examined(required, part, BLOCK_ENTRIES)
        return found

    assert read(None) is None
    assert read(lambda name, begin, end: None) is None
    assert read(lambda name, begin, end: [(begin, {b"y"})]) == ([], BLOCK_ENTRIES)
    assert filters.candidates(required, T0, 1, 0, BLOCK_ENTRIES).begin == BLOCK_ENTRIES


def test_memory_is_bounded_and_0_switches_off():
    async def case(rig):
        await put_blocks(rig, *"xyxyxy")
        for value in "pqrs":
            await rig.read(rig.filter_of(f"a = '{value}'"))
            assert 0 < rig.filters.bytes <= 2500
        rig.filters.limit(0, 64)
        assert rig.filters.bytes == 0
        hits = rig.filters.hits
        for value in "pqrs":
            await rig.read(rig.filter_of(f"a = '{value}'"))
        assert (rig.filters.bytes, rig.filters.hits) == (0, hits)

    run(case, most_bytes=2500)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("a = 'x'", "a"),
        ("'x' = a", "a"),
        ("a IN ('x', 'y')", "a"),
        ("a = 5", "a"),
        ("a = 'x' OR a = 7", "a"),
        ("a = 'x' AND (b > 1 OR c IS NULL)", "a"),
        ("a = 'x' OR b = 'y'", None),
        ("a = 'x' OR b IS NULL", None),
        ("NOT (a = 'x')", None),
        ("a <> 'x'", None),
        ("a NOT IN ('x')", None),
        ("a IS NULL", None),
        ("a > 5", None),
        ("a = b", None),
        ("a = TRUE", None),
        ("a = '\ufffd'", None),
        ("FALSE", None),
    ],
)
def test_only_required_equalities_of_one_property_can_use_them(expression, name):
    found = required_keys(compiled(expression).tree)
    assert (None if found is None else found.name) == name


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_each_match_has_one_of_the_required_keys(text):
    expression = compiled(text)
    required = required_keys(expression.tree)
    for stored in PROPERTIES:
        if expression.matches(stored):
            value = lookup(required.name)(stored)
            assert value is not None
            assert required.keys & keys_of(value), (text, stored)


def test_concurrent_readings_count_each():
    async def case(rig):
        await put_blocks(rig, "x", "y")
        await asyncio.gather(*(rig.read(rig.filter_of(f"a = '{value}'")) for value in "pq"))
        await rig.read(rig.filter_of("a = 'r'"))
        assert rig.filters.hits == 2

    run(case)


def test_a_body_full_of_what_looks_like_the_property_takes_no_memory():
    async def case(rig):
        await put_blocks(rig, "x")
        texts = [b"b\x01x\x02", b"a\x01y\x02", b"b\x01x\x02a\x01z\x02a\x01\x02", b"xa\x01x\x02", b""]
        await rig.put(*texts, *[b"b\x01x\x02"] * (BLOCK_ENTRIES - len(texts)), body=b"a\x01" * 5000)
        await rig.read(rig.filter_of("a = 'p'"))
        tracemalloc.start()
        await rig.read(rig.filter_of("a = 'q'"))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
        tracemalloc.stop()
        for value, count in {"y": 1, "z": 1, "x": BLOCK_ENTRIES, "": 0, "r": 0}.items():
            hits = rig.filters.hits
            assert len(await rig.read(rig.filter_of(f"a = '{value}'"))) == count
            assert rig.filters.hits - hits == (2 if value in {"", "r"} else 1)

    run(case, mappedFileSizeCommitLog=32 << 20)


def test_values_of_large_messages_are_collected_in_several_gets(monkeypatch):
    monkeypatch.setattr(message_scan, "MOST_BYTES", 100_000)

    async def case(rig):
        await rig.put(*[properties.encode({"a": "x"})] * BLOCK_ENTRIES, body=bytes(1000))
        await rig.read(rig.filter_of("a = 'p'"))
        got = await get(rig, "a = 'q'")
        assert 50 < got.next_offset <= 100
        await rig.read(rig.filter_of("a = 'q'"))
        await rig.read(rig.filter_of("a = 'r'"))
        assert rig.filters.hits == 1

    run(case, mappedFileSizeCommitLog=2 << 20)


def test_the_keys_of_a_long_value_that_is_nearly_a_number_are_found_at_once():
    began = time.process_time()
    assert len(keys_of(b"1" * 16_000 + b"x")) == 1
    assert time.process_time() - began < 0.5
