"""Persistence of tables: times of saves, waiting for saves, and failing disks."""

from __future__ import annotations

import errno
from pathlib import Path

import attrs
import pytest
from broker_desk import START_MS, run_broker, send_header

from gantrymq.broker.settings import SCHEMA
from gantrymq.broker.tables.disk_reserve import ENOUGH_BYTES, DiskReserve
from gantrymq.broker.tables.file_state_store import FileStateStore
from gantrymq.broker.tables.groups import GroupTable
from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.broker.tables.state_files import RETRY_S, StateFiles
from gantrymq.broker.tables.state_writer import MOST_UNSAVED_S
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.config import Settings
from gantrymq.errors import ServiceNotAvailable, StoreError
from gantrymq.formats.config import TopicsFile, consumer_offsets
from gantrymq.loose_json import loads
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulated import simulate

FOLDER = Path("/store/config")


class FailingFiles:
    """Files that refuse selected replacements and record the others."""

    def __init__(self, files):
        self._files = files
        self.refused = set()  # names
        self.replaced = []

    def replace(self, path, data, mode=None):
        if path.name in self.refused:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.replaced.append(path.name)
        self._files.replace(path, data, mode)

    def __getattr__(self, name):
        return getattr(self._files, name)


class Room:
    """The tables and their files in one simulated world."""

    def __init__(self, world):
        self.files = FailingFiles(world.files)
        self.world = attrs.evolve(world, files=self.files)
        self.clock = world.clock

    async def restart(self, *, light=False):
        """Create new tables and load them from disk."""
        settings, now_ms = Settings(SCHEMA), self.clock.now_ms
        self.topics, self.groups = TopicTable(settings, now_ms), GroupTable(settings, now_ms)
        self.offsets = ConsumerOffsets(500, now_ms, lambda: 0.0)
        reserve = DiskReserve(self.files, FOLDER / "reserve")
        store = FileStateStore(self.files, FOLDER, reserve)
        self.state = StateFiles(self.world, store, self.topics, self.groups, self.offsets, light=light)
        await self.state.load()

    def on_disk(self, name):
        return loads(self.files.read(FOLDER / name))


@pytest.fixture
def room():
    """``room(main)`` runs ``await main(room)``."""

    def run(main):
        async def in_world(world):
            room = Room(world)
            await room.restart()
            await main(room)

        simulate(1, in_world, start_ms=START_MS)

    return run


def test_changes_of_one_moment_are_saved_once(room):
    async def main(room):
        for name in ("A", "B", "C"):
            room.topics.put(TopicConfig(name))
            room.groups.put(GroupConfig(name))
        await room.state.saved()
        assert sorted(room.files.replaced) == ["subscriptionGroup.json", "topics.json"]
        assert sorted(room.on_disk("topics.json")["topicConfigTable"]) == ["A", "B", "C"]

    room(main)


def test_what_was_saved_is_there_after_a_restart(room):
    async def main(room):
        room.topics.put(TopicConfig("T", 3, 5, attributes={"message.type": "FIFO"}))
        room.groups.put(GroupConfig("CG", retry_max_times=3))
        room.groups.forbidden = {"CG": {"T": 4}}
        room.offsets.commit("CG", Queue("T", 1), 9)
        await room.state.close()
        before = room.topics.version
        await room.restart()
        assert room.topics.get("T") == TopicConfig("T", 3, 5, attributes={"message.type": "FIFO"})
        assert room.topics.version == before
        assert room.groups.get("CG").retry_max_times == 3
        assert not room.groups.may_read("CG", "T")
        assert room.offsets.committed("CG", Queue("T", 1)) == 9

    room(main)


def test_who_asks_during_a_save_is_answered_by_its_end(room):
    async def main(room):
        room.topics.put(TopicConfig("T"))
        answers = []
        room.clock.call_later(10e-6, lambda: room.state.when_saved(answers.append))  # the save has started
        await room.clock.sleep(1)
        assert answers == [None]
        assert room.files.replaced == ["topics.json"]

    room(main)


def test_a_topic_counts_as_saved_when_its_file_has_it(room):
    async def main(room):
        room.topics.put(TopicConfig("T"))
        assert not room.state.is_saved("T")
        assert room.state.is_saved("Other")
        await room.state.saved()
        assert room.state.is_saved("T")

    room(main)


def test_a_change_during_a_save_is_saved_next(room):
    async def main(room):
        room.topics.put(TopicConfig("A"))
        room.clock.call_later(10e-6, room.topics.put, TopicConfig("B"))
        await room.clock.sleep(20e-6)
        await room.state.saved()
        assert room.files.replaced == ["topics.json", "topics.json"]
        assert sorted(room.on_disk("topics.json")["topicConfigTable"]) == ["A", "B"]

    room(main)


