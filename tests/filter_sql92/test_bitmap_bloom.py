"""The Bloom filter over groups: RocketMQ's sizes and positions, and its guarantees."""

import pytest

pytest.importorskip("mmh3")
bloom_module = pytest.importorskip("gantrymq_filter_sql92.bitmap.filter_data")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

BloomFilter, GroupBits = bloom_module.BloomFilter, bloom_module.GroupBits

NAMES = st.text(min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("count", "error_percent", "expected"),
    [(32, 20, (3, 112)), (64, 20, (3, 216)), (1, 99, (1, 8)), (32, 50, (1, 48)), (20_000, 1, (7, 191_704))],
)
def test_sizes_are_rocketmqs(count, error_percent, expected):
    bloom = BloomFilter.for_groups(count, error_percent)
    assert (bloom.hashes, bloom.bit_count) == expected
    assert bloom.byte_count * 8 == bloom.bit_count


@pytest.mark.parametrize(
    ("group", "topic", "positions"),
    [
        ("G", "T", (24, 26, 83)),
        ("CID_abc", "TopicTest", (103, 61, 29)),
        ("group-1", "topic-1", (63, 48, 110)),
        ("CG_sql1", "GoldenSql", (65, 28, 103)),
    ],
)
def test_positions_are_rocketmqs(group, topic, positions):
    assert BloomFilter.for_groups(32, 20).bits_of(group, topic).positions == positions


def test_a_map_is_rocketmqs_bytes():
    mask = BloomFilter.for_groups(32, 20).bits_of("CID_abc", "TopicTest").mask
    assert mask.to_bytes(14, "little").hex() == "0000002000000020000000008000"


@given(st.integers(1, 20_000), st.integers(1, 99), NAMES, NAMES)
def test_positions_lie_within_the_map(count, error_percent, group, topic):
    bloom = BloomFilter.for_groups(count, error_percent)
    bits = bloom.bits_of(group, topic)
    assert bloom.hashes >= 1
    assert bloom.bit_count % 8 == 0
    assert bloom.byte_count <= 32_747  # an ext unit holds no more
    assert bloom.fits(bits)
    assert all(0 <= position < bloom.bit_count for position in bits.positions)
    assert bits == bloom.bits_of(group, topic)


@given(st.sets(st.tuples(NAMES, NAMES), max_size=40))
def test_what_was_put_in_is_found(names):
    bloom = BloomFilter.for_groups(32, 20)
    masks = [bloom.bits_of(group, topic).mask for group, topic in names]
    whole = 0
    for mask in masks:
        whole |= mask
    assert all(whole & mask == mask for mask in masks)


def test_bits_of_another_size_do_not_fit():
    bloom = BloomFilter.for_groups(32, 20)
    assert not bloom.fits(BloomFilter.for_groups(64, 20).bits_of("G", "T"))
    assert not bloom.fits(GroupBits(112, (1, 2)))
