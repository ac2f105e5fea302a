import random

import pytest

from gantrymq.model.java import string_hash
from gantrymq_store_files.index_hash import index_hash, index_hashes, index_keys


def java_hash(topic, key):
    """As RocketMQ states it: abs, and 0 where abs stays negative."""
    value = string_hash(f"{topic}#{key}")
    return 0 if value == -(2**31) else abs(value)


@pytest.mark.parametrize(
    ("key", "expected"), [("7F000001000018B4AAC2000000000000", 84507706), ("K1", 2745032), ("K2", 2745033)]
)
def test_a_hash_equals_javas(key, expected):
    assert index_hash("TopicTest", key) == expected
    assert index_hashes(["TopicTest"], [key.encode()]) == [expected]


def test_the_smallest_number_becomes_0():
    assert string_hash("GoldenA#CY\\^XCN") == -(2**31)
    assert index_hash("GoldenA", "CY\\^XCN") == 0
    assert index_hashes(["GoldenA"], [b"CY\\^XCN"]) == [0]


def test_hashes_of_a_batch_equal_those_of_single_keys():
    chance = random.Random(5)
    letters = "abcXYZ019_- #%\x01\x00\x7fäß漢\U0001f600"
    topics, keys = [], []
    for length in [0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 254, 255, 256, 257, 1000] * 30:
        plain = chance.random() < 0.8
        topics.append(chance.choice(["T", "TopicTest", "%RETRY%group", "主题"]))
        keys.append("".join(chance.choices(letters[:16] if plain else letters, k=length)))
    assert index_hashes(topics, [key.encode() for key in keys]) == [
        java_hash(topic, key) for topic, key in zip(topics, keys, strict=True)
    ]


def test_more_keys_than_are_hashed_at_once():
    keys = [f"{number:032X}".encode() for number in range(1000)]
    assert index_hashes(["T"] * 1000, keys) == [java_hash("T", key.decode()) for key in keys]


def test_bytes_that_are_no_utf8_count_as_java_reads_them():
    assert index_hashes(["T"], [b"a\xff"]) == [java_hash("T", "a\ufffd")]


def test_every_topic_needs_a_key():
    with pytest.raises(ValueError, match="zip"):
        index_hashes(["T", "T"], [b"a"])


@pytest.mark.parametrize(
    ("properties", "keys"),
    [
        (b"", []),
        (b"UNIQ_KEY\x01U\x02", [b"U"]),
        (b"KEYS\x01a b\x02UNIQ_KEY\x01U\x02", [b"U", b"a", b"b"]),
        (b"KEYS\x01  a   b \x02", [b"a", b"b"]),
        (b"KEYS\x01 \x02", []),
        (b"KEYS\x01a", [b"a"]),
        (b"KEYS\x01a\x02KEYS\x01b\x02", [b"b"]),
        (b"KEYS\x01a\x02KEYS\x01\x02", [b"a"]),
        (b"MY_KEYS\x01a\x02NOT_UNIQ_KEY\x01U\x02", []),
        (b"X\x01KEYS\x01a\x02", []),
        (b"KEYS\x01a\x01b\x02", [b"a\x01b"]),
        ("KEYS\x01\U0001f600 ä\x02".encode(), ["\U0001f600".encode(), "ä".encode()]),
    ],
)
def test_a_message_is_indexed_by_its_unique_key_and_each_part_of_its_keys(properties, keys):
    assert index_keys(properties, 0) == keys


@pytest.mark.parametrize(("sys_flag", "indexed"), [(0, True), (4, True), (8, True), (12, False), (0xF3, True)])
def test_only_rolled_back_messages_are_left_out(sys_flag, indexed):
    assert bool(index_keys(b"KEYS\x01a\x02", sys_flag)) is indexed
