"""All three parts in a running broker, which finds them by the entry point."""

import json
from pathlib import Path

import pytest

from gantrymq.errors import BrokerRefused
from gantrymq_example.counts import counts_file

pytestmark = pytest.mark.gantrymq(settings={"store": "mmap"})


def counts(broker):
    return json.loads(counts_file(Path(broker.settings.text("storePathRootDir"))).read_text())["counts"]


def test_a_pull_with_the_filter_type_returns_only_what_matches(gantrymq_broker):
    for colour in ("blue", "red", "black", "green"):
        gantrymq_broker.send("Paint", colour.encode(), properties={"colour": colour})
    gantrymq_broker.send("Paint", b"none")
    found = gantrymq_broker.pull("Paint", "colour=bl", "PREFIX")
    assert sorted(message.body for message in found) == [b"black", b"blue"]
    assert len(gantrymq_broker.pull("Paint", "*", "PREFIX")) == 5


def test_a_bad_expression_is_refused_with_the_reason(gantrymq_broker):
    gantrymq_broker.send("Paint", b"x")
    with pytest.raises(BrokerRefused, match="is not a prefix expression"):
        gantrymq_broker.pull("Paint", "colour", "PREFIX")


def test_the_counts_go_on_after_a_restart(gantrymq_broker):
    for number in range(5):
        gantrymq_broker.send("Paint" if number else "Other", b"x")
    gantrymq_broker.restart()
    assert counts(gantrymq_broker) == {"Other": 1, "Paint": 4}
    gantrymq_broker.send("Paint", b"x")
    gantrymq_broker.restart()
    assert counts(gantrymq_broker) == {"Other": 1, "Paint": 5}


def test_the_strategy_is_registered(gantrymq_broker):
    plugins = gantrymq_broker.cluster.plugins
    assert plugins.allocations["rendezvous"]({}).name == "rendezvous"
