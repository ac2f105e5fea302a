"""``gantrymq group plan`` with queues and members from the command line."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.errors import ConfigError
from gantrymq.plugins import Plugins

OFFLINE = ("--queues", "a:3,b:1", "--members", "c1,c2")


class InTurns:
    name = "IN_TURNS"

    def __init__(self, settings):
        if settings.keys() - {"skip"}:
            raise ConfigError("allocation strategy IN_TURNS knows no setting but skip")
        self.skip = int(settings.get("skip", 0))

    def allocate(self, group, client_id, queues, client_ids):
        return list(queues[self.skip + client_ids.index(client_id) :: len(client_ids)])


class Everything(InTurns):
    name = "ALL"

    def allocate(self, group, client_id, queues, client_ids):
        return list(queues)


@pytest.fixture(autouse=True)
def strategies(monkeypatch):
    found = Plugins(allocations={"AVG": InTurns, "ALL": Everything}, problems=("plugin bad does not import",))
    monkeypatch.setattr("gantrymq.client.group.allocation.load_plugins", lambda **options: found)


def plan(*words):
    return CliRunner().invoke(main, ["group", "plan", "-t", "T", *words])


def document(*words):
    result = plan(*words, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def at(*places):
    return [{"broker": broker, "queue": queue} for broker, queue in places]


def test_the_shares_of_a_group():
    assert document(*OFFLINE) == {
        "topic": "T",
        "group": None,
        "strategy": "IN_TURNS",
        "settings": {},
        "queues": 4,
        "members": [
            {"member": "c1", "change": None, "before": at(("a", 0), ("a", 2)), "after": at(("a", 0), ("a", 2))},
            {"member": "c2", "change": None, "before": at(("a", 1), ("b", 0)), "after": at(("a", 1), ("b", 0))},
        ],
        "moves": [],
        "unread": [],
        "shared": [],
    }


def test_what_moves_when_one_joins_and_one_leaves():
    found = document(*OFFLINE, "--add-member", "c3", "--remove-member", "c1")
    assert [(m["member"], m["change"]) for m in found["members"]] == [("c1", "removed"), ("c2", None), ("c3", "added")]
    assert found["members"][0]["after"] == found["members"][2]["before"] == []
    assert found["moves"] == [
        {"broker": "a", "queue": 0, "from": ["c1"], "to": ["c2"]},
        {"broker": "a", "queue": 1, "from": ["c2"], "to": ["c3"]},
        {"broker": "a", "queue": 2, "from": ["c1"], "to": ["c2"]},
        {"broker": "b", "queue": 0, "from": ["c2"], "to": ["c3"]},
    ]


def test_lists_may_be_repeated_and_names_are_cleaned():
    words = ("--queues", "a:3", "--queues", " b:1", "--members", "c2", "--members", "c1 ,, c2")
    assert document(*words) == document(*OFFLINE)


def test_people_see_tables_and_a_sentence():
    now = plan(*OFFLINE)
    assert "a 0 2" in now.stdout
    assert "move" not in now.output
    then = plan(*OFFLINE, "--add-member", "c3")
    assert "added" in then.stdout
    assert "3 of 4 queues move" not in then.stdout
    assert "2 of 4 queues move" in then.stderr


def test_settings_reach_the_strategy_and_gaps_are_said():
    result = plan(*OFFLINE, "--strategy-setting", "skip=1")
    assert result.exit_code == 0
    assert "warning: no member reads a 0" in result.stderr
    assert document(*OFFLINE, "--strategy-setting", "skip=1")["unread"] == at(("a", 0))


def test_queues_that_several_read_are_said():
    result = plan(*OFFLINE, "--strategy", "ALL")
    assert "warning: more than one member reads a 0-2, b 0" in result.stderr
    assert document(*OFFLINE, "--strategy", "ALL")["shared"] == at(("a", 0), ("a", 1), ("a", 2), ("b", 0))


def test_a_broken_plugin_is_a_warning():
    assert "warning: plugin bad does not import" in plan(*OFFLINE).stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--strategy", "X"),
            "no installed plugin offers the allocation strategy X (there is AVG, ALL); RocketMQ's are",
        ),
        (("--strategy-setting", "rooms=a"), "allocation strategy IN_TURNS knows no setting but skip"),
        (("--add-member", "c1"), "c1 cannot join, it is a member already; members: c1, c2"),
        (("--remove-member", "c9"), "c9 cannot leave, it is not a member; members: c1, c2"),
    ],
)
def test_exit_code_1_with_a_sentence(words, sentence):
    result = plan(*OFFLINE, *words)
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_everyone_may_leave():
    result = plan(*OFFLINE, "--remove-member", "c1,c2")
    assert result.exit_code == 0
    assert "no member reads a 0-2, b 0" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--queues", "a:3"),
        ("--queues", "a", "--members", "c1"),
        ("--queues", "a:0", "--members", "c1"),
        ("--queues", "a:1,a:2", "--members", "c1"),
        ("--queues", ":1", "--members", "c1"),
        ("--queues", "a:99999", "--members", "c1"),
        (*OFFLINE, "--strategy-setting", "skip"),
        (*OFFLINE, "--strategy-setting", "skip=1", "--strategy-setting", "skip=2"),
    ],
)
def test_wrong_usage_is_exit_code_2(words):
    result = plan(*words)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_no_strategy_plugin_says_what_to_install(monkeypatch):
    monkeypatch.setattr("gantrymq.client.group.allocation.load_plugins", lambda **options: Plugins())
    result = plan(*OFFLINE)
    assert result.exit_code == 1
    assert (
        "strategy AVG (there is none); RocketMQ's are installed with: pip install ./plugins/allocate" in result.stderr
    )
