"""The filter type SQL92 as a broker uses it."""

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq.formats.record import encode_record, read_record
from gantrymq.interfaces import ExtUnit
from gantrymq.model.subscription import Subscription
from gantrymq_filter_sql92 import plugin
from gantrymq_filter_sql92.filter import Sql92Filter
from gantrymq_testing import FilterContract


class TestSql92FilterContract(FilterContract):
    make_filter = Sql92Filter
    verdicts = (
        ("price > 10", {"price": "11"}, True),
        ("price > 10", {"price": "9"}, False),
        ("price > 10", {"price": "many"}, False),
        ("price > 10", {}, False),
        ("price > 10 OR TAGS = 'A'", {"TAGS": "A"}, True),
        ("region IN ('n', 'Grüße')", {"region": "Grüße"}, True),
        ("region IS NULL", {}, True),
        ("NOT region = 1", {"region": "n"}, False),
        ("region LIKE 'n%'", {"region": "n"}, False),
        ("TRUE", {}, True),
        ("NULL", {}, False),
    )
    refused = (
        "",
        "*",
        "price >",
        "price > 'x'",
        "price BETWEEN 2 AND 1",
        "price ! 1",
        "NOT " * 200 + "a",
        "a" * 20_000,
    )


def compiled(expression, class_filter=False):
    return Sql92Filter().compile(Subscription("T", expression, "SQL92", class_filter=class_filter))


def test_it_needs_the_message_and_leaves_the_entry_alone():
    found = compiled("a = 1")
    assert found.needs_message
    assert not found.accepts_all
    assert found.match_entry(0, None)
    assert found.match_entry(5, ExtUnit(5, 0, b"\0" * 14))


def test_only_the_properties_are_read():
    record = read_record(encode_record(topic="T", queue_id=0, body=b"a\x015\x02", properties=b"a\x016\x02"))
    assert compiled("a = 6").match_message(record)
    assert not compiled("a = 5").match_message(record)
    assert record._properties is None


def test_a_message_that_fails_does_not_affect_others_of_its_slice():
    texts = [b"a\x016\x02", b"a\x01six\x02", b"", b"a\x017\x02", b"b\x016\x02a\x0106"]
    assert compiled("a = 6").match_slice(texts) == [0, 4]
    assert compiled("a = 6 OR b = 6").match_slice(texts) == [0, 4]
    assert compiled("b = 6 OR a > 6").match_slice(texts) == [3, 4]
    assert compiled("a > 5 AND a < 7").match_slice(texts) == [0, 4]
    assert compiled("TRUE").match_slice(texts) == [0, 1, 2, 3, 4]
    assert compiled("TRUE").match_slice([]) == []


def test_class_filter_mode_takes_everything_that_compiles():
    assert compiled("a = 1", class_filter=True).accepts_all
    with pytest.raises(SubscriptionParseFailed):
        compiled("a =", class_filter=True)


class Registry:
    def __init__(self):
        self.added = {}

    def add(self, name, factory):
        self.added[name] = factory


def test_offers_the_type_under_the_name_that_clients_send():
    registry = Registry()
    plugin.gantry_register_filters(registry)
    assert {name: factory().name for name, factory in registry.added.items()} == {"SQL92": "SQL92"}
