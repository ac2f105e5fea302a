"""Official clients use the filters of docs/plugins/README.md, installed with pip for this broker only."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from harness import Driver, GantryServer, create_topic
from harness.gantry_server import gantrymq
from harness.peers import used
from harness.probe import request
from harness.process import Event, Process

from gantrymq.loose_json import dumps
from gantrymq.model.group import GroupConfig

pytestmark = pytest.mark.interop

TEMPLATE = Path(__file__).resolve().parents[1] / "template"
NAMES = ("json_body", "regex")
INSTALL_S = 120.0
DEADLINE_S = 30.0
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
GERMAN = '{"customer": {"country": "DE"}, "n": 1}'
GERMAN_TOO = '{"customer": {"country": "DE"}, "n": 2}'
FRENCH = '{"customer": {"country": "FR"}, "n": 3}'
MESSAGES = (  # body, tag, properties
    (GERMAN, "TagA", "colour", "blue"),
    (GERMAN_TOO, "TagA", "colour", "red"),
    (FRENCH, "TagB", "colour", "black"),
    ("no JSON", "TagB"),
    ("long", "TagC", "colour", "x" * 60 + "y"),
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the page's filters and their dependencies, as pip installs them."""
    if str(TEMPLATE) not in sys.path:
        sys.path.insert(0, str(TEMPLATE))
    own_plugins = import_module("own_plugins")
    folder = tmp_path_factory.mktemp("own")
    projects = []
    for name in NAMES:
        kind, files = own_plugins.shown()[name]
        project = folder / f"gantrymq-{name}"
        gantrymq(folder, "plugin", "new", kind, name, "--into", str(project))
        own_plugins.complete(project, files)
        projects.append(str(project))
    command = [*_pip(), "install", "--quiet", "--no-deps", "--target", str(folder / "site"), *projects, "regex>=2023.6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    if done.returncode != 0:
        pytest.skip(f"pip cannot install the projects and regex: {done.stderr[-300:]}")
    return folder / "site"


def _pip() -> list[str]:
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        return [sys.executable, "-m", "pip"]
    program = shutil.which("pip")
    if program is None:
        pytest.skip("pip is not installed")
    return [program]


@pytest.fixture(scope="module")
def server(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GantryServer]:
    """A broker that finds the filters by their entry points."""
    scratch = tmp_path_factory.mktemp("server")
    words = ("--store", str(scratch / "store"), "--namesrv-port", "0", "--broker-port", "0")
    environ = {"PYTHONPATH": str(installed)}
    with GantryServer("start", scratch, *words, environ=environ) as running:
        used("gantrymq broker")
        yield running


class Client(NamedTuple):
    """A process of the official client, commanded line by line."""

    process: Process
    broker: str

    def pull(self, expression: str, kind: str = "sql") -> Event:
        """Return the bodies that the pull consumer got, or the reason why it was refused."""
        before = len(self.process.of("pulled") + self.process.of("refused"))
        self.process.write_line(f"pull\t{kind}\t{expression}")
        said = lambda p: (p.of("pulled") + p.of("refused"))[before:] and p.events[-1]  # noqa: E731 (it is short)
        return self.process.wait_for(said, expression)

    def push(self, group: str, expression: str, kind: str, count: int) -> list[str]:
        """Return the first *count* bodies that a push consumer gets."""
        self.process.write_line(f"push\t{group}\t{kind}\t{expression}")

        def got(process: Process) -> list[str]:
            bodies = [str(event["body"]) for event in process.of("got") if event["group"] == group]
            return bodies if len(bodies) >= count else []

        return sorted(self.process.wait_for(got, f"{count} messages for {group}", DEADLINE_S))


@pytest.fixture(scope="module", params=[pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def client(
    request: pytest.FixtureRequest, server: GantryServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A client of one version, and a topic with messages."""
    topic = f"Own{request.param.replace('.', '')}"
    create_topic(server.namesrv, topic, 1)
    scratch = tmp_path_factory.mktemp("client")
    with Driver(request.param, scratch, server.namesrv).start("select", topic=topic) as process:
        for words in MESSAGES:
            process.write_line("\t".join(("send", "0", *words)))
        process.wait_for(lambda p: len(p.of("sent")) == len(MESSAGES), "the messages")
        yield Client(process, server.broker_address)
        process.close_input()


def test_a_body_that_is_json_is_looked_into(client: Client) -> None:
    assert client.pull('JSON_BODY:: customer.country = "DE"')["bodies"] == sorted([GERMAN, GERMAN_TOO])
    assert client.pull("JSON_BODY:: n = 3")["bodies"] == [FRENCH]
    refused = client.pull("JSON_BODY:: n = three")
    assert (refused["code"], "'three' is not a JSON value" in str(refused["message"])) == (23, True)


def test_a_push_consumer_subscribes_to_it(client: Client) -> None:
    group = f"json-{id(client)}"
    assert client.push(group, 'JSON_BODY:: customer.country = "DE"', "sql", 2) == sorted([GERMAN, GERMAN_TOO])


def test_patterns_choose_by_a_property_and_one_that_runs_away_is_suspended_alone(client: Client) -> None:
    assert client.pull("REGEX:: colour ^bl(ue|ack)$")["bodies"] == sorted([GERMAN, FRENCH])
    for _ in range(2):
        refused = client.pull("REGEX:: colour ^(x|xx)+$")
        assert refused["code"] == 23
        assert "filter REGEX of group select-puller on topic" in str(refused["message"])
        assert "is suspended: it raised TimeoutError" in str(refused["message"])
    assert client.pull("REGEX:: colour ^x")["bodies"] == ["long"]
    assert len(client.pull("*", "tag")["bodies"]) == len(MESSAGES)


def test_the_attribute_of_a_group_filters_for_clients_that_know_nothing_of_it(client: Client) -> None:
    group = f"attribute-{id(client)}"
    config = GroupConfig(group, attributes={"+filter": "REGEX:: colour ^b"})
    header, _ = request(client.broker, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, dumps(config.to_json()))
    assert header["code"] == 0
    assert client.push(group, "TagA", "tag", 1) == [GERMAN]
    assert client.push(f"{group}-other", "TagA", "tag", 2) == sorted([GERMAN, GERMAN_TOO])
    assert [event["body"] for event in client.process.of("got") if event["group"] == group] == [GERMAN]


def test_an_unknown_filter_type_is_refused_when_the_consumer_starts(client: Client) -> None:
    before = len(client.process.of("refused"))
    client.process.write_line("push\tmissing\tsql\tMISSING:: x")
    refused = client.process.wait_for(lambda p: p.of("refused")[before:], "the refusal")
    assert "filter message by MISSING" in str(refused[0]["message"])
