"""``gantrymq group plan`` with the installed strategies."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main

pytest.importorskip("gantrymq_admin")


def plan(*words, code=0):
    result = CliRunner().invoke(main, ["group", "plan", "-t", "TopicTest", "--output", "json", *words])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else result.stderr


def shares(found):
    return {
        member["member"]: " ".join(f"{queue['broker']}{queue['queue']}" for queue in member["after"])
        for member in found["members"]
    }


IDS = "192.168.0.1@1001#11,192.168.0.2@1002#22,192.168.0.3@1003#33"


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("AVG", ["broker-a0 broker-a1 broker-a2", "broker-a3 broker-b0 broker-b1", "broker-b2 broker-b3"]),
        ("CONSISTENT_HASH", ["broker-b2", "broker-b0 broker-b1", "broker-a0 broker-a1 broker-a2 broker-a3 broker-b3"]),
    ],
)
def test_plans_as_consumers_will_share(strategy, expected):
    found = plan("--queues", "broker-a:4,broker-b:4", "--members", IDS, "--strategy", strategy)
    assert list(shares(found).values()) == expected


def test_consistent_hash_moves_only_the_queues_of_a_member_that_leaves():
    leaving = IDS.split(",")[2]
    words = ("--queues", "broker-a:8", "--members", IDS, "--remove-member", leaving)
    moves = plan(*words, "--strategy", "CONSISTENT_HASH")["moves"]
    assert len(moves) == 5
    assert {reader for move in moves for reader in move["from"]} == {leaving}
    assert len(plan(*words, "--strategy", "STICKY")["moves"]) <= len(plan(*words, "--strategy", "AVG")["moves"])


def test_the_past_as_a_setting_keeps_queues():
    past = json.dumps({"c1": "TopicTest/a/0-5", "c2": "TopicTest/a/6-7"})
    words = ("--queues", "a:8", "--members", "c1,c2", "--strategy", "STICKY", "--strategy-setting", f"previous={past}")
    found = shares(plan(*words))
    assert [len(text.split()) for text in found.values()] == [4, 4]
    assert {"a6", "a7"} <= set(found["c2"].split())


def test_rooms_without_members_are_read_by_all():
    words = ("--queues", "hz-a:4,sh-b:2,bj-c:2", "--members", "hz-c1,hz-c2,sh-c3", "--strategy", "MACHINE_ROOM_NEARBY")
    assert shares(plan(*words)) == {
        "hz-c1": "hz-a0 hz-a1 bj-c0",
        "hz-c2": "hz-a2 hz-a3 bj-c1",
        "sh-c3": "sh-b0 sh-b1",
    }


def test_wrong_settings_and_names_are_sentences():
    words = ("--queues", "a:1", "--members", "c1", "--strategy")
    assert "rooms= should be the rooms" in plan(*words, "MACHINE_ROOM", code=1)
    assert "the client id c1 names no room" in plan("--queues", "r-a:1", *words[2:], "MACHINE_ROOM_NEARBY", code=1)
