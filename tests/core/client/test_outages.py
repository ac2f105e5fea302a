"""Rate limit of the log lines about server failures."""

import pytest

from gantrymq.client.calls.outages import Outages
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, NoRoute


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said():
    return []


@pytest.fixture
def outages(clock, said):
    return Outages(clock, said.append)


def at(kind, address, text="refused"):
    problem = kind(f"{address}: {text}")
    problem.address = address
    return problem


def test_a_server_that_is_away_is_one_warning_whoever_notices(outages, said, clock):
    for doing, kind in (("pulling T", ConnectionLost), ("HEART_BEAT", ConnectFailed), ("storing offsets", CallTimeout)):
        outages.failed(doing, at(kind, "a:1"))
    assert said == ["pulling T: a:1: refused (repeated at most once a minute)"]
    clock.now += 59.9
    outages.failed("pulling T", at(ConnectFailed, "a:1"))
    assert len(said) == 1
    clock.now += 0.2
    outages.failed("pulling T", at(ConnectFailed, "a:1"))
    outages.failed("HEART_BEAT", at(ConnectFailed, "a:1"))
    assert len(said) == 2


def test_two_servers_are_two_warnings(outages, said):
    for _ in range(3):
        outages.failed("pulling T", at(ConnectFailed, "a:1"))
        outages.failed("pulling T", at(ConnectFailed, "b:1"))
    assert len(said) == 2


def test_a_server_that_comes_back_and_goes_again_is_logged_again(outages, said, clock, caplog):
    caplog.set_level("INFO")
    outages.failed("pulling T", at(ConnectionLost, "a:1"))
    clock.now += 12
    outages.answered("a:1")
    outages.answered("a:1")
    assert caplog.messages == ["a:1 answers again, after 12.0 s"]
    outages.failed("pulling T", at(ConnectionLost, "a:1"))
    assert len(said) == 2


def test_timeouts_of_a_server_that_answers_others_are_one_a_minute(outages, said, clock):
    for _ in range(60):
        outages.failed("storing offsets", at(CallTimeout, "a:1"))
        outages.answered("a:1")
        clock.now += 5
    assert len(said) == 5


def test_refusals_are_told_apart_by_work_and_code(outages, said):
    for _ in range(3):
        outages.failed("pulling T", BrokerRefused(16, "no", "a:1"))
        outages.failed("pulling U", BrokerRefused(16, "no", "a:1"))
        outages.failed("pulling T", BrokerRefused(1, "no", "a:1"))
    assert len(said) == 3
    outages.answered("a:1")
    outages.failed("pulling T", BrokerRefused(16, "no", "a:1"))
    assert len(said) == 3


def test_a_route_that_is_gone_belongs_to_the_outage(outages, said, clock):
    outages.failed("pulling T", at(ConnectFailed, "a:1"))
    outages.failed("pulling T", NoRoute("no name server knows topic T"))
    outages.failed("pulling U", NoRoute("no name server knows topic U"))
    assert len(said) == 1
    outages.answered("a:1")
    outages.failed("pulling T", NoRoute("no name server knows topic T"))
    outages.failed("pulling U", NoRoute("no name server knows topic U"))
    assert len(said) == 3


@pytest.mark.parametrize("pause_s", [0, 1])
def test_what_is_remembered_is_bounded(outages, clock, pause_s):
    for number in range(5000):
        outages.failed(f"pulling T{number}", BrokerRefused(1, "no", "a:1"))
        clock.now += pause_s
    assert len(outages._last_logged) <= 1000
