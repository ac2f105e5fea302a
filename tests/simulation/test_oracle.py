"""The checks detect the faults they are for: each gets a good run with one fault added."""

from __future__ import annotations

import attrs
import pytest
from simulation_rig.consuming import Following, Seen
from simulation_rig.harness import run
from simulation_rig.kinds import RETRY, TOPICS, Kinds, Odd
from simulation_rig.oracle import judge_consumer, judge_log
from simulation_rig.plan import ConsumerPlan, KindsPlan, draw
from simulation_rig.producing import Sent

from gantrymq.broker import parts

SENT = [Sent(number, 0, "T", "red", b"%d" % number, oneway=False, tries=1, place=(0, number)) for number in range(3)]
LOG = {("T", 0, number): Seen(b"%d" % number, "red", number * 100) for number in range(3)}


@attrs.frozen
class Record:
    """The input of the check of the other kinds."""

    body: bytes = b"delayed"
    store_timestamp: int = 1000  # ms
    reconsume_times: int = 1


RECORD = Record()


def without(*offsets):
    return {place: seen for place, seen in LOG.items() if place[2] not in offsets}


def test_a_good_run_has_no_fault():
    assert list(judge_log(SENT, LOG)) == []


@pytest.mark.parametrize(
    ("sent", "log", "said"),
    [
        (SENT, without(2), "was acknowledged at"),
        (SENT, without(1), "holds the offsets [0, 2]"),
        (SENT, {**LOG, ("T", 0, 3): LOG["T", 0, 1]}, "is there 2 times after 1 attempts"),
        (SENT[:2], LOG, "holds what nobody sent so"),
        (SENT, {**LOG, ("T", 0, 1): Seen(b"1", "blue", 100)}, "holds what nobody sent so"),
        (SENT, {**LOG, ("T", 0, 1): Seen(b"other", "red", 100)}, "was acknowledged at"),
        ([SENT[0], attrs.evolve(SENT[2], number=1), attrs.evolve(SENT[1], number=2)], LOG, "behind it"),
    ],
)
def test_what_is_wrong_with_the_log_is_said(sent, log, said):
    assert any(said in problem for problem in judge_log(sent, log))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (without(1), "never saw [('T', 0, 1)]"),
        ({**LOG, ("T", 0, 3): Seen(b"3", "red", 300)}, "saw Seen(body=b'3'"),
        ({**LOG, ("T", 0, 0): Seen(b"0", "red", 50)}, "where the log has"),
    ],
)
def test_what_a_consumer_missed_or_made_up_is_said(seen, said):
    consumer = Following(0, ConsumerPlan("*", 0, 32, 0.0), ["T"], 1, lambda: None)
    consumer.seen = seen
    assert any(said in problem for problem in judge_consumer(consumer, frozenset(), LOG))


def test_a_broker_that_shows_messages_before_they_are_synced_is_caught(monkeypatch):
    seed = next(
        seed
        for seed in range(1, 50)
        if draw(seed).settings["flushDiskType"] == "SYNC_FLUSH" and draw(seed).store == "mmap" and draw(seed).consumers
    )
    assert run(seed).problems == []
    monkeypatch.setattr(parts, "gates_of", lambda settings, plugged, store: [])
    assert any(", synced " in problem for problem in run(seed).problems)


def test_what_is_wrong_with_other_kinds_is_said():
    kinds = Kinds(KindsPlan(1, 1.0), "10.0.0.1", 1)
    for kind, more in (("delayed", {"due_ms": 900}), ("transaction", {"commits": False}), ("failed", {"failures": 1})):
        kinds.sent[kind.encode()] = Odd(kind, kind.encode(), 0, tries=1, **more)

    def problems(topic, body, **fields):
        record = attrs.evolve(RECORD, body=body, **fields)
        kinds.seen = {each: [record] if each == topic else [] for each in kinds.seen}
        return list(kinds.judge())

    assert problems("KD", b"delayed") == []
    assert any("came at 899" in each for each in problems("KD", b"delayed", store_timestamp=899))
    assert any("nobody sent there" in each for each in problems("KD", b"failed"))
    assert any("was rolled back and is there" in each for each in problems("KT", b"transaction"))
    assert any("came for try 2" in each for each in problems(RETRY, b"failed", reconsume_times=2))
    kinds.seen["KD"] = [RECORD, RECORD]
    assert any("is there 2 times" in each for each in kinds.judge())


def test_the_workload_has_every_kind(monkeypatch):
    """Results are reported for a kind because its messages passed through the broker."""
    told = []
    monkeypatch.setattr(Kinds, "judge", lambda kinds: told.append(kinds) or iter(()))
    seed = next(seed for seed in range(1, 50) if (plan := draw(seed).kinds) is not None and plan.sends > 20)
    assert run(seed).problems == []
    (kinds,) = told
    assert {sent.kind for sent in kinds.sent.values()} == TOPICS.keys()
    assert {topic for topic, records in kinds.seen.items() if records} >= {"KD", "KT", "KF", RETRY}
