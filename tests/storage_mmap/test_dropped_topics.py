"""The table of deleted topics, compared with a dict."""

import json
import random
from pathlib import Path

import pytest

from gantrymq_storage_mmap.queues import dropped_topics
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_testing.simulated import SimulatedFiles

ROOT = Path("/store")
TOPICS = ["T", "T2", '"T', "T: 7,", "Thema-ä", "\ud800", "%RETRY%G_T", *(f"Topic-{n}" for n in range(40))]


@pytest.fixture
def files():
    files = SimulatedFiles(lambda: 0)
    files.make_dirs(ROOT)
    return files


@pytest.mark.parametrize("hashes", ["as they are", "alike"])
@pytest.mark.parametrize("seed", range(3))
def test_it_says_what_a_dict_says_through_restarts_and_cuts(files, monkeypatch, seed, hashes):
    if hashes == "alike":
        monkeypatch.setattr(dropped_topics, "hash", len, raising=False)
    monkeypatch.setattr(dropped_topics, "_LEAST_BLANK", 200)
    seeded = random.Random(seed)
    noted, wanted, log_end, log_min = DroppedTopics(files, ROOT), {}, 1, 0
    for _ in range(600):
        log_end += seeded.choice((0, 1, 1000))
        if seeded.random() < 0.1:
            log_min = seeded.randint(log_min, log_end - 1)
        topic = seeded.choice(TOPICS)
        noted.note(topic, log_end, log_min)
        wanted = {each: at for each, at in wanted.items() if at > log_min} | {topic: log_end}
        assert {each: noted.before(each) for each in TOPICS} == {each: wanted.get(each, 0) for each in TOPICS}
        assert noted.holds(topic, log_end - 1)
        assert not noted.holds(topic, log_end)
        assert json.loads(noted.text()) == wanted
        assert len(noted.text()) < 4000
        if seeded.random() < 0.1:
            noted.save(noted.text())
            noted = DroppedTopics(files, ROOT)
            noted.load(log_min)
            if seeded.random() < 0.5:
                log_end = seeded.randint(log_min + 1, log_end)
                noted.cut(log_end)
                wanted = {each: min(at, log_end) for each, at in wanted.items()}


def test_many_are_forgotten_some_at_a_time(files, monkeypatch):
    monkeypatch.setattr(dropped_topics, "_FORGOTTEN_AT_ONCE", 10)
    noted = DroppedTopics(files, ROOT)
    for n in range(25):
        noted.note(f"T{n}", n + 1, 0)
    left = []
    for _ in range(4):
        noted.note("new", 1000, 500)
        left.append(len(json.loads(noted.text())))
    assert left == [16, 6, 1, 1]
