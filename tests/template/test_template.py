"""The plugin template of docs/plugins/template, installed with pip from wheels and at work in a running broker."""

import json
import signal
import sys

import pytest

pytestmark = [
    pytest.mark.kit,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]

TOPIC = "Paint"


def counts(tmp_path):
    path = tmp_path / "store" / "plugins" / "topic_counts" / "counts.json"
    return json.loads(path.read_text())["counts"]


def test_only_what_was_asked_for_is_installed(kit):
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions() if 'gantrymq' in d.name))"
    words = [
        "gantrymq",
        "gantrymq-admin",
        "gantrymq-example",
        "gantrymq-filter-tag",
        "gantrymq-kit",
        "gantrymq-nameserver",
        "gantrymq-storage-mmap",
        "gantrymq-store-files",
        "gantrymq-testing",
    ]
    assert kit.run("python", "-c", code).split() == words


def test_its_own_tests_pass(kit):
    said = kit.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=kit.trees["docs/plugins/template"])
    assert " passed" in said
    assert " skipped" not in said


def test_gantrymq_plugins_lists_what_it_registers(kit):
    plugins = json.loads(kit.run("gantrymq", "plugins", "--output", "json"))["plugins"]
    (example,) = [plugin for plugin in plugins if plugin["name"] == "example"]
    assert (example["distribution"], example["state"]) == ("gantrymq-example", "loaded")
    assert sorted(example["registers"]) == ["allocation rendezvous", "dispatcher topic_counts", "filter PREFIX"]


def test_a_running_broker_filters_with_its_type(kit, serve):
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, "blue", "red", "black", "green", "blank")
    assert kit.client(server.namesrv, "pull", TOPIC, "colour=bl", "PREFIX") == ["black", "blank", "blue"]
    assert len(kit.client(server.namesrv, "pull", TOPIC, "*", "PREFIX")) == 5
    assert kit.client(server.namesrv, "pull", TOPIC, "colour=x", "PREFIX") == []
    assert server.end() == 0


def test_group_plan_shows_how_its_strategy_moves_queues(kit, serve):
    server = serve()
    kit.client(server.namesrv, "send", TOPIC, "red")
    words = ["-t", TOPIC, "-n", server.namesrv, "--strategy", "rendezvous", "--members", "c1,c2,c3"]
    plan = json.loads(kit.run("gantrymq", "group", "plan", *words, "--remove-member", "c3", "--output", "json"))
    assert (plan["strategy"], plan["unread"], plan["shared"]) == ("rendezvous", [], [])
    members = {each["member"]: each for each in plan["members"]}
    assert plan["queues"] == sum(len(each["before"]) for each in members.values()) > 0
    moved = [{"broker": move["broker"], "queue": move["queue"]} for move in plan["moves"]]
    assert moved == members["c3"]["before"]  # only queues of the member that leaves
    salted = kit.run("gantrymq", "group", "plan", *words, "--strategy-setting", "salt=x", "--output", "json")
    assert json.loads(salted)["settings"] == {"salt": "x"}


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
