"""Our strategies against the answers of RocketMQ's own classes; `java/README.md` describes how these were made."""

import json
import lzma
from collections import Counter
from pathlib import Path

import pytest

from gantrymq.model.queue import MessageQueue
from gantrymq_allocate.catalog import PLAIN, SHARING, nearby

TABLE = Path(__file__).parent / "java_answers.jsonl.xz"
CASES = [json.loads(line) for line in lzma.decompress(TABLE.read_bytes()).splitlines()]
STRATEGIES = sorted({case["strategy"] for case in CASES})


def build(strategy, settings):
    name, _, inner = strategy.partition("-")
    return nearby(settings, inner) if inner else (PLAIN | SHARING)[name](settings)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_answers_as_java_does(strategy):
    for case in CASES:
        if case["strategy"] != strategy:
            continue
        queues = [MessageQueue(case["topic"], broker, i) for broker, count in case["queues"] for i in range(count)]
        members = case["members"]
        ours = build(strategy, case["settings"])
        assert ours.name == strategy
        answers = [[queues.index(q) for q in ours.allocate("group", member, queues, members)] for member in members]
        assert answers == case["answers"], case


def test_the_table_has_every_strategy_that_java_has():
    counted = Counter(case["strategy"].partition("-")[0] for case in CASES)
    names = {"AVG", "AVG_BY_CIRCLE", "CONFIG", "CONSISTENT_HASH", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY"}
    assert counted == dict.fromkeys(names, 120)
    assert {name.partition("-")[2] for name in STRATEGIES if "-" in name} == set(SHARING) - {"STICKY"}


def test_the_table_has_the_odd_cases():
    assert any(len(set(case["members"])) < len(case["members"]) for case in CASES)
    assert any(case["settings"].get("virtual_nodes") == "0" for case in CASES)
    assert any(not answer for case in CASES if case["strategy"] == "AVG" for answer in case["answers"])
    assert any(not broker.isascii() for case in CASES for broker, _ in case["queues"])
