"""Registrations of the distribution gantrymq-allocate."""

import pytest

from gantrymq.plugins import load_plugins
from gantrymq_allocate import plugin

NAMES = {
    "AVG_BY_CIRCLE",
    "CONFIG",
    "CONSISTENT_HASH",
    "MACHINE_ROOM",
    "MACHINE_ROOM_NEARBY",
    "MACHINE_ROOM_NEARBY-AVG",
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE",
    "MACHINE_ROOM_NEARBY-CONSISTENT_HASH",
    "MACHINE_ROOM_NEARBY-STICKY",
    "STICKY",
}
NEEDED = {"MACHINE_ROOM": {"rooms": "room1"}}


def loaded():
    return load_plugins(extra=[("allocate", plugin)], installed=False).allocations


def test_offers_every_strategy_by_name():
    assert set(loaded()) == NAMES | {"AVG"}  # core's


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_strategy_has_the_name_that_it_is_offered_under(name):
    strategy = loaded()[name](NEEDED.get(name, {}))
    assert strategy.name == ("MACHINE_ROOM_NEARBY-AVG" if name == "MACHINE_ROOM_NEARBY" else name)


def test_each_call_makes_a_strategy_of_its_own():
    factory = loaded()["STICKY"]
    assert factory({}) is not factory({})