def test_a_topic_that_changes_again_while_it_is_written_does_not_count_as_saved(room):
    async def main(room):
        seen = []

        class Late:
            async def run(self, work, *args):
                seen.append(room.state.is_saved("T"))
                if len(seen) == 1:
                    room.topics.put(TopicConfig("T", perm=4))  # after the copy was made
                return await room.world.workers.run(work, *args)

        room.state._writes._world = attrs.evolve(room.world, workers=Late())
        room.topics.put(TopicConfig("T"))
        await room.state.saved()
        await room.state.saved()
        assert seen[:2] == [False, False]
        assert room.state.is_saved("T")
        assert room.on_disk("topics.json")["topicConfigTable"]["T"]["perm"] == 4

    room(main)


def test_a_save_that_fails_is_told_to_those_who_wait_and_tried_again(room):
    async def main(room):
        room.files.refused = {"topics.json"}
        room.topics.put(TopicConfig("T"))
        with pytest.raises(StoreError, match=r"topics\.json cannot be written: No space left"):
            await room.state.saved()
        assert not room.state.is_saved("T")
        room.files.refused = set()
        await room.clock.sleep(RETRY_S + 0.1)
        assert room.state.is_saved("T")
        assert "T" in room.on_disk("topics.json")["topicConfigTable"]

    room(main)


def test_while_a_save_fails_nobody_is_told_that_it_did_not(room):
    async def main(room):
        room.files.refused = {"topics.json"}
        room.topics.put(TopicConfig("T"))
        for _ in range(3):  # before the next try is due
            with pytest.raises(StoreError):
                await room.state.saved()
        room.files.refused = set()
        await room.state.saved()  # a waiting caller triggers a try at once
        assert room.state.is_saved("T")

    room(main)


def test_a_change_counts_as_saved_when_it_is_confirmed(room):
    async def main(room):
        seen, answers = [], []

        async def confirm():
            seen.append(sorted(room.on_disk("topics.json")["topicConfigTable"]))
            await room.clock.sleep(1)

        room.state.confirm_changes(confirm)
        room.topics.put(TopicConfig("T"))
        room.state.when_saved(answers.append)
        await room.clock.sleep(0.5)
        assert (seen, answers, room.state.is_saved("T")) == ([["T"]], [], False)
        await room.clock.sleep(1)
        assert (answers, room.state.is_saved("T")) == ([None], True)
        room.offsets.commit("CG", Queue("T", 0), 1)
        room.state.offsets_due()
        await room.state.saved(offsets=True)
        assert len(seen) == 1, "offsets are not confirmed"

    room(main)


def test_a_change_that_is_not_confirmed_is_refused_and_confirmed_later(room):
    async def main(room):
        problems = [ServiceNotAvailable("no slave has it"), RuntimeError("a bug"), ServiceNotAvailable("still not")]

        async def confirm():
            if problems:
                raise problems.pop(0)

        room.state.confirm_changes(confirm)
        room.topics.put(TopicConfig("T"))
        with pytest.raises(ServiceNotAvailable, match="no slave has it"):
            await room.state.saved()
        with pytest.raises(StoreError, match="could not be confirmed: RuntimeError"):
            await room.state.saved()
        assert not room.state.is_saved("T")
        await room.clock.sleep(2 * RETRY_S + 0.1)
        assert (problems, room.state.is_saved("T")) == ([], True)
        await room.state.saved()

    room(main)


def test_offsets_that_are_saved_do_not_stand_in_for_topics_that_are_not(room):
    async def main(room):
        room.files.refused = {"topics.json"}
        room.topics.put(TopicConfig("T"))
        with pytest.raises(StoreError):
            await room.state.saved()
        room.offsets.commit("CG", Queue("T", 0), 1)
        room.state.offsets_due()
        await room.clock.sleep(RETRY_S / 10)  # before the next try is due
        assert "consumerOffset.json" in room.files.replaced
        assert not room.state.is_saved("T")
        room.files.refused = set()
        await room.state.saved()
        assert room.state.is_saved("T")

    room(main)


def test_offsets_are_saved_when_due_and_only_if_they_changed(room):
    async def main(room):
        room.state.offsets_due()
        await room.state.saved()
        assert room.files.replaced == []
        room.offsets.commit("CG", Queue("T", 0), 1)
        assert room.files.replaced == []
        room.state.offsets_due()
        room.state.offsets_due()
        await room.state.saved()
        assert room.files.replaced == ["consumerOffset.json"]

    room(main)


def test_offsets_that_could_not_be_saved_are_saved_when_due_again(room):
    async def main(room):
        room.offsets.commit("CG", Queue("T", 0), 1)
        room.files.refused = {"consumerOffset.json"}
        room.state.offsets_due()
        await room.clock.sleep(1)
        room.files.refused = set()
        room.state.offsets_due()
        await room.state.saved()
        assert room.on_disk("consumerOffset.json")["offsetTable"] == {"T@CG": {0: 1}}

    room(main)


