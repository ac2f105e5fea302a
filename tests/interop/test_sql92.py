"""SQL92 and tag subscriptions of the official Java client: our broker delivers the same messages as a Java broker.

Both brokers have the same messages. The pull consumer, and a push consumer in a separate group, use each expression; a
push consumer is done when its committed offsets are at the end of every queue.
`GANTRYMQ_INTEROP_CONTROL` uses the Java broker on both sides, to check that the tests are deterministic.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from conftest import JavaServers
from harness import Driver, GantryServer, Process, create_topic
from harness.peers import used
from harness.probe import committed
from harness.process import Event
from polling import wait_until

pytestmark = pytest.mark.interop

CONTROL = os.environ.get("GANTRYMQ_INTEROP_CONTROL")
QUEUES = 2
DONE_S = 90.0  # after its second heartbeat a consumer repeats requests that were refused at first
MESSAGES = [
    ("TagA", {"price": "5", "region": "hangzhou"}),
    ("TagB", {"price": "5.0", "region": "shenzhen"}),
    ("TagC", {"price": "-3", "region": "it's"}),
    ("TagA", {"price": "1e2"}),
    ("TagB", {"price": "cheap", "region": "hangzhou"}),
    ("", {"region": "\u676d\u5dde", "vip": "true"}),
    ("Aa", {"price": "10", "vip": "TRUE"}),
    ("BB", {"price": "9007199254740993", "vip": "no"}),
    ("TagC", {}),
    ("TagA", {"price": "NaN", "region": "hang"}),
]
EXPRESSIONS = {
    "every": ("tag", "*"),
    "tags": ("tag", "TagA || TagB"),
    "collision": ("tag", "Aa || TagC"),
    "compared": ("sql", "price > 4"),
    "between": ("sql", "price BETWEEN 5 AND 100.0"),
    "listed": ("sql", "region IN ('hangzhou', 'it''s') AND price IS NOT NULL"),
    "negated": ("sql", "NOT (price = 5) OR region IS NULL"),
    "truth": ("sql", "vip = TRUE OR region STARTSWITH 'hang' AND TAGS <> 'TagA'"),
    "unicode": ("sql", "region CONTAINS '\u5dde'"),
    "rest": ("sql", "price = 5 and so on"),
    "nothing": ("sql", "missing > 1"),
}
WRONG = {"cut": "price >", "reversed": "price BETWEEN 9 AND 1", "numbers": "price IN (1, 2)", "texts": "price > 'a'"}


class Side(NamedTuple):
    """One broker, its client, and the sent messages."""

    version: str
    broker: str
    client: Process
    topic: str
    ends: dict[int, int]


@pytest.fixture(scope="module")
def filtering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """Our servers, with property filters."""
    scratch = tmp_path_factory.mktemp("filtering")
    with GantryServer.both(scratch, settings={"enablePropertyFilter": "true"}) as server:
        yield server


@pytest.fixture(scope="module", params=[pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def sides(
    request: pytest.FixtureRequest,
    filtering: GantryServer,
    java_servers: Callable[[str], JavaServers],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Side, Side]]:
    """The Java broker's side and ours, with one client version."""
    java = java_servers("5.3.3")
    scratch = tmp_path_factory.mktemp("select")
    second = java if CONTROL else JavaServers(filtering.namesrv, filtering.broker_address)
    with ExitStack() as stack:
        yield (
            stack.enter_context(_side(request.param, scratch / "java", "Java", java)),
            stack.enter_context(_side(request.param, scratch / "ours", "Ours", second)),
        )


@contextmanager
def _side(version: str, scratch: Path, name: str, servers: JavaServers) -> Iterator[Side]:
    topic = f"{name}{version.replace('.', '_')}"
    create_topic(servers.namesrv, topic, queues=QUEUES)
    client = Driver(version, scratch, servers.namesrv).start("select", topic=topic)
    with client:
        for number, (tag, properties) in enumerate(MESSAGES):
            fields = [text for pair in properties.items() for text in pair]
            asked(client, "send", str(number % QUEUES), body_of(number), tag, *fields)
        ends = {queue: len(range(queue, len(MESSAGES), QUEUES)) for queue in range(QUEUES)}
        yield Side(version, servers.broker, client, topic, ends)


