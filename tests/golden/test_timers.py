"""Timed messages of a Java broker: ours writes the same records, and its timer wheel continues from Java's."""

import gzip
import shutil

import attrs
import pytest

pytest.importorskip("gantrymq_schedule")

from mmap_stores import TAKEN_OVER

from gantrymq.interfaces import StoreMessage
from gantrymq.model.names import TIMER_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_schedule.timer.messages import due_message, requested_ms, timed_message_of, timer_queue_message
from gantrymq_schedule.timer.recall import RecallHandle, answer_fields, decode_handle
from gantrymq_schedule.timer.wheel_clock import accepted_ms
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

KEPT = ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times")
HOUR_S = 3600
STOPPED_MS = 1795245481000  # soon after the Java broker's last message


def records(golden):
    return golden("timer").log_records()


def test_what_waits_is_what_java_moved(golden):
    found = [r for r in records(golden) if r.topic == TIMER_TOPIC and "TIMER_DEL_UNIQKEY" not in r.properties]
    assert len(found) == 14
    for record in found:
        own = dict(record.properties)
        message = StoreMessage(own.pop("REAL_TOPIC"), int(own.pop("REAL_QID")), record.body, b"")
        slot_ms = int(own.pop("TIMER_OUT_MS"))
        # Java read the clock at some time between born and store time.
        told = [requested_ms(own, now_ms) for now_ms in (record.born_timestamp, record.store_timestamp)]
        assert slot_ms in [accepted_ms(each, 1000) for each in told]
        made = timer_queue_message(message, own, slot_ms)
        assert (made.topic, made.queue_id) == (record.topic, record.queue_id)
        assert made.properties == bytes(record.properties_bytes)


def test_marks_of_recalls_are_what_java_stored(golden):
    """With the property without meaning that a reader leaves out."""
    found = [r for r in records(golden) if "TIMER_DEL_UNIQKEY" in r.properties]
    assert len(found) == 2
    for record in found:
        own = dict(record.properties)
        mark = StoreMessage(own.pop("REAL_TOPIC"), int(own.pop("REAL_QID")), b"0", b"")
        made = timer_queue_message(mark, own, int(own.pop("TIMER_OUT_MS")))
        assert made.properties == bytes(record.properties_bytes)
        assert bytes(record.body) == b"0"


def test_what_is_delivered_is_what_java_delivered(golden):
    waited = {r.properties["UNIQ_KEY"]: r for r in reversed(records(golden)) if r.topic == TIMER_TOPIC}
    found = [r for r in records(golden) if r.topic == "GoldenTimer" and "TIMER_DEQUEUE_MS" in r.properties]
    assert len(found) == 6
    for record in found:
        source, own = waited[record.properties["UNIQ_KEY"]], record.properties
        times = [int(own[name]) for name in ("TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS")]
        made = due_message(source, timed_message_of(source), *times)
        assert (made.topic, made.queue_id) == (record.topic, record.queue_id)
        assert made.properties == bytes(record.properties_bytes)
        assert [getattr(made, name) for name in KEPT] == [getattr(record, name) for name in KEPT]


def test_handles_are_java_s(golden):
    sent = [m for m in golden("timer").messages if m["kind"] == "sent" and m.get("recallHandle")]
    assert len(sent) > 10
    slots = {r.properties["UNIQ_KEY"]: r.properties for r in records(golden) if r.topic == TIMER_TOPIC}
    for message in sent:
        own = slots[message["msgId"]]
        slot_ms = int(own["TIMER_OUT_MS"])
        assert answer_fields("GoldenTimer", "broker-a", slot_ms, own) == {"recallHandle": message["recallHandle"]}
        told = RecallHandle("GoldenTimer", "broker-a", str(slot_ms + 1), message["msgId"])
        assert decode_handle(message["recallHandle"]) == told


@pytest.fixture
def quiet(monkeypatch):
    """For days on the virtual clock: no sync waits for a real disk, and checks of every second run every minute.

    Timers keep their intervals, and so do restarts. Returns settings of the store.
    """
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda descriptor: None, raising=False)
    for name in ("SAMPLE_S", "FLUSH_S"):
        monkeypatch.setattr(f"gantrymq.broker.server.{name}", 60.0)
    return {
        "flushIntervalCommitLog": "60000",
        "flushIntervalConsumeQueue": "60000",
        "plugins": "filter_tag,storage_mmap,schedule",
    }


@pytest.mark.slow
def test_what_java_left_pending_fires_once_at_its_time(golden_copy, tmp_path, quiet):
    scenario = golden_copy("timer")
    shutil.move(scenario.store, tmp_path / "cluster/store")
    packed = tmp_path / "cluster/store/timerwheel.gz"
    (tmp_path / "cluster/store/timerwheel").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    taken_over = (*TAKEN_OVER, "mappedFileSizeTimerLog")
    settings = {key: scenario.conf[key] for key in taken_over if key in scenario.conf}

    async def main(world):
        cluster = Cluster(
            attrs.evolve(world, files=real_world().files), tmp_path / "cluster", {**settings, **quiet, "store": "mmap"}
        )
        await cluster.start()
        try:
            for pause_s in (90, HOUR_S, 24 * HOUR_S, 36 * HOUR_S, 12 * HOUR_S + 60):
                await world.clock.sleep(pause_s)
                await cluster.restart()
            return await cluster.pull("GoldenTimer"), cluster.broker.store.bounds(Queue(TIMER_TOPIC, 0))
        finally:
            await cluster.stop()

    found, bounds = simulate(1, main, start_ms=STOPPED_MS, limit_s=100 * HOUR_S)
    sent = {m["msgId"]: m for m in scenario.messages if m["kind"] == "sent" and "error" not in m}
    recalled = {m["result"] for m in scenario.messages if m["kind"] == "recall" and "result" in m}
    assert sorted(m.properties["UNIQ_KEY"] for m in found) == sorted(sent.keys() - recalled)
    late = [m for m in found if m.properties["KEYS"].startswith("pending")]
    assert len(late) == 6
    for message in late:
        delay_ms = int(message.properties["TIMER_DELAY_MS"])
        assert 0 <= message.store_timestamp - message.born_timestamp - delay_ms <= 1200
    assert bounds.max_offset == 18  # two went round again
