"""Contract tests for filter types.

A plugin's test derives from `FilterContract`, names its filter, and gives expressions with their meaning:

    class TestMyFilter(FilterContract):
        make_filter = MyFilter
        verdicts = [("a = 1", {"a": "1"}, True), ("a = 1", {"a": "2"}, False)]
        refused = ["a = "]

The contract calls a filter as a store does: first `match_entry` with the content of the queue entry; then, if the
filter needs messages, `match_message` with the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.formats.record import RecordView, encode_record, read_record
from gantrymq.interfaces import FilterType, MessageFilter
from gantrymq.model import properties
from gantrymq.model.java import string_hash
from gantrymq.model.subscription import ALL, Subscription

Verdict = tuple[str, Mapping[str, str], bool]


class FilterContract:
    """Derive, set `make_filter`, and replace the examples by your own."""

    make_filter: Callable[[], FilterType]
    verdicts: Sequence[Verdict] = ((ALL, {}, True), (ALL, {properties.TAGS: "TagA"}, True))
    """Expression, message properties, and whether the broker delivers the message to the consumer."""
    refused: Sequence[str] = ()
    """Expressions that do not compile."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """One test for each example of the derived class."""
        if "verdict" in metafunc.fixturenames:
            metafunc.parametrize("verdict", list(self.verdicts), ids=[_verdict_id(v) for v in self.verdicts])
        if "bad_expression" in metafunc.fixturenames:
            metafunc.parametrize("bad_expression", list(self.refused), ids=repr)

    @pytest.fixture
    def filter_type(self) -> FilterType:
        """A fresh filter type."""
        return type(self).make_filter()

    def test_has_the_name_that_clients_use(self, filter_type: FilterType) -> None:
        assert filter_type.name
        assert filter_type.name == filter_type.name.strip()
        assert type(self).make_filter().name == filter_type.name

    def test_compiled_filter_says_what_the_store_must_ask(self, filter_type: FilterType) -> None:
        for expression, _, _ in self.verdicts:
            compiled = filter_type.compile(_subscription(filter_type, expression))
            assert isinstance(compiled.accepts_all, bool)
            assert isinstance(compiled.needs_message, bool)
            assert not (compiled.accepts_all and compiled.needs_message)

    def test_decides_as_the_example_says(self, filter_type: FilterType, verdict: Verdict) -> None:
        expression, found, expected = verdict
        compiled = filter_type.compile(_subscription(filter_type, expression))
        assert handed_out(compiled, _record(found)) is expected

    def test_properties_decide_where_it_says_so(self, filter_type: FilterType, verdict: Verdict) -> None:
        """The cheaper methods of a `gantrymq.interfaces.PropertiesFilter` must give the same result."""
        expression, found, expected = verdict
        compiled = filter_type.compile(_subscription(filter_type, expression))
        if not hasattr(compiled, "match_properties"):
            return
        text = properties.encode(found)
        assert compiled.match_properties(text) is compiled.match_message(_record(found))
        if hasattr(compiled, "match_slice"):
            texts = [properties.encode(each) for _, each, _ in self.verdicts]
            alone = [index for index, each in enumerate(texts) if compiled.match_properties(each)]
            assert list(compiled.match_slice(texts)) == alone
            assert list(compiled.match_slice([])) == []
        needles = getattr(compiled, "needles", ())
        assert not expected or not needles or any(needle in text for needle in needles)

    def test_takes_everything_where_it_says_so(self, filter_type: FilterType, verdict: Verdict) -> None:
        expression, _, _ = verdict
        compiled = filter_type.compile(_subscription(filter_type, expression))
        if compiled.accepts_all:
            assert all(compiled.match_entry(code, None) for code in (0, 1, -1, 2**31 - 1, -(2**31), 2**62))
            assert compiled.match_message(_record({}))

    def test_asking_again_gives_the_same_answer(self, filter_type: FilterType) -> None:
        asked = [
            (filter_type.compile(_subscription(filter_type, expression)), _record(found), expected)
            for expression, found, expected in self.verdicts
        ]
        for compiled, record, expected in asked + asked[::-1]:
            assert handed_out(compiled, record) is expected

    def test_group_topic_and_version_do_not_change_the_meaning(self, filter_type: FilterType) -> None:
        for expression, found, expected in self.verdicts:
            other = Subscription("OtherTopic", expression, filter_type.name, version=1_700_000_000_000, group="other")
            assert handed_out(filter_type.compile(other), _record(found)) is expected

    def test_refuses_a_bad_expression_with_a_reason(self, filter_type: FilterType, bad_expression: str) -> None:
        with pytest.raises(SubscriptionParseFailed) as caught:
            filter_type.compile(_subscription(filter_type, bad_expression))
        assert caught.value.response_code == 23
        assert len(str(caught.value)) > 10

    def test_a_refusal_leaves_the_filter_type_usable(self, filter_type: FilterType) -> None:
        for bad in self.refused:
            with pytest.raises(SubscriptionParseFailed):
                filter_type.compile(_subscription(filter_type, bad))
        expression, found, expected = self.verdicts[0]
        assert handed_out(filter_type.compile(_subscription(filter_type, expression)), _record(found)) is expected


def handed_out(compiled: MessageFilter, record: RecordView) -> bool:
    """Return whether a broker sends *record* to a consumer with this filter; both stages, as a store calls them."""
    if compiled.accepts_all:
        return True
    if not compiled.match_entry(string_hash(record.properties.get(properties.TAGS, "")), None):
        return False
    return not compiled.needs_message or compiled.match_message(record)


def _subscription(filter_type: FilterType, expression: str) -> Subscription:
    return Subscription("ContractTopic", expression, filter_type.name, group="contract")


def _record(found: Mapping[str, str]) -> RecordView:
    return read_record(
        encode_record(topic="ContractTopic", queue_id=0, body=b"body", properties=properties.encode(found))
    )


def _verdict_id(verdict: Any) -> str:
    expression, found, expected = verdict
    return f"{expression!r}-{dict(found)}-{'in' if expected else 'out'}"