def test_a_topic_is_saved_although_offsets_cannot_be(room):
    async def main(room):
        room.files.refused = {"consumerOffset.json"}
        room.offsets.commit("CG", Queue("T", 0), 1)
        room.state.offsets_due()
        room.topics.put(TopicConfig("T"))
        await room.state.saved()
        with pytest.raises(StoreError, match=r"consumerOffset\.json cannot be written"):
            await room.state.saved(offsets=True)

    room(main)


def test_offsets_that_cannot_be_saved_are_tried_every_second_and_told_once(room, caplog):
    async def main(room):
        room.files.refused = {"consumerOffset.json"}
        room.offsets.commit("CG", Queue("T", 0), 1)
        room.state.offsets_due()
        await room.clock.sleep(10)
        problem = "/store/config/consumerOffset.json cannot be written: No space left on device; make room or fix it"
        assert room.state.failing == {"consumerOffset.json": problem}
        room.offsets.commit("CG", Queue("T", 0), 2)
        room.files.refused = set()
        await room.clock.sleep(RETRY_S + 0.1)  # no timer of the offsets is needed
        assert room.on_disk("consumerOffset.json")["offsetTable"] == {"T@CG": {0: 2}}
        assert room.state.failing == {}
        assert [record.message.partition("consumerOffset.json ")[2] for record in caplog.records] == [
            "cannot be written: No space left on device; make room or fix it; it is tried again",
            "is written again",
        ]

    room(main)


def test_on_a_full_disk_the_reserve_makes_room_and_comes_back_with_it(room):
    async def main(room):
        disk = room.world.files._files
        reserve = FOLDER / "reserve"
        for number in range(1000):
            room.offsets.commit(f"group-{number}", Queue("T", 0), 1)
        room.state.offsets_due()
        await room.state.saved()
        assert disk.stat(reserve).size == ENOUGH_BYTES
        room_then, disk.capacity = disk.capacity, disk._disk.used  # full
        for number in range(1000, 2000):
            room.offsets.commit(f"group-{number}", Queue("T", 0), 1)
        room.state.offsets_due()
        await room.state.saved()
        assert len(room.on_disk("consumerOffset.json")["offsetTable"]) == 2000
        assert room.state.failing == {}
        assert disk.stat(reserve) is None
        disk.capacity = room_then
        room.offsets.commit("group-0", Queue("T", 0), 2)
        room.state.offsets_due()
        await room.state.saved()
        assert disk.stat(reserve).size == ENOUGH_BYTES

    room(main)


def test_whatever_goes_wrong_in_a_save_is_told_to_those_who_wait(room, monkeypatch, caplog):
    async def main(room):
        def fail(self):
            raise ValueError("a bug")

        with monkeypatch.context() as patch:
            patch.setattr(TopicsFile, "to_text", fail)
            room.topics.put(TopicConfig("T"))
            with pytest.raises(StoreError, match=r"topics\.json cannot be made: ValueError\('a bug'\)"):
                await room.state.saved()
        await room.clock.sleep(RETRY_S + 0.1)
        assert "T" in room.on_disk("topics.json")["topicConfigTable"]
        assert "Traceback" in caplog.text

    room(main)


# --- a whole broker -------------------------------------------------------------------------------------------------


def test_a_send_that_makes_its_topic_is_acknowledged_after_topics_json_is_on_disk(plugins):
    watched = []

    def world_of(world):
        watched.append(FailingFiles(world.files))
        return attrs.evolve(world, files=watched[0])

    async def main(desk):
        await desk.clock.sleep(1)
        watched[0].replaced.clear()
        answer = await desk.send("New")
        assert answer.code == 0
        assert watched[0].replaced == ["topics.json"]
        assert "New" in loads(watched[0].read(FOLDER / "topics.json"))["topicConfigTable"]

    run_broker(plugins, main, world_of=world_of)


def test_a_send_whose_topic_cannot_be_saved_is_refused_and_stores_nothing(plugins):
    watched = []

    def world_of(world):
        watched.append(FailingFiles(world.files))
        return attrs.evolve(world, files=watched[0])

    async def main(desk):
        watched[0].refused = {"topics.json"}
        for _ in range(2):
            answer = await desk.send("New")
            assert answer.code == 1
            assert "topics.json cannot be written" in answer.remark
        assert desk.tables.stats.put.total == 0
        watched[0].refused = set()
        assert (await desk.send("New")).code == 0

    run_broker(plugins, main, world_of=world_of)


