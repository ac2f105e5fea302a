"""Delay levels on a simulated broker: storage aside, delivery when due, saved offsets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from late_gates import put_gate
from polling import wait_until

from gantrymq.client import Client
from gantrymq.errors import GantryError, StoreError
from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.formats.config.manager_file import load
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import PutResult, PutStatus, QueueTargets, SendRequest, StoreMessage
from gantrymq.loose_json import loads
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.levels.resume import SavedLevel, find_delivered
from gantrymq_schedule.levels.table import queue_of
from gantrymq_schedule.service import Schedule
from gantrymq_testing.cluster import Cluster


def service_of(cluster):
    return next(each for each in cluster.plugins.services if each.name == "schedule")


def bodies(messages):
    return sorted(message.body for message in messages)


def delayed(body, level, **more):
    return {"topic": "T", "body": body, "system_properties": {"DELAY": str(level)}, **more}


def test_a_message_comes_when_its_level_s_time_is_up(gantrymq_simulation):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 2)
        sent_ms = clock.now_ms()
        await cluster.send("T", b"later", tags="A", system_properties={"DELAY": "3"})
        await cluster.send("T", b"now")
        assert [each.body for each in await cluster.pull("T")] == [b"now"]
        await clock.sleep(9.9)
        assert len(await cluster.pull("T")) == 1
        await clock.sleep(0.2)
        (late,) = [each for each in await cluster.pull("T", "A") if each.body == b"later"]
        assert 0 <= late.store_timestamp - sent_ms - 10_000 <= 50
        assert late.properties["DELAY"] == "3"
        assert cluster.broker.store.bounds(Queue(SCHEDULE_TOPIC, 2)) == (0, 1)

    gantrymq_simulation(main)


def test_every_level_at_its_time(gantrymq_simulation):
    seconds = (1, 5, 10, 30, *(60 * minute for minute in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)))

    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        began_ms = clock.now_ms()
        for level in range(18, 0, -1):
            await cluster.send(**delayed(b"%d" % seconds[level - 1], level))
        await clock.sleep(7201)
        found = await cluster.pull("T")
        assert [int(each.body) for each in found] == sorted(seconds)
        for each in found:
            assert 0 <= each.store_timestamp - began_ms - int(each.body) * 1000 <= 100

    gantrymq_simulation(main)


def test_queue_entries_are_told_with_the_broker_s_own_levels(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"m", 2))
        client = RemotingClient(cluster.world)
        ext = {"topic": SCHEDULE_TOPIC, "queueId": "1", "index": "0", "count": "1"}
        answer = await client.call(cluster.broker_address, request(RequestCode.QUERY_CONSUME_QUEUE, ext))
        await client.close()
        (entry,) = loads(answer.body)["queueData"]
        (waiting,) = await cluster.pull(SCHEDULE_TOPIC)
        assert entry["tagsCode"] == waiting.store_timestamp + 7000

    gantrymq_simulation(main, settings={"store": "mmap", "messageDelayLevel": "1s 7s"})


def test_levels_above_the_highest_count_as_it_and_0_and_less_as_none(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        for level in ("99", "0", "-3", "2147483647"):
            await cluster.send("T", level.encode(), system_properties={"DELAY": level})
        assert bodies(await cluster.pull("T")) == [b"-3", b"0"]
        await cluster.world.clock.sleep(3.1)
        (*_, ninety_nine, largest) = await cluster.pull("T")
        assert (ninety_nine.body, ninety_nine.properties["DELAY"]) == (b"99", "2")
        assert (largest.body, largest.properties["DELAY"]) == (b"2147483647", "2")

    gantrymq_simulation(main, settings={"store": "mmap", "messageDelayLevel": "1s 3s"})


def test_a_level_wins_over_a_time_and_text_is_refused(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.send("T", b"both", system_properties={"DELAY": "1", "TIMER_DELAY_MS": "600000"})
        for text in ("abc", "1.5", "1_0", "2147483648"):
            with pytest.raises(GantryError, match=f"DELAY={text} is not a delay level; give a whole number, 0 for"):
                await cluster.send("T", b"text", system_properties={"DELAY": text})
        await cluster.world.clock.sleep(1.2)
        (found,) = await cluster.pull("T")
        assert "TIMER_DELAY_MS" not in found.properties

    gantrymq_simulation(main)


def test_the_delays_of_a_batch_s_entries_are_not_read_and_a_batch_cannot_be_delayed(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        body = encode_batch([BatchEntry(0, b"one", props.encode({"DELAY": "3"})), BatchEntry(0, b"two", b"")])
        await cluster.broker.messages.send(SendRequest("G", "T", body, batch=True))
        assert bodies(await cluster.pull("T")) == [b"one", b"two"]
        with pytest.raises(Exception, match="DELAY=3: a batch cannot be delayed; send the messages one by one"):
            await cluster.broker.messages.send(
                SendRequest("G", "T", body, props.encode_text({"DELAY": "3"}), batch=True)
            )

    gantrymq_simulation(main)


def test_what_plugins_put_is_delayed_too(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.put("T", b"put", properties={"DELAY": "1"})
        assert await cluster.pull("T") == []
        await cluster.world.clock.sleep(1.1)
        assert bodies(await cluster.pull("T")) == [b"put"]

    gantrymq_simulation(main)


KINDS = pytest.mark.parametrize("timed", [False, True], ids=["level", "timer"])


async def later(cluster, body, timed):
    """Send a message to T that is due in 5 s."""
    more = {"deliver_at_ms": cluster.world.clock.now_ms() + 5000} if timed else {"delay_level": 2}
    await cluster.send("T", body, **more)


async def delete_topic(cluster):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
        await admin.delete_topic("T")


@KINDS
def test_a_message_of_a_deleted_topic_is_dropped_unless_the_topic_is_created_again(gantrymq_simulation, caplog, timed):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        await later(cluster, b"late", timed)
        await delete_topic(cluster)
        await clock.sleep(7)
        assert cluster.store.bounds(Queue("T", 0)).max_offset == 0
        await cluster.create_topic("T", 1)
        await later(cluster, b"in time", timed)
        await delete_topic(cluster)
        await cluster.create_topic("T", 1)
        await clock.sleep(7)
        assert bodies(await cluster.pull("T")) == [b"in time"]
        await clock.sleep(10)

    gantrymq_simulation(main)
    assert "1 delayed messages are not delivered, as their topics were deleted: T" in caplog.text


@KINDS
@pytest.mark.parametrize("window", [2, 3600], ids=["rolls", ""])
def test_a_message_of_a_deleted_topic_is_dropped_after_a_restart_and_on_its_rounds(gantrymq_simulation, timed, window):
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(cluster):
        await cluster.create_topic("T", 1)
        await later(cluster, b"late", timed)
        await delete_topic(cluster)
        await cluster.restart()
        await cluster.world.clock.sleep(10)
        assert cluster.store.bounds(Queue("T", 0)).max_offset == 0

    gantrymq_simulation(main, settings={"store": "mmap", "timerRollWindowSlot": window})


@KINDS
def test_a_message_of_a_topic_that_is_unknown_but_was_not_deleted_is_stored(gantrymq_simulation, timed):
    pytest.importorskip("gantrymq_storage_mmap")

    async def main(cluster):
        await cluster.create_topic("T", 1)
        await delete_topic(cluster)
        await cluster.create_topic("T", 1)
        await later(cluster, b"stays", timed)
        cluster.server.tables.topics.delete("T")
        await cluster.restart()
        await cluster.world.clock.sleep(10)
        assert cluster.broker.topics.get("T") is None
        assert cluster.store.bounds(Queue("T", 0)).max_offset == 1

    gantrymq_simulation(main, settings={"store": "mmap"})


def test_the_schedule_topic_s_queues_may_go(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"gone", 2))
        await cluster.store.drop(SCHEDULE_TOPIC)
        await cluster.world.clock.sleep(6)
        assert await cluster.pull("T") == []
        await cluster.send(**delayed(b"next", 2))
        await cluster.world.clock.sleep(6)
        assert bodies(await cluster.pull("T")) == [b"next"]

    gantrymq_simulation(main, limit_s=3600.0)


def test_what_cannot_be_stored_is_left_behind_and_does_not_stop_its_level(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        queue = Queue(SCHEDULE_TOPIC, 0)
        topics = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", SCHEDULE_TOPIC)
        for own in ({"REAL_TOPIC": "T"}, *({"REAL_TOPIC": topic, "REAL_QID": "0"} for topic in topics)):
            await cluster.broker.messages.put(StoreMessage(*queue, b"no", props.encode(own), tags_code=1))
        await cluster.send(**delayed(b"good", 1))
        await cluster.world.clock.sleep(1.2)
        assert bodies(await cluster.pull("T")) == [b"good"]
        shown = {each.name: each.values for each in cluster.broker.metrics.snapshot().plugin_metrics}
        assert shown["gantrymq_delayed_left_behind_total"] == {(): 4}
        assert cluster.broker.store.bounds(queue).max_offset == 5
        assert shown["gantrymq_delayed_delivered_total"] == {(): 1}
        assert shown["gantrymq_delayed_waiting"][("1",)] == 0
        assert 0 <= shown["gantrymq_delayed_late_seconds_worst"][()] <= 0.1

    gantrymq_simulation(main)


def test_what_cannot_be_read_is_left_behind_and_said_by_its_offset(gantrymq_simulation, monkeypatch, caplog):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        get = cluster.store.get

        def damaged(queue, position, limit, seen):
            found = get(queue, position, limit, seen)
            if queue.topic != SCHEDULE_TOPIC:
                return found
            read = [bytes(each.raw) for buffer in found.buffers for each in iter_records(buffer)]
            texts = [each[:4] + bytes(len(each) - 4) if b"broken" in each else each for each in read]
            return found._replace(buffers=(b"".join(texts),))

        monkeypatch.setattr(cluster.store, "get", damaged)
        for body in (b"0", b"broken", b"2", b"3"):
            await cluster.send(**delayed(body, 1))
        await cluster.world.clock.sleep(2)
        assert bodies(await cluster.pull("T")) == [b"0", b"2", b"3"]
        shown = {each.name: each.values for each in cluster.broker.metrics.snapshot().plugin_metrics}
        assert shown["gantrymq_delayed_left_behind_total"] == {(): 1}

    gantrymq_simulation(main, settings={"store": "memory"})
    (said,) = [each.getMessage() for each in caplog.records if "cannot be read" in each.getMessage()]
    assert f"queue offset 1 of {queue_of(1)}" in said


@pytest.mark.parametrize(
    ("settings", "warns"),
    [
        ({"fileReservedTime": "71"}, "timerMaxDelaySec allows delays of 72 hours"),
        ({"fileReservedTime": "72"}, ""),
        ({"fileReservedTime": "71", "timerWheelEnable": "false"}, ""),
        ({"fileReservedTime": "72", "messageDelayLevel": "1s 4d"}, "messageDelayLevel allows delays of 96 hours"),
    ],
)
def test_a_delay_beyond_the_log_s_retention_is_said_at_the_start(gantrymq_simulation, caplog, settings, warns):
    async def main(cluster):
        pass

    gantrymq_simulation(main, settings={"store": "mmap", **settings})
    said = [each.getMessage() for each in caplog.records if "allows delays" in each.getMessage()]
    assert [sentence[: len(warns)] for sentence in said] == [warns][: len(warns)]


def test_a_store_that_refuses_is_tried_again_and_nothing_comes_twice(gantrymq_simulation):
    async def main(cluster):
        clock, store = cluster.world.clock, cluster.store
        await cluster.create_topic("T", 1)
        for number in range(3):
            await cluster.send(**delayed(b"%d" % number, 1))
        refusal, store._refusal = store._refusal, "the disk is full"
        await clock.sleep(5)
        store._refusal = refusal
        await clock.sleep(0.5)
        assert bodies(await cluster.pull("T")) == [b"0", b"1", b"2"]

    gantrymq_simulation(main, settings={"store": "memory"})


def test_one_that_is_refused_beside_others_whose_gate_is_late_is_not_lost(gantrymq_simulation, monkeypatch):
    async def main(cluster):
        clock, store = cluster.world.clock, cluster.store
        await cluster.create_topic("T", 1)
        await cluster.send("T", b"first")
        await asyncio.gather(*(cluster.send(**delayed(b"%d" % number, 1)) for number in range(2)))
        put, open_at = store.put, clock.now_ms() + 20_000

        async def late(log_offset):
            await clock.sleep(max(0, open_at - clock.now_ms()) / 1000)

        def no_room_for_the_second(messages):
            assert len(messages) == 2
            monkeypatch.setattr(store, "put", put)
            return [*put(messages[:1]), PutResult(PutStatus.CREATE_FILE_FAILED, -1, -1, 0, 0, "no space left")]

        put_gate(monkeypatch, store, late)
        monkeypatch.setattr(store, "put", no_room_for_the_second)
        await clock.sleep(40)
        assert bodies(await cluster.pull("T")) == [b"0", b"1", b"first"]

    gantrymq_simulation(main, settings={"store": "memory"})


def test_a_clock_that_is_set_ahead_or_back_is_noticed(gantrymq_simulation):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"ahead", 14))
        clock._start_us += 600_000_000
        await clock.sleep(1.2)
        assert bodies(await cluster.pull("T")) == [b"ahead"]
        await cluster.send(**delayed(b"back", 14))
        clock._start_us -= 600_000_000
        await clock.sleep(1.2)
        assert bodies(await cluster.pull("T")) == [b"ahead", b"back"]

    gantrymq_simulation(main)


def test_a_small_step_back_does_not_end_a_delay(gantrymq_simulation):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"long", 4))
        clock._start_us -= 2_000_000
        await clock.sleep(29.5)
        assert await cluster.pull("T") == []
        await clock.sleep(3)
        assert bodies(await cluster.pull("T")) == [b"long"]

    gantrymq_simulation(main)


@pytest.mark.parametrize("store", ["memory", "mmap"])
def test_a_delay_counts_from_the_send_after_a_clock_that_ran_ahead_was_corrected(gantrymq_simulation, store):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        clock._start_us += 3_600_000_000
        await cluster.send("T", b"ahead")
        await cluster.send(**delayed(b"soon", 1))
        await clock.sleep(1.2)
        clock._start_us -= 3_600_000_000
        for level in (1, 3):
            await cluster.send(**delayed(b"%d" % level, level))
        seen = []
        for pause_s in (0.9, 0.3, 8.5, 0.5):
            await clock.sleep(pause_s)
            seen.append(len(await cluster.pull("T")))
        assert seen == [2, 3, 3, 4]
        ahead, *_, last = await cluster.pull("T")
        assert last.store_timestamp >= ahead.store_timestamp

    gantrymq_simulation(main, settings={"store": store})


def test_progress_is_saved_from_time_to_time_and_at_the_stop(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"store": "mmap", "messageDelayLevel": "1s 2h", "flushDelayOffsetInterval": 100})
    running.create_topic("T", 1)
    running.send("T", b"soon", system_properties={"DELAY": "1"})
    running.send("T", b"late", system_properties={"DELAY": "2"})
    path = Path(running.cluster.settings.text("storePathRootDir")) / "config/delayOffset.json"

    def saved():  # by the loader, as the file is missing for a moment while it is replaced
        return (load(running.cluster.world.files, path) or {}).get("offsetTable", {})

    wait_until(lambda: saved().get(1) == 1, "progress of level 1")
    assert [each.body for each in running.pull("T")] == [b"soon"]
    assert saved() == {1: 1, 2: 0}
    running.restart()
    assert [each.body for each in running.pull("T")] == [b"soon"]


def test_a_level_that_the_settings_lack_now_is_still_delivered(gantrymq_simulation):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"third", 3))
        await cluster.stop()
        again = Cluster(cluster.world, cluster.root, {"store": "mmap", "messageDelayLevel": "1s 2s"})
        await again.start()
        await clock.sleep(9)
        assert await again.pull("T") == []
        await clock.sleep(2)
        assert bodies(await again.pull("T")) == [b"third"]
        await again.stop()

    gantrymq_simulation(main, settings={"store": "mmap"})


def test_request_45_tells_the_progress(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.send(**delayed(b"x", 1))
        await cluster.world.clock.sleep(1.5)
        answer = service_of(cluster).delay_offsets()
        assert json.loads(answer.replace("{1:", '{"1":'))["offsetTable"]["1"] == 1

    gantrymq_simulation(main)


def test_request_28_has_a_row_for_each_level_that_was_used(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        for level in (1, 3, 3):
            await cluster.send(**delayed(b"m", level))
        await cluster.world.clock.sleep(2)
        client = RemotingClient(cluster.world)
        answer = await client.call(cluster.broker_address, request(RequestCode.GET_BROKER_RUNTIME_INFO))
        await client.close()
        table = json.loads(answer.payload)["table"]
        rows = {name: row for name, row in table.items() if name.startswith("scheduleMessageOffset_")}
        assert rows == {"scheduleMessageOffset_1": "1,1", "scheduleMessageOffset_3": "0,2"}

    gantrymq_simulation(main)


def test_a_look_for_what_was_delivered_that_fails_once_is_made_again(gantrymq_simulation, monkeypatch):
    async def main(cluster):
        clock, store, broker = cluster.world.clock, cluster.store, cluster.broker
        await cluster.create_topic("T", 1)
        for number in range(3):
            await cluster.send(**delayed(b"%d" % number, 1))
        await clock.sleep(2)
        levels = service_of(cluster)._levels
        await levels.stop()
        scan, failures = store.scan, [StoreError("the log cannot be read")]

        def fails_once(*asked):
            if failures:
                raise failures.pop()
            return scan(*asked)

        monkeypatch.setattr(store, "scan", fails_once)
        again = LevelDelivery(broker, cluster.root / "nowhere", levels._delays_ms)
        await again.start()
        await clock.sleep(2)
        await again.stop()
        assert failures == []
        assert bodies(await cluster.pull("T")) == [b"0", b"1", b"2"]

    gantrymq_simulation(main, settings={"store": "memory"})


async def positions(broker, *places):
    """Start offsets of levels whose positions were saved as *places*, pairs of level and position."""
    levels = [SavedLevel(level, position, 1000) for level, position in places]
    found = await find_delivered(broker, levels, (1000,), lambda: False)
    assert not any(each.beyond for each in found.values())
    return [found[level].position if level in found else position for level, position in places]


def test_messages_that_cannot_tell_hide_no_delivered_ones_behind_them(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        place = {"DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "0"}
        own = [{"DELAY": "1", "UNIQ_KEY": "lost"}, *({"UNIQ_KEY": f"k{n}", **place} for n in range(3))]
        own.insert(2, place)
        for each in own:
            waits = StoreMessage(
                SCHEDULE_TOPIC, 0, b"x", props.encode(each), queue_targets=QueueTargets(due_in_ms=1000)
            )
            await cluster.broker.messages.put(waits)
        await cluster.world.clock.sleep(3)
        assert len(await cluster.pull("T")) == 4
        assert [await positions(cluster.broker, (1, start)) for start in range(5)] == [[5]] * 5

    gantrymq_simulation(main)


def test_a_delivered_message_is_known_whatever_its_queue_adds_and_its_writer_left_off(gantrymq_simulation):
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        broker.topics.put(TopicConfig("B", 1, 1, attributes={"queue.type": "BatchCQ"}))
        texts = ["UNIQ_KEY\x01P1\x02", "UNIQ_KEY\x01P2\x02INNER_MULTI_DISPATCH\x01%LMQ%a\x02"]
        for level, (topic, text) in enumerate(zip("BT", texts, strict=True), 1):
            await broker.messages.send(SendRequest("g", topic, b"x", f"{text}DELAY\x01{level}\x02", queue_id=0))
        old = b"UNIQ_KEY\x01P3\x02DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x010"
        await broker.messages.put(
            StoreMessage(SCHEDULE_TOPIC, 2, b"x", old, queue_targets=QueueTargets(due_in_ms=10_000))
        )
        await cluster.world.clock.sleep(20)
        progress = service_of(cluster)._levels.positions
        assert [progress.position(level) for level in (1, 2, 3)] == [1, 1, 1]
        assert await positions(broker, (1, 0), (2, 0), (3, 0)) == [1, 1, 1]

    gantrymq_simulation(main, settings={"store": "mmap", "enableLmq": "true", "enableMultiDispatch": "true"})


def test_levels_do_not_go_on_when_timers_cannot_start(gantrymq_simulation):
    async def main(cluster):
        await service_of(cluster).stop()
        again = Schedule()
        files = cluster.world.files
        wheel = files.open(cluster.root / "store" / "timerwheel", create=True)
        wheel.truncate(100)
        wheel.close()
        with pytest.raises(StoreError, match="timer wheel"):
            await again.start(cluster.broker)
        assert again._levels is None
        assert again.interceptor.levels is None

    gantrymq_simulation(main, settings={"store": "mmap"})
