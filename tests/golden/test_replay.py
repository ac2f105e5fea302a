"""Requests of clients to Java brokers (4.9.7, 5.3.3, 5.5.0), sent to our broker: our answers against Java's.

replay_run.py describes the replay, replay_compare.py the comparison. Every remaining difference is in the tables of
replay_differences.py; a difference that is not there fails, and so does a line that no difference matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from golden_stores import Scenario
from replay_compare import Difference, differences
from replay_differences import ALL, NOT_BUILT, PUSHED, Named
from replay_recording import recordings
from replay_run import SETTINGS_LEFT_OUT, Outcome, broker_parts, replay

from gantrymq.errors import ConfigError
from gantrymq.formats.record import iter_records
from gantrymq.remoting.codes import RequestCode

RECORDED = recordings()
STORES = {"cleaned": "cleaned/cleaned", "crash": "crash/killed", "ha": "ha/master"}  # with the settings of a scenario


ASKED = 3305  # requests, 313 of them oneway
EQUAL = 2646  # answered without any difference, to the last field


@pytest.fixture(scope="module")
def outcomes(golden: Callable[[str], Scenario]) -> dict[str, Outcome]:
    return {
        name: replay(recording, golden(STORES.get(name, name)).conf, "mmap") for name, recording in RECORDED.items()
    }


@pytest.fixture(scope="module")
def found(outcomes: dict[str, Outcome]) -> dict[str, list[Difference]]:
    return {
        name: [each for exchange in outcome.exchanges for each in differences(name, exchange)]
        for name, outcome in outcomes.items()
    }


def named(difference: Difference) -> Named | None:
    return next((line for line in ALL if line.covers(difference)), None)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_our_answers_are_java_s_or_the_difference_is_named(found: dict[str, list[Difference]], name: str) -> None:
    assert [str(each) for each in found[name] if named(each) is None] == []


def test_each_named_difference_is_met_as_often_as_it_says(found: dict[str, list[Difference]]) -> None:
    met = Counter(named(each) for every in found.values() for each in every)
    assert [(met[line], line) for line in ALL if met[line] != line.count] == []


ALIKE = ["batch", "binary", "broadcast", "cleaned", "crash", "delay", "lmq", "orderly", "v550"]


@pytest.mark.parametrize("name", ALIKE)
def test_these_runs_are_answered_as_java_did(found: dict[str, list[Difference]], name: str) -> None:
    """Includes offset ids: our log has every record at the same place as Java's."""
    assert found[name] == []


def test_every_recorded_request_is_asked(outcomes: dict[str, Outcome]) -> None:
    asked = sum(len(outcome.exchanges) for outcome in outcomes.values())
    recorded = sum(
        frame.from_client and not frame.command.is_response
        for recording in RECORDED.values()
        for frame in recording.frames
    )
    assert asked == recorded == ASKED


def test_most_requests_are_answered_without_any_difference(
    outcomes: dict[str, Outcome],
) -> None:
    equal = 0
    for name, outcome in outcomes.items():
        for exchange in outcome.exchanges:
            if not exchange.asked.command.is_oneway:
                equal += not any(differences(name, exchange))
    assert equal == EQUAL


def test_what_needs_parts_that_are_not_built_is_refused_with_a_sentence(found: dict[str, list[Difference]]) -> None:
    refused = [each for every in found.values() for each in every if named(each) in NOT_BUILT]
    assert len(refused) == sum(line.count for line in NOT_BUILT)
    assert all(each.ours.partition(" ")[2] for each in refused)


def test_clients_are_told_what_java_told_them(outcomes: dict[str, Outcome]) -> None:
    java = {(name, *key): n for name, outcome in outcomes.items() for key, n in outcome.java_pushed.items()}
    ours = {(name, *key): n for name, outcome in outcomes.items() for key, n in outcome.our_pushed.items()}
    different = {
        key: (java.get(key, 0), ours.get(key, 0))
        for key in sorted({*java, *ours})
        if java.get(key, 0) != ours.get(key, 0)
    }
    assert different == {key: (theirs, own) for key, (theirs, own, _) in PUSHED.items()}


@pytest.mark.parametrize("name", ["batch", "binary", "broadcast", "delay", "normal", "orderly", "timer", "v550"])
def test_messages_are_stored_when_java_stored_them(outcomes: dict[str, Outcome], name: str) -> None:
    """On the recorded clock; a Java process that is still warming up takes a while."""
    late_ms = [
        theirs.store_timestamp - own.store_timestamp
        for exchange in outcomes[name].exchanges
        if exchange.asked.command.code == RequestCode.PULL_MESSAGE and exchange.java and exchange.ours
        for theirs, own in zip(iter_records(exchange.java.payload), iter_records(exchange.ours.payload), strict=True)
    ]
    assert late_ms
    assert 0 <= min(late_ms) <= max(late_ms) < 200


def test_a_memory_store_answers_alike(golden: Callable[[str], Scenario]) -> None:
    """Without offset ids, if a file of the log was full."""
    outcome = replay(RECORDED["v550"], golden("v550").conf, "memory")
    paths = {each.path.rpartition(".")[2] for exchange in outcome.exchanges for each in differences("v550", exchange)}
    assert paths <= {"msgId", "log_offset"}


@pytest.mark.parametrize("key", sorted(SETTINGS_LEFT_OUT))
def test_settings_left_out_of_the_replay_are_refused_at_start(key: str) -> None:
    settings, _ = broker_parts({"bindAddress": "127.0.0.1"}, "mmap")
    with pytest.raises(ConfigError, match="not implemented"):
        settings.set(key, "true", "broker.conf")