def test_commits_that_no_file_takes_are_refused_after_a_while_and_shown_all_the_time(plugins):
    watched = []

    def world_of(world):
        watched.append(FailingFiles(world.files))
        return attrs.evolve(world, files=watched[0])

    async def main(desk):
        commit = {"consumerGroup": "CG", "topic": "T", "queueId": "0"}
        for _ in range(4):
            assert (await desk.send("T")).code == 0
        desk.tables.groups.put(GroupConfig("CG"))
        await desk.clock.sleep(10)
        assert "unwrittenFiles" not in loads((await desk.ask(28)).payload)["table"]
        watched[0].refused = {"consumerOffset.json"}
        assert (await desk.ask(15, {**commit, "commitOffset": "1"})).code == 0
        await desk.clock.sleep(MOST_UNSAVED_S - 10)
        assert (await desk.ask(15, {**commit, "commitOffset": "2"})).code == 0
        await desk.clock.sleep(20)
        answer = await desk.ask(15, {**commit, "commitOffset": "3"})
        assert answer.code == 14
        assert answer.remark.startswith("the commit of group CG in queue T/0 is refused: /store/config/consumerOffset")
        assert (await desk.pull("T", consumerGroup="CG")).code == 0
        assert (await desk.ask(14, commit)).ext["offset"] == "2"
        shown = loads((await desk.ask(28)).payload)["table"]["unwrittenFiles"]
        assert (
            shown == "/store/config/consumerOffset.json cannot be written: No space left on device; make room or fix it"
        )
        watched[0].refused = set()
        await desk.clock.sleep(RETRY_S + 0.1)
        assert (await desk.ask(15, {**commit, "commitOffset": "4"})).code == 0

    run_broker(plugins, main, world_of=world_of)


def test_sends_that_come_while_their_topic_is_saved_are_all_answered(broker):
    async def main(desk):
        sends = []
        for _ in range(20):
            sends.append(desk.later(310, send_header("New").to_ext_v2(), b"body"))
            await desk.clock.sleep(100e-6)
        answers = [await each for each in sends]
        assert [answer.code for answer in answers] == [0] * 20
        assert desk.clock.monotonic() < 1

    broker(main)


def test_with_light_queues_the_offsets_move_to_a_file_of_their_own(room, caplog):
    async def main(room):
        room.offsets.commit("G", Queue("T", 0), 1)
        await room.state.close()
        await room.restart(light=True)
        assert room.offsets.committed("G", Queue("T", 0)) == 1  # taken over from consumerOffset.json
        room.offsets.commit("G", Queue("T", 0), 2)
        room.offsets.commit("%LMQ%g", Queue("%LMQ%q", 0), 7)
        await room.state.close()
        found = room.on_disk("lmqConsumerOffset.json")
        assert (found["offsetTable"], found["lmqOffsetTable"]) == ({"T@G": {0: 2}}, {"%LMQ%q@%LMQ%g": 7})
        await room.restart(light=True)
        assert room.offsets.committed("%LMQ%g", Queue("%LMQ%q", 0)) == 7
        assert not caplog.messages
        await room.restart()
        assert room.offsets.committed("G", Queue("T", 0)) == 1
        assert "lmqConsumerOffset.json is not read while enableLmq=false" in caplog.text

    room(main)


def test_only_offsets_that_changed_are_laid_out_again_even_after_a_save_that_failed(room, monkeypatch):
    async def main(room):
        laid = []
        member = consumer_offsets._member
        monkeypatch.setattr(consumer_offsets, "_member", lambda key, queues: (laid.append(key), member(key, queues))[1])
        for group in ("A", "B"):
            room.offsets.commit(group, Queue("T", 0), 1)
        room.state.offsets_due()
        await room.state.saved()
        room.offsets.commit("A", Queue("T", 0), 2)
        room.files.refused.add("consumerOffset.json")
        room.state.offsets_due()
        with pytest.raises(StoreError):
            await room.state.saved(offsets=True)
        assert room.offsets.dirty
        room.files.refused.clear()
        room.state.offsets_due()
        await room.state.saved()
        assert laid == ["T@A", "T@B", "T@A"]
        assert room.on_disk("consumerOffset.json")["offsetTable"] == {"T@A": {0: 2}, "T@B": {0: 1}}

    room(main)


def test_what_changes_while_a_save_is_under_way_is_not_in_it(room):
    async def main(room):
        room.offsets.commit("A", Queue("T", 0), 1)
        room.groups.put(GroupConfig("A"))
        jobs = []

        class Late:
            async def run(self, work, *args):
                if not jobs:
                    room.offsets.commit("A", Queue("T", 0), 2)  # after the copy was made
                jobs.append(args[0])
                return await room.world.workers.run(work, *args)

        room.state._writes._world = attrs.evolve(room.world, workers=Late())
        room.state.offsets_due()
        await room.state.saved()
        assert jobs[0] == "consumerOffset.json"
        assert room.on_disk("consumerOffset.json")["offsetTable"] == {"T@A": {0: 1}}
        assert room.offsets.dirty

    room(main)
