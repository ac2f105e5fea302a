"""Every way to send x every way to consume x filters, orders and retries: our client at each server, Java's beside it.

A row of "is consumed" holds where the messages of that send came to consumers of that way: all of them, those with a
tag, and those of an SQL92 expression, each once and none other.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from harness import GantryServer, JavaBroker, JavaNameServer, peers
from scenarios import FILTERS, JAVA, NUMBERS, RETRYING, SENDS, WAYS, Outcome, scenarios, wanted

pytestmark = pytest.mark.interop

OURS = "ours"
SERVERS = [OURS, "5.3.3", *(pytest.param(version, marks=pytest.mark.long) for version in ("4.9.7", "5.5.0"))]
TIMER = {"timerWheelEnable": "true"}  # without it a Java broker pops nothing
NO_POP = "serves no pop: RocketMQ does from 5.0 on"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Outcome]]:
    """What came of the run at a server, which is started for the first test that asks."""
    found: dict[str, Outcome] = {}

    def outcome(name: str) -> Outcome:
        if name not in found:
            scratch = tmp_path_factory.mktemp("scenarios")
            with ExitStack() as stack:
                if name == OURS:
                    namesrv = stack.enter_context(GantryServer.both(scratch)).namesrv
                else:
                    java = stack.enter_context(JavaNameServer(name, scratch / "namesrv"))
                    version_settings = TIMER if name.startswith("5") else {}
                    broker = stack.enter_context(
                        JavaBroker(name, scratch / "broker", java.address, settings=version_settings)
                    )
                    stack.callback(broker.kill)
                    namesrv = java.address
                found[name] = asyncio.run(scenarios(namesrv, "Scenarios", scratch))
        peers.used("GantryMQ's broker" if name == OURS else f"RocketMQ broker {name}")
        return found[name]

    return outcome


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("send", SENDS)
@pytest.mark.parametrize("server", SERVERS)
def test_is_consumed(
    outcomes: Callable[[str], Outcome],
    server: str,
    send: str,
    way: str,
    record_property: Callable[[str, object], None],
) -> None:
    outcome = outcomes(server)
    if server == "4.9.7" and way == "pop":
        assert NO_POP in str(outcome.problems[way])
        record_property("result", f"refused: it {NO_POP}")
        return
    assert way not in outcome.problems
    for filtered in FILTERS:
        came = Counter(body for body in outcome.bodies(way, filtered) if body.startswith(f"{send}-"))
        assert came == Counter(wanted(send, filtered)), f"{way} with {filtered}"
        assert "rolled back" not in outcome.bodies(way, filtered)


@pytest.mark.parametrize("way", RETRYING)
@pytest.mark.parametrize("server", SERVERS)
def test_comes_again_where_it_was_refused_once(
    outcomes: Callable[[str], Outcome],
    server: str,
    way: str,
    record_property: Callable[[str, object], None],
) -> None:
    outcome = outcomes(server)
    if server == "4.9.7" and way == "pop":
        assert NO_POP in str(outcome.problems[way])
        record_property("result", f"refused: it {NO_POP}")
        return
    every = set().union(*(wanted(send, "all") for send in SENDS))
    assert {body for each, body in outcome.refused if each == way} == every
    assert Counter(outcome.bodies(way, "again")) == Counter(every)
    assert {message.reconsume_times for message in outcome.got[way, "again"]} == {1}


@pytest.mark.parametrize("way", ["orderly", "lite pull", "reader"])
@pytest.mark.parametrize("server", SERVERS)
def test_keeps_the_order_of_what_was_sent_in_order(outcomes: Callable[[str], Outcome], server: str, way: str) -> None:
    outcome = outcomes(server)
    filters = [*FILTERS, *(["again"] if way in RETRYING else [])]
    for filtered in filters:
        came = [body for body in outcome.bodies(way, filtered) if body.startswith("in order-")]
        assert came == sorted(came), filtered
    assert {body for body in outcome.bodies(way, "all") if body.startswith("in order-")} == {
        f"in order-{number}" for number in NUMBERS
    }


@pytest.mark.parametrize("server", SERVERS)
def test_java_consumes_all_that_ours_sent(outcomes: Callable[[str], Outcome], server: str) -> None:
    outcome = outcomes(server)
    peers.used("rocketmq-client 5.3.3")
    assert Counter(outcome.java) == Counter(set().union(*(wanted(send, "all") for send in SENDS)))


@pytest.mark.parametrize("server", SERVERS)
def test_ours_consume_all_that_java_sent(outcomes: Callable[[str], Outcome], server: str) -> None:
    outcome = outcomes(server)
    peers.used("rocketmq-client 5.3.3")
    for way in WAYS:
        if way not in outcome.problems:
            assert {body for body in outcome.bodies(way, "all") if body.startswith(JAVA)} == wanted(JAVA, "all"), way
