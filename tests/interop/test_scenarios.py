"""Every kind of send with every kind of consumer, filter, order and retry: our client on each server, with Java's
client.

A row "is consumed" passes if the messages of that send reached the consumers of that kind: all of them, those with a
tag, and those of an SQL92 expression, each once and no other.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from harness import GantryServer, JavaBroker, JavaNameServer, peers
from scenarios import FILTERS, JAVA, NUMBERS, RETRYING, SENDS, WAYS, Outcome, scenarios, wanted

import gantrymq

pytestmark = pytest.mark.interop

OURS = gantrymq.__version__  # a version as well, so that all servers share a row of the page
SERVERS = [OURS, "5.3.3", *(pytest.param(version, marks=pytest.mark.long) for version in ("4.9.7", "5.5.0"))]
TIMER = {"timerWheelEnable": "true"}  # without it a Java broker pops nothing
NO_POP = "does not support pop: RocketMQ does from 5.0 on"


class Ran(NamedTuple):
    """Return the outcome of the run on the servers of a version."""

    version: str
    outcome: Outcome


@pytest.fixture(scope="module", params=SERVERS)
def at(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the scenarios at the first use; the servers stop afterwards."""
    version: str = request.param
    scratch = tmp_path_factory.mktemp("scenarios")
    with ExitStack() as stack:
        if version == OURS:
            namesrv = stack.enter_context(GantryServer.both(scratch)).namesrv
        else:
            java = stack.enter_context(JavaNameServer(version, scratch / "namesrv"))
            settings = TIMER if version.startswith("5") else {}
            stack.enter_context(JavaBroker(version, scratch / "broker", java.address, settings=settings, keep=False))
            namesrv = java.address
        return Ran(version, asyncio.run(scenarios(namesrv, "Scenarios", scratch)))


@pytest.fixture
def outcome(at: Ran) -> Outcome:
    """The run's, with its broker as a peer of the test."""
    peers.used("GantryMQ's broker" if at.version == OURS else f"RocketMQ broker {at.version}")
    return at.outcome


def no_pop(at: Ran, way: str) -> bool:
    """Return whether the server refused consumers of this kind as not supported."""
    if at.version != "4.9.7" or way != "pop":
        return False
    assert NO_POP in str(at.outcome.problems[way])
    return True


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", SENDS)
def test_is_consumed(
    at: Ran, outcome: Outcome, send: str, way: str, record_property: Callable[[str, object], None]
) -> None:
    if no_pop(at, way):
        record_property("result", f"refused: it {NO_POP}")
        return
    assert way not in outcome.problems
    for filtered in FILTERS:
        came = Counter(body for body in outcome.bodies(way, filtered) if body.startswith(f"{send}-"))
        assert came == Counter(wanted(send, filtered)), f"{way} with {filtered}"
        assert "rolled back" not in outcome.bodies(way, filtered)


@pytest.mark.parametrize("way", RETRYING)
def test_comes_again_where_it_was_refused_once(
    at: Ran, outcome: Outcome, way: str, record_property: Callable[[str, object], None]
) -> None:
    if no_pop(at, way):
        record_property("result", f"refused: it {NO_POP}")
        return
    every = set().union(*(wanted(send, "all") for send in SENDS))
    assert {body for each, body in outcome.refused if each == way} == every
    assert Counter(outcome.bodies(way, "again")) == Counter(every)
    assert {message.reconsume_times for message in outcome.got[way, "again"]} == {1}


@pytest.mark.parametrize("way", ["orderly", "lite pull", "reader"])
def test_keeps_the_order_of_what_was_sent_in_order(outcome: Outcome, way: str) -> None:
    filters = [*FILTERS, *(["again"] if way in RETRYING else [])]
    for filtered in filters:
        came = [body for body in outcome.bodies(way, filtered) if body.startswith("in order-")]
        assert came == sorted(came), filtered
    assert {body for body in outcome.bodies(way, "all") if body.startswith("in order-")} == {
        f"in order-{number}" for number in NUMBERS
    }


def test_java_consumes_all_that_ours_sent(outcome: Outcome) -> None:
    peers.used("rocketmq-client 5.3.3")
    assert Counter(outcome.java) == Counter(set().union(*(wanted(send, "all") for send in SENDS)))


def test_ours_consume_all_that_java_sent(outcome: Outcome) -> None:
    peers.used("rocketmq-client 5.3.3")
    for way in WAYS:
        if way not in outcome.problems:
            assert {body for body in outcome.bodies(way, "all") if body.startswith(JAVA)} == wanted(JAVA, "all"), way
