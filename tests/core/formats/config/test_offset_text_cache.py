"""Cached text of consumerOffset.json: equal to the formatted file, formatting only changed members."""

from __future__ import annotations

import random

import pytest

from gantrymq.formats.config import ConsumerOffsetsFile, OffsetTextCache, consumer_offsets, pretty
from gantrymq.model.data_version import DataVersion

VERSION = DataVersion(3, 0, 9)


def whole(offsets, kept=None, *, light=False):
    return pretty(ConsumerOffsetsFile(offsets, VERSION, kept or {}, light).to_json())


@pytest.mark.parametrize("light", [False, True])
def test_the_text_is_that_of_the_members_whatever_changed_before(light):
    kept = {"pullOffsetTable": {"T@G": {0: 30}}, "aNewMember": [1]}
    texts, offsets, dice = OffsetTextCache(kept, light=light), {}, random.Random(7)
    assert texts.text(VERSION) == whole(offsets, kept, light=light)
    names = ['T@"grün"', "T@G", "U@G", "U@G@broadcast", "odd", "%LMQ%q@%LMQ%g"]
    for _ in range(200):
        changed, gone = {}, [name for name in dice.sample(names, 2) if offsets.pop(name, None) is not None]
        for name in dice.sample(names, 2):
            last = 1 if "%LMQ%g" in name else dice.randrange(4)
            offsets[name] = changed[name] = {queue_id: dice.randrange(1 << 40) for queue_id in range(last)}
        texts.change(gone, changed)
        assert texts.text(VERSION) == whole(offsets, kept, light=light)


def test_a_group_of_light_queues_changes_tables_with_its_offsets():
    texts = OffsetTextCache(light=True)
    texts.change((), {"T@%LMQ%g": {0: 1}})
    assert texts.text(VERSION) == whole({"T@%LMQ%g": {0: 1}}, light=True)
    texts.change((), {"T@%LMQ%g": {0: 1, 1: 2}})
    assert texts.text(VERSION) == whole({"T@%LMQ%g": {0: 1, 1: 2}}, light=True)
    texts.change(("T@%LMQ%g",), {})
    assert texts.text(VERSION) == whole({}, light=True)


def test_the_topics_of_groups_are_made_again_only_for_members_that_come_or_go(monkeypatch):
    made = []
    make = consumer_offsets.topics_by_group
    monkeypatch.setattr(consumer_offsets, "topics_by_group", lambda keys: (made.append(list(keys)), make(keys))[1])
    texts = OffsetTextCache()
    for gone, changed in (
        ((), {"T@G": {0: 1}, "U@G": {0: 1}}),
        ((), {"T@G": {0: 2, 1: 3}}),
        (("Never@G",), {}),
        (("U@G",), {"T@G": {0: 4}}),
    ):
        texts.change(gone, changed)
        texts.text(VERSION)
    assert made == [["T@G", "U@G"], ["T@G"]]
