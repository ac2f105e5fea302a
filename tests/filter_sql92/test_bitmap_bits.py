"""The bits of a message: no message is lost, the work is bounded, and filters evaluate them correctly."""

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.formats.record import encode_record, read_record
from gantrymq.interfaces import ExtUnit
from gantrymq.model import properties as property_text
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92.bitmap import message_filter
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter, FilterData
from gantrymq_filter_sql92.bitmap.message_filter import BitMapCounters, BitMapFilter, EvaluationTime, TopicBits
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import Sql92Filter

BLOOM = BloomFilter.for_groups(32, 20)
NAMES = ("a", "b", "color")
EXPRESSIONS = (
    "a > 1",
    "a > 1 AND b IS NULL",
    "color = 'red'",
    "NOT (color = 'red')",
    "a = 'x' OR b < 3",
    "b = 2 OR a > 1",
)
MESSAGES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["1", "2", "3", "x", "red"]))


def data(group, expression, type_name="SQL92"):
    return FilterData("T", group, expression, type_name, 1, 1000, 0, BLOOM.bits_of(group, "T"))


def bits_of(filters, counts=None, monotonic=lambda: 0.0):
    def ready(each):
        return compiled(each.expression).matches if each.type == "SQL92" else None

    return TopicBits(filters, ready, EvaluationTime(monotonic), counts or BitMapCounters())


@given(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=40), st.lists(MESSAGES, max_size=8))
def test_bits_never_deny_what_the_expression_takes(expressions, messages):
    filters = [data(f"G{number}", expression) for number, expression in enumerate(expressions)]
    make, alone = bits_of(filters), {each.group: bits_of([each]) for each in filters}
    for message in messages:
        properties = property_text.encode(message)
        bits = make(properties)
        assert len(bits) == BLOOM.byte_count
        together = 0
        for each in filters:
            matches = compiled(each.expression).matches(properties)
            if matches:
                assert each.may_match(bits, 1001) is True
            assert alone[each.group](properties) == (each.mask if matches else 0).to_bytes(14, "little")
            together |= each.mask if matches else 0
        assert int.from_bytes(bits, "little") == together


def test_what_nobody_here_can_evaluate_may_match_always():
    other = data("G", "anything", "MINE")
    assert other.may_match(bits_of([other, data("H", "a > 1")])(b""), 1001) is True


def test_groups_of_one_expression_cost_one_evaluation():
    asked = []
    filters = [data(f"G{number}", "a > 1") for number in range(100)]

    def ready(each):
        return lambda properties: asked.append(properties) is None

    TopicBits(filters, ready, EvaluationTime(lambda: 0.0), BitMapCounters())(b"x")
    assert asked == [b"x"]


def test_more_expressions_than_there_is_time_for_get_no_bits(monkeypatch):
    monkeypatch.setattr(message_filter, "MOST_COST", 2 * (message_filter.EACH_COSTS + len("a > 0")))
    counts = BitMapCounters()
    three = [data(f"G{number}", f"a > {number}") for number in range(3)]
    assert bits_of(three, counts)(b"") == b""
    assert bits_of(three[:2], counts)(b"") == bytes(14)
    assert (counts.made, counts.withheld) == (1, 1)


def test_maps_take_half_of_the_time_and_no_more():
    """The clock advances by 1 ms in each evaluation, and by 0.1 ms for all other work on a message."""
    now = 0.0

    def ready(each):
        def matches(properties):
            nonlocal now
            now += 0.001
            return True

        return matches

    counts = BitMapCounters()
    make = TopicBits([data("G", "a > 1")], ready, EvaluationTime(lambda: now), counts)
    for _ in range(2000):
        make(b"")
        now += 0.0001
    share = message_filter.SHARE_S / message_filter.WINDOW_S
    assert share * 0.9 <= counts.made * 0.001 / now <= share * 1.1
    assert counts.made + counts.withheld == 2000


RECORD = {"topic": "T", "queue_id": 0, "body": b"", "store_timestamp": 2000}


def record_of(**properties):
    return read_record(encode_record(**RECORD, properties=property_text.encode(properties)))


def filter_for(expression, known, counts):
    inner = Sql92Filter().compile(Subscription("T", expression, "SQL92", 1, "G"))
    return BitMapFilter(inner, expression, lambda: known, counts)


@pytest.mark.parametrize(
    ("ext", "passes"),
    [
        (None, True),
        (ExtUnit(0, 2000, b""), True),
        (ExtUnit(0, 2000, bytes(13)), True),
        (ExtUnit(0, 1000, bytes(14)), True),
        (ExtUnit(0, 2000, bytes(14)), False),
        (ExtUnit(0, 2000, b"\xff" * 14), True),
    ],
    ids=["no unit", "no bits", "another size", "as old as the group", "denied", "let pass"],
)
def test_when_bits_decide(ext, passes):
    match = filter_for("a > 1", data("G", "a > 1"), BitMapCounters())
    assert match.match_entry(0, ext) is passes


@pytest.mark.parametrize("known", [None, data("G", "a > 2")], ids=["not registered", "registered for another"])
def test_bits_of_another_expression_say_nothing(known):
    counts = BitMapCounters()
    assert filter_for("a > 1", known, counts).match_entry(0, ExtUnit(0, 2000, bytes(14)))
    assert counts.checked == 0


def test_what_is_counted():
    counts = BitMapCounters()
    match = filter_for("a > 1", data("G", "a > 1"), counts)
    assert not match.match_message(record_of(a="1"))  # without bits before it: no false positive
    assert match.match_entry(0, ExtUnit(0, 2000, b"\xff" * 14))
    assert not match.match_message(record_of(a="1"))
    assert match.match_message(record_of(a="2"))
    assert not match.match_entry(0, ExtUnit(0, 2000, bytes(14)))
    assert (counts.checked, counts.skipped, counts.evaluated, counts.false_positives) == (2, 1, 3, 1)
