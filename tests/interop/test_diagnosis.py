"""Official clients that disagree within their group: each conflict is reported once, and a broker may refuse it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Driver, GantryServer, Process, create_topic
from harness.gantry_server import gantrymq
from polling import wait_until

pytestmark = pytest.mark.interop

FOUND_S = 30.0
TOPIC = "Disputed"
KINDS = ("subscriptions", "message-model", "consume-type")


class Broker:
    """Our servers, with topic TOPIC of two queues, and their output."""

    def __init__(self, server: GantryServer, scratch: Path) -> None:
        self.server = server
        self._scratch = scratch

    def explain(self, group: str) -> dict[str, Any]:
        """Return the result of ``gantrymq group explain``, empty while the group does not exist."""
        try:
            (found,) = gantrymq(self._scratch, "group", "explain", group, "-n", self.server.namesrv)["brokers"]
        except RuntimeError:
            return {}
        return dict(found)

    def conflicts(self, group: str) -> set[str]:
        return {each["kind"] for each in self.explain(group).get("conflicts", ())}

    def logged(self, group: str) -> list[str]:
        """The lines that the broker logged of conflicts in a group."""
        text = (self._scratch / "gantrymq-start.err").read_text()
        return [line for line in text.splitlines() if f"group {group}:" in line]

    def policy(self, value: str) -> None:
        gantrymq(self._scratch, "broker", "config", "set", f"consumerConflictPolicy={value}", "-n", self.server.namesrv)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    scratch = tmp_path_factory.mktemp("diagnosis")
    with GantryServer.both(scratch) as server:
        create_topic(server.namesrv, TOPIC, 2)
        yield Broker(server, scratch)


@pytest.fixture(params=[pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def driver(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Driver:
    return Driver(request.param, tmp_path, broker.server.namesrv)


def name(driver: Driver, what: str) -> str:
    return f"G{driver.version.replace('.', '')}-{what}"


def test_each_conflict_is_found_shown_and_logged_once(
    broker: Broker, driver: Driver, running: Callable[[Process], Process]
) -> None:
    running(driver.start("disagree", topic=TOPIC, prefix=name(driver, "pair")))
    for kind in KINDS:
        group = name(driver, f"pair-{kind}")
        wait_until(lambda group=group, kind=kind: kind in broker.conflicts(group), f"{kind} of {group}", FOUND_S)
    agreeing = name(driver, "pair-agree")
    wait_until(lambda: len(broker.explain(agreeing).get("members", ())) == 2, f"two members of {agreeing}", FOUND_S)
    assert broker.explain(agreeing)["conflicts"] == []
    assert broker.logged(agreeing) == []
    assert [len(broker.logged(name(driver, f"pair-{kind}"))) for kind in KINDS] == [1, 1, 1]


def test_one_client_id_on_two_connections(
    broker: Broker, driver: Driver, running: Callable[[Process], Process]
) -> None:
    group = name(driver, "twins")
    for _ in range(2):
        running(driver.push(TOPIC, group, instance="twin"))
    wait_until(lambda: broker.conflicts(group) == {"client-id"}, f"the twins of {group}", FOUND_S)
    assert len(broker.logged(group)) == 1


def test_a_broker_that_refuses_lets_the_first_one_alone_and_the_second_not_in(
    broker: Broker, driver: Driver, running: Callable[[Process], Process]
) -> None:
    group = name(driver, "refused")
    first = running(driver.push(TOPIC, group, sub="TagA"))
    wait_until(lambda: len(broker.explain(group).get("members", ())) == 1, f"a member of {group}", FOUND_S)
    broker.policy("refuse")
    try:
        second = running(driver.push(TOPIC, group, sub="TagB"))
        wait_until(lambda: broker.logged(group), f"a refusal in {group}", FOUND_S)
        assert broker.logged(group)[0].endswith("it was not let in")
        driver.produce(TOPIC, 4, tags="TagA")
        first.wait_for(lambda p: len(p.of("received")) >= 4, "messages of the first one", FOUND_S)
        assert len(broker.explain(group)["members"]) == 1
        assert second.of("received") == []
        assert len(broker.logged(group)) == 1
    finally:
        broker.policy("warn")


def test_why_nothing_arrives(broker: Broker, driver: Driver, running: Callable[[Process], Process]) -> None:
    group = name(driver, "why")
    consumer = running(driver.push(TOPIC, group, sub="Nobody"))
    driver.produce(TOPIC, 4, tags="TagA")

    def reasons() -> set[str]:
        return {each["reason"] for each in broker.explain(group).get("queues", ())}

    wait_until(lambda: reasons() == {"nothing-matches"}, f"hits of the filter of {group}", FOUND_S)
    consumer.stop()
    wait_until(lambda: reasons() == {"nobody-online"}, f"the end of {group}", FOUND_S)
