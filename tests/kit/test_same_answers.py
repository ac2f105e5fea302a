"""Client and broker give the same answers: tags, SQL92, and a type of a plugin."""

import pytest

pytest.importorskip("gantrymq_filter_sql92")
pytest.importorskip("gantrymq_filter_tag")
pytest.importorskip("gantrymq_storage_memory")

from gantrymq.client import Subscription
from gantrymq.client.reading import subscription

EXPRESSIONS = [
    ("*", "TAG"),
    ("A || C", "TAG"),
    ("price > 10", "SQL92"),
    ("price <> 10 OR colour IS NULL", "SQL92"),
    ("colour IN ('red', 'blue') AND TAGS = 'A'", "SQL92"),
    ("TAG:: B", "SQL92"),
    ("CONTAINS:: 1", "SQL92"),
    ("2", "CONTAINS"),
]


@pytest.mark.parametrize(("expression", "kind"), EXPRESSIONS)
def test_what_a_consumer_gets_is_what_matches(served, monkeypatch, expression, kind):
    for number in range(24):
        colour = ({}, {"colour": "red"}, {"colour": "blue"}, {"colour": "it's"})[number % 4]
        price = ({}, {"price": str(number)}, {"price": "many"})[number % 3]
        served.running.send("T", b"%d" % number, tags="ABC"[number % 3], properties={**colour, **price})
    monkeypatch.setattr(subscription, "_types", lambda: served.running.cluster.plugins.filters)
    wanted = Subscription("T", expression, kind)
    every = served.running.pull("T")
    assert len(every) == 24
    assert sorted(each.body.decode() for each in every if wanted.matches(each)) == served.pull(expression, kind)