@pytest.fixture(autouse=True)
def peers(sides: tuple[Side, Side]) -> None:
    """Every test here sends requests to both brokers with one version of the client."""
    used(f"rocketmq-client {sides[0].version}")
    used("RocketMQ broker 5.3.3")
    used("gantrymq broker")


def body_of(number: int) -> str:
    return f"message-{number}"


def asked(client: Process, *words: str) -> Event:
    """The client's answer to one command."""
    kinds = ("sent", "pulled", "subscribed", "refused")

    def answers(process: Process) -> list[Event]:
        return [event for event in list(process.events) if event["event"] in kinds]

    before = len(answers(client))
    client.write_line("\t".join(words))
    return client.wait_for(lambda p: answers(p)[before:], f"an answer to {words}")[0]


def pushed(side: Side, name: str) -> list[str]:
    """Return all messages of the push consumer *name*, after it has committed the end of every queue."""
    group = group_of(side, name)

    def noted() -> dict[int, int | None]:
        return {queue: committed(side.broker, group, side.topic, queue) for queue in side.ends}

    wait_until(lambda: noted() == side.ends, f"{group} at {side.ends}", DONE_S, lambda: f"it is at {noted()}")
    return sorted(event["body"] for event in side.client.of("got") if event["group"] == group)


def group_of(side: Side, name: str) -> str:
    return f"{side.topic}-{name}"


def test_pull_consumers_get_what_a_java_broker_gives(sides: tuple[Side, Side]) -> None:
    for name, selector in EXPRESSIONS.items():
        java, ours = (asked(side.client, "pull", *selector) for side in sides)
        assert ours == java, f"{name}: {selector}"
        assert ours["event"] == "pulled", f"{name}: {ours}"
    assert asked(sides[1].client, "pull", "tag", "*")["bodies"] == sorted(map(body_of, range(len(MESSAGES))))


def test_push_consumers_get_what_a_java_broker_gives(sides: tuple[Side, Side]) -> None:
    for side in sides:
        for name, selector in EXPRESSIONS.items():
            assert asked(side.client, "push", group_of(side, name), *selector)["event"] == "subscribed", name
    for name, selector in EXPRESSIONS.items():
        java, ours = (pushed(side, name) for side in sides)
        assert ours == java, f"{name}: {selector}"


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_expression_is_refused_when_a_push_consumer_starts(sides: tuple[Side, Side], name: str) -> None:
    """The code is Java's, the sentence is ours."""
    java, ours = (asked(side.client, "push", group_of(side, name), "sql", WRONG[name]) for side in sides)
    assert (ours["event"], ours.get("code")) == (java["event"], java.get("code")) == ("refused", 23), (java, ours)
    assert CONTROL or _tells_place_and_expectation(ours), ours


def _tells_place_and_expectation(refused: Event) -> bool:
    return re.search(r"SQL92 expression.*character \d+: .+; ", str(refused["message"])) is not None


def test_a_pull_with_a_wrong_expression(
    sides: tuple[Side, Side], record_property: Callable[[str, object], None]
) -> None:
    """A Java broker logs the error and delivers every message, as without a filter."""
    everything = sorted(map(body_of, range(len(MESSAGES))))
    for expression in WRONG.values():
        java, ours = (asked(side.client, "pull", "sql", expression) for side in sides)
        assert java == {"event": "pulled", "bodies": everything}
        if not CONTROL:
            assert (ours["event"], ours.get("code")) == ("refused", 23), ours
            assert _tells_place_and_expectation(ours), ours
    record_property("result", "differs: ours is refused with code 23, where a Java broker gives every message")
