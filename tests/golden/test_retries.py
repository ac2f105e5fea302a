"""The recorded retries, asked of a broker of ours that keeps delays; what Java stored for them, made again by ours."""

from __future__ import annotations

import pytest

pytest.importorskip("gantrymq_schedule")

import replay_run
from replay_compare import differences
from replay_recording import recordings

from gantrymq.broker.sending.sending_back import copy_of, own_properties
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.model.property_order import ordered_text
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import load_plugins


def with_schedule(conf, store):
    plugins = load_plugins(f"filter_tag,schedule,storage_{store}", reserved=SCHEMA)
    settings = Settings([*SCHEMA, *plugins.schema])
    for key, value in conf.items():
        if key in settings.schema.keys() - replay_run.SETTINGS_LEFT_OUT - replay_run.SETTINGS_OF_OURS:
            settings.set(key, value, "broker.conf")
    settings.set("storePathRootDir", "/store", "the replay")
    settings.set("store", store, "the replay")
    return settings, plugins


SIDE_BY_SIDE = {  # of two that came back at once Java stored the second first
    ("%DLQ%CG_retry", "records.0.log_offset"),
    ("SCHEDULE_TOPIC_XXXX", "records.5.log_offset"),
    ("SCHEDULE_TOPIC_XXXX", "records.0.log_offset"),
}


@pytest.mark.parametrize(("name", "but_for"), [("retry", SIDE_BY_SIDE), ("orderly", set())])
def test_every_request_of_the_recording_is_answered_as_java_did(golden, monkeypatch, name, but_for):
    """Sent back with levels and without, dead letters by both ways, and what was pulled of them."""
    monkeypatch.setattr(replay_run, "broker_parts", with_schedule)
    outcome = replay_run.replay(recordings()[name], golden(name).conf, "mmap")
    found = [each for exchange in outcome.exchanges for each in differences(name, exchange)]
    assert {(each.about, each.path) for each in found} == but_for
    assert len(found) == len(but_for)
    assert outcome.java_pushed == outcome.our_pushed


def test_what_comes_back_is_made_as_java_made_it(golden):
    """Byte for byte, from the record that was sent back: property text, flags, hosts, times."""
    records = golden("retry").log_records()
    first = {record.properties["UNIQ_KEY"]: record for record in records if record.topic == "GoldenRetry"}
    made = 0
    for theirs in records:
        before = first.get(theirs.properties["UNIQ_KEY"])
        if theirs.topic == "GoldenRetry" or before is None or theirs.reconsume_times != 1:
            continue
        if theirs.topic.startswith("%RETRY%"):
            continue  # the schedule topic's, delivered
        dead = theirs.topic.startswith("%DLQ%")
        topic = TopicConfig("%DLQ%CG_retry" if dead else "%RETRY%CG_retry", 1, 1)
        own = own_properties(before, 0 if dead else int(theirs.properties["DELAY"]))
        ours = copy_of(before, topic, 0, own, before.store_host)
        if not dead:
            own.update(REAL_TOPIC=topic.name, REAL_QID="0")
            ours.properties = ordered_text(own)
        assert ours.properties == bytes(theirs.properties_bytes)
        for name in ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times"):
            assert getattr(ours, name) == getattr(theirs, name)
        made += 1
    assert made == 10
