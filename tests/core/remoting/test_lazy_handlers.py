"""Handlers whose module is imported when the first request arrives."""

import pytest

from gantrymq.model.access import Action
from gantrymq.remoting.command import request
from gantrymq.remoting.serving import access_rule, handlers_of, lazy_handlers, serves

LOADS = []


class Family:
    @serves(10, action=Action.PUB, topic="topic")
    def send(self, asked, connection):
        return asked, connection

    @serves(11, 12, action=Action.GET)
    def read(self, asked, connection):
        raise LookupError(asked.code)


def load():
    LOADS.append(1)
    return handlers_of(Family())


@pytest.fixture
def handlers():
    LOADS.clear()
    return lazy_handlers((10, 11, 12), load)


def test_nothing_is_loaded_to_register_them(handlers):
    assert sorted(handlers) == [10, 11, 12]
    assert all(access_rule(each) is not None for each in handlers.values())
    assert not LOADS


def test_the_first_request_loads_the_object_once(handlers):
    asked = request(10)
    assert handlers[10](asked, None) == (asked, None)
    with pytest.raises(LookupError):
        handlers[11](request(11), None)
    assert LOADS == [1]


def test_the_sender_must_be_allowed_what_the_loaded_handler_states(handlers):
    asked = request(10, {"topic": "Orders"})
    stated = access_rule(handlers_of(Family())[10])
    assert access_rule(handlers[10])(asked) == stated(asked) != access_rule(handlers[11])(asked)
    assert LOADS == [1]
