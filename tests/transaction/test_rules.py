"""The action of a round on an undecided message, case by case."""

import pytest

from gantrymq_transaction.rules import CheckSettings, Verdict, judge_check

NOW = 1_000_000
SETTINGS = CheckSettings(timeout_ms=6_000, most_checks=15, keep_ms=500_000)
OWN_TIME = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "40"}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Verdict.ASK),
        ({"reachable": False}, Verdict.WAIT),
        ({"reachable": False, "crowded": True}, Verdict.CARRY),
        ({"crowded": True}, Verdict.ASK),
        ({"born_ms": NOW - 6_000}, Verdict.STOP),
        ({"born_ms": NOW - 6_001}, Verdict.ASK),
        ({"born_ms": NOW + 1}, Verdict.ASK),  # its producer's clock is ahead
        ({"checks": 14}, Verdict.ASK),
        ({"checks": 15}, Verdict.GIVE_UP),
        ({"checks": 15, "reachable": False}, Verdict.GIVE_UP),
        ({"born_ms": NOW - 500_001}, Verdict.GIVE_UP),
        ({"own": OWN_TIME, "born_ms": NOW - 40_000}, Verdict.WAIT),
        ({"own": OWN_TIME, "born_ms": NOW - 40_000, "crowded": True}, Verdict.CARRY),
        ({"own": OWN_TIME, "born_ms": NOW - 40_001}, Verdict.ASK),
        ({"own": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "x"}, "born_ms": NOW - 6_000}, Verdict.WAIT),
        ({"own": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "-1"}, "born_ms": NOW - 6_001}, Verdict.ASK),
        ({"own": {"CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}, "born_ms": NOW - 1_001}, Verdict.ASK),
    ],
)
def test_verdicts(change, verdict):
    facts = {
        "own": {},
        "born_ms": NOW - 10_000,
        "now_ms": NOW,
        "checks": 0,
        "reachable": True,
        "crowded": False,
        "settings": SETTINGS,
    }
    facts.update(change)
    assert judge_check(facts.pop("own"), **facts) is verdict
