"""Allocation strategies of installed plugins."""

import pytest

from gantrymq.client.group.settings import allocation_strategy
from gantrymq.errors import PluginError
from gantrymq.plugins import Plugins


class First:
    name = "FIRST"

    def __init__(self, settings):
        self.settings = settings


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    found = Plugins(allocations={"FIRST": First}, problems=("plugin bad does not import",))
    monkeypatch.setattr("gantrymq.client.group.settings.load_plugins", lambda **options: found)


def test_a_strategy_gets_its_settings_and_broken_plugins_are_told():
    told = []
    found = allocation_strategy("FIRST", {"key": "value"}, told.append)
    assert (found.name, found.settings) == ("FIRST", {"key": "value"})
    assert told == ["plugin bad does not import"]


def test_a_strategy_that_nobody_offers_is_a_sentence():
    with pytest.raises(PluginError, match=r"offers the allocation strategy LAST \(there is FIRST\)"):
        allocation_strategy("LAST", {}, lambda sentence: None)
