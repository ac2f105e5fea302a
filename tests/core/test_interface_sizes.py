"""Interfaces are small: a plugin implements, or names in a hint, only what it needs."""

import inspect
from typing import Protocol

import pytest

from gantrymq import interfaces, world

MOST = 12
WHOLE = {"Broker", "ClientChannel", "Files", "Messages", "RawLog"}  # made of the narrow ones


def protocols():
    for module in (interfaces, world):
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isclass(member) and getattr(member, "_is_protocol", False):
                yield name, member


def members(protocol):
    kinds = [each for each in protocol.__mro__ if each not in (object, Protocol)]
    return {name for kind in kinds for name in (*vars(kind), *kind.__annotations__) if not name.startswith("_")}


@pytest.mark.parametrize(("name", "protocol"), list(protocols()))
def test_an_interface_has_at_most_twelve_members(name, protocol):
    if name in WHOLE:
        parts = [set(members(each)) for each in protocol.__bases__ if getattr(each, "_is_protocol", False)]
        assert len(members(protocol) - set().union(*parts)) <= 2
        assert len(members(protocol)) > MOST, "it is narrow enough by itself"
    else:
        assert len(members(protocol)) <= MOST
