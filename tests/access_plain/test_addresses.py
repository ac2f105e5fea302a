"""Patterns of client addresses: every form that RocketMQ documents, and what is refused."""

import pytest

from gantrymq.errors import FormatError
from gantrymq_access_plain.addresses import AddressPatterns, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["10.1.2.3", "::1", "anything"], []),
        ("*.*.*.*", ["10.1.2.3", "::1"], []),
        ("*:*:*:*:*:*:*:*", ["10.1.2.3", "::1"], []),
        ("10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.4", "::1", "x", ""]),
        ("10.1.2.3, 10.1.2.9", ["10.1.2.3", "10.1.2.9"], ["10.1.2.4"]),
        ("10.1.2.{3,9}", ["10.1.2.3", "10.1.2.9"], ["10.1.2.4", "10.1.3.3"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.0", "10.1.1.255", "::a01:200"]),
        ("10.1.*.*", ["10.1.0.0", "10.1.255.255"], ["10.2.0.0", "10.0.255.255"]),
        ("10.1.2.10-20", ["10.1.2.10", "10.1.2.20"], ["10.1.2.9", "10.1.2.21", "10.1.3.10"]),
        ("10.1.10-20.*", ["10.1.10.0", "10.1.20.255"], ["10.1.9.255", "10.1.21.0"]),
        ("2001:db8::1", ["2001:db8::1", "2001:0DB8:0:0:0:0:0:1", "2001:db8::1%eth0"], ["2001:db8::2", "10.1.2.3"]),
        ("2001:db8::{1,a}", ["2001:db8::1", "2001:db8::a"], ["2001:db8::2"]),
        ("2001:db8:0:0:0:0:0:*", ["2001:db8::", "2001:db8::ffff"], ["2001:db8::1:0"]),
        ("2001:db8::*", ["2001:db8::ffff"], ["2001:db8::1:0"]),
        ("2001:db8:1-2:*:*:*:*:*", ["2001:db8:1::", "2001:db8:2:ffff::1"], ["2001:db8:3::", "2001:db8::"]),
        ("2001:db8::1:a-1F", ["2001:db8::1:a", "2001:db8::1:1f"], ["2001:db8::1:20", "2001:db8::2:a"]),
    ],
)
def test_a_pattern_has_the_addresses_it_says(pattern, inside, outside):
    parsed = parse_pattern(pattern)
    together = AddressPatterns([parse_pattern("192.0.2.1"), parsed])
    assert [each for each in inside if not parsed.matches(each)] == []
    assert [each for each in outside if parsed.matches(each)] == []
    assert [each for each in inside if not together.matches(each)] == []
    assert [each for each in outside if together.matches(each)] == []


def test_no_pattern_has_no_address():
    assert parse_pattern("  ") is None
    assert not AddressPatterns([]).matches("10.1.2.3")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("10.1.2", "is not an address"),
        ("10.1.2.256", "is not an address"),
        ("host", "is not an address"),
        ("10.1.2.3,", "'' is not an address"),
        ("10.0.0.0/8", "networks such as 10.0.0.0/8 are not read here"),
        ("10.{1,2}.3.4", "alternatives are the last part"),
        ("10.1.2.{1,2", "alternatives are the last part"),
        ("10.1.2.{1,x}", "'10.1.2.x' is not an address"),
        ("10.*.2.3", "only \\* may follow"),
        ("10.1-2.3-4.*", "only \\* may follow"),
        ("10.1.2.*.*", "it has 5 parts, an address has 4"),
        ("10.1.2.20-10", "the range 20-10 begins above its end"),
        ("10.1.2.10-256", "'256' is neither \\*, a range, nor a number up to 255"),
        ("10.1.2.-5", "'' is neither"),
        ("10.1.2.1-2-3", "'2-3' is neither"),
        ("2001:db8::1::*", "more than one ::"),
        ("1:2:3:4:5:6:7:8:*", "it has 9 parts, an address has 8"),
        ("1:2:3:4:5:6:7:fffff-*", "neither"),
        ("*" * 20_000, "it has 20000 characters"),
    ],
)
def test_a_malformed_pattern_is_refused(pattern, why):
    with pytest.raises(FormatError, match=why) as caught:
        parse_pattern(pattern)
    assert len(str(caught.value)) < 300
