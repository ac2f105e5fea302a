"""The filter type TAG against RocketMQ's rules."""

import pytest

from gantrymq.interfaces import ExtUnit
from gantrymq.model.subscription import Subscription
from gantrymq_filter_tag.filter import TagFilter, tags_code
from gantrymq_testing import FilterContract


class TestTagFilterContract(FilterContract):
    make_filter = TagFilter
    verdicts = (
        ("*", {}, True),
        ("*", {"TAGS": "TagA"}, True),
        ("", {"TAGS": "TagA"}, True),
        ("TagA", {"TAGS": "TagA"}, True),
        ("TagA", {"TAGS": "TagB"}, False),
        ("TagA", {}, False),
        ("TagA || TagB", {"TAGS": "TagB"}, True),
        ("TagA||TagB", {"TAGS": "TagC"}, False),
        ("Grüße", {"TAGS": "Grüße"}, True),
        (" || ", {"TAGS": "TagA"}, False),
    )
    refused = ("||", "||||")


def compiled(expression, type="TAG", class_filter=False):
    return TagFilter().compile(Subscription("T", expression, type, class_filter=class_filter))


@pytest.mark.parametrize(
    ("tag", "code"), [("", 0), ("TagA", 2598919), ("polygenelubricants", -(2**31)), ("😀", 1772899)]
)
def test_tags_code_equals_java_string_hash(tag, code):
    assert tags_code(tag) == code


@pytest.mark.parametrize("expression", ["*", ""])
def test_everything_lets_the_store_skip_the_filter(expression):
    assert compiled(expression).accepts_all


def test_tags_are_decided_on_the_queue_entry_alone():
    assert not compiled("TagA").accepts_all
    assert not compiled("TagA").needs_message


def test_equal_hashes_both_pass_because_the_client_compares_the_text():
    assert tags_code("Aa") == tags_code("BB")
    assert compiled("Aa").match_entry(tags_code("BB"), None)


@pytest.mark.parametrize("high_bits", [0, 1 << 32, -(1 << 40)])
def test_only_the_low_32_bits_count(high_bits):
    code = tags_code("polygenelubricants")
    assert compiled("polygenelubricants").match_entry((code & 0xFFFFFFFF) + high_bits, None)
    assert compiled("polygenelubricants").match_entry(code, None)


def test_an_ext_unit_holds_the_real_code():
    address = -9223372036854775808
    assert compiled("TagA").match_entry(address, ExtUnit(tags_code("TagA"), 0, b""))
    assert not compiled("TagA").match_entry(tags_code("TagA"), ExtUnit(tags_code("TagB"), 0, b""))


def test_an_untyped_subscription_matches_nothing_but_the_star():
    assert compiled("*", type="").accepts_all
    assert not compiled("TagA", type="").match_entry(tags_code("TagA"), None)
    assert not compiled("||", type="").accepts_all


def test_class_filter_mode_takes_everything():
    assert compiled("||", class_filter=True).accepts_all
