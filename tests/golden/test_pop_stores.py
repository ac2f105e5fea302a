"""The revive log that Java wrote: read, written again byte for byte, and taken over by our broker."""

import pytest

pytest.importorskip("gantrymq_pop")
pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_storage_mmap")

from mmap_stores import TAKEN_OVER, read_queue, with_open_store

from gantrymq.formats.config import pretty
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit
from gantrymq.loose_json import loads
from gantrymq.model.queue import Queue
from gantrymq_pop.assignment import RequestMode, RequestModes
from gantrymq_pop.checkpoints import Checkpoint, ack_message, checkpoint_message, read_revive_record
from gantrymq_pop.topics import REVIVE_GROUP, producer_topic
from gantrymq_testing.running_broker import RunningBroker

REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
GROUP = "CG_pop_" + "g" * 70


def test_checkpoints_and_acknowledgements_are_written_as_java_wrote_them(golden_copy):
    seen = []

    async def look(store, report):
        for queue in (Queue(REVIVE, 0), Queue(REVIVE, 2)):
            for record in await read_queue(store, queue):
                found = read_revive_record(record, "another")
                said = found.entry
                seen.append(type(said).__name__)
                assert found.by_timer
                if isinstance(said, Checkpoint):
                    again = checkpoint_message(said, REVIVE, queue.queue_id, 1, b"")
                else:
                    again = ack_message(said.key, said.offsets, REVIVE, queue.queue_id, 1, b"")
                assert bytes(again.body) == bytes(record.body)
                assert f"UNIQ_KEY\x01{record.properties['UNIQ_KEY']}\x02".encode() in again.properties
                assert f"TAGS\x01{record.properties['TAGS']}\x02".encode() in again.properties

    with_open_store(golden_copy("pop"), look)
    assert {kind: seen.count(kind) for kind in seen} == {"Checkpoint": 7, "Acknowledgement": 20}


def test_modes_of_groups_are_read_and_written_as_java_wrote_them(golden_copy):
    text = (golden_copy("pop").store / "config" / "messageRequestMode.json").read_bytes()
    modes = RequestModes()
    modes.load(loads(text))
    assert modes.get("GoldenPop_" + "t" * 60, GROUP) == RequestMode("POP", 8)
    assert pretty(modes.to_json()).encode() == text


def test_what_a_java_broker_had_not_revived_yet_comes_back(golden_copy):
    """The same store, as if the broker had stopped before any revive: the same six messages are delivered again."""
    scenario = golden_copy("pop")
    path = scenario.store / "config" / "consumerOffset.json"
    text = path.read_text()
    done = f'"{REVIVE}@{REVIVE_GROUP}":{{0:5,2:0\n\t\t}},'
    assert done in text
    path.write_text(text.replace(done, ""))
    taken_over = (*TAKEN_OVER, "mappedFileSizeTimerLog")
    sizes = {key: int(value) for key, value in scenario.conf.items() if key in taken_over and value.isdecimal()}
    with RunningBroker(scenario.folder, {"store": "mmap", "brokerName": "broker-a", **sizes}) as broker:
        (retry,) = [name for name in broker.broker.topics.view if producer_topic(name, GROUP) != name]
        queue = Queue(retry, 0)

        async def until_back():
            while broker.cluster.broker.store.bounds(queue).max_offset < 12:
                await broker.cluster.world.clock.sleep(0.05)

        broker.run(until_back())
        before, after = messages(broker, queue)[:6], messages(broker, queue)[6:]
        assert [summary(each) for each in sorted(after, key=summary)] == [
            summary(each) for each in sorted(before, key=summary)
        ]
        assert broker.call(broker.broker.offsets.committed, GROUP, queue) == 6
    assert REVIVE in path.read_text()


def messages(broker, queue):
    found = broker.run(broker.broker.messages.get(queue, 0, GetLimit(32)))
    return [record for buffer in found.buffers for record in iter_records(buffer)]


def summary(record):
    return bytes(record.body), record.reconsume_times, sorted(record.properties.items())
