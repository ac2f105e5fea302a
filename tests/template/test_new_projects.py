"""Projects of `gantrymq plugin new` at work in a broker, in a fresh environment with wheels of ours."""

import json
import signal
import sys

import pytest

pytestmark = [
    pytest.mark.kit,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

TOPIC = "Paint"
PLUGINS = {"prefix": "filter", "topic_counts": "dispatcher"}  # name to kind


@pytest.fixture(scope="module")
def kit(kit, tmp_path_factory):
    """The environment with two projects as they are created."""
    folder = tmp_path_factory.mktemp("projects")
    projects = [kit.new_project(kind, name, folder) for name, kind in PLUGINS.items()]
    for project in projects:
        kit.install(project)
    yield kit
    for project in projects:
        assert not kit.pip("uninstall", "-y", project.name)


def counts(tmp_path):
    path = tmp_path / "store" / "plugins" / "topic_counts" / "counts.json"
    return json.loads(path.read_text())["counts"]


def test_only_what_was_asked_for_is_installed(kit):
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions() if 'gantrymq' in d.name))"
    words = [
        "gantrymq",
        "gantrymq-admin",
        "gantrymq-filter-tag",
        "gantrymq-kit",
        "gantrymq-nameserver",
        "gantrymq-prefix",
        "gantrymq-storage-mmap",
        "gantrymq-store-files",
        "gantrymq-testing",
        "gantrymq-topic-counts",
    ]
    assert kit.run("python", "-c", code).split() == words


def test_gantrymq_plugins_lists_what_they_register(kit):
    plugins = {each["name"]: each for each in json.loads(kit.run("gantrymq", "plugins", "--output", "json"))["plugins"]}
    assert (plugins["prefix"]["distribution"], plugins["prefix"]["state"]) == ("gantrymq-prefix", "loaded")
    assert plugins["prefix"]["registers"] == ["filter PREFIX"]
    assert plugins["topic_counts"]["registers"] == ["dispatcher topic_counts"]


def test_a_running_broker_filters_with_its_type(kit, serve):
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, "blue", "red", "black", "green", "blank")
    assert kit.client(server.namesrv, "pull", TOPIC, "colour=bl", "PREFIX") == ["black", "blank", "blue"]
    assert len(kit.client(server.namesrv, "pull", TOPIC, "*", "TAG")) == 5
    assert kit.client(server.namesrv, "pull", TOPIC, "colour=x", "PREFIX") == []
    assert server.end() == 0


def test_the_counts_are_right_over_a_restart_and_a_kill(kit, serve, tmp_path):
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, *["red"] * 30)
    kit.client(server.namesrv, "send", "Other", *["red"] * 4)
    assert server.end() == 0
    assert counts(tmp_path) == {"Other": 4, TOPIC: 30}
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, *["blue"] * 20)
    server.end(signal.SIGKILL)
    assert 30 <= counts(tmp_path)[TOPIC] <= 50  # as of some position; the log has the rest
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, "green")
    assert server.end() == 0
    assert counts(tmp_path) == {"Other": 4, TOPIC: 51}
    assert serve().end() == 0  # a start that finds nothing new counts nothing
    assert counts(tmp_path) == {"Other": 4, TOPIC: 51}
