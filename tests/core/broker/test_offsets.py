"""Committed offsets."""

from __future__ import annotations

import pytest

from gantrymq.broker.tables.offsets import ConsumerOffsets
from gantrymq.model.queue import Queue


@pytest.fixture
def offsets(clock):
    return ConsumerOffsets(3, clock.now_ms, clock.monotonic)


def test_what_was_never_committed_is_none_not_zero(offsets):
    assert offsets.committed("CG", Queue("T", 0)) is None
    offsets.commit("CG", Queue("T", 0), 0)
    assert offsets.committed("CG", Queue("T", 0)) == 0
    assert offsets.committed("CG", Queue("T", 1)) is None


def test_lower_offsets_are_taken_too(offsets):
    offsets.commit("CG", Queue("T", 0), 9)
    offsets.commit("CG", Queue("T", 0), 2)
    assert offsets.table == {"T@CG": {0: 2}}


def test_the_last_movement_is_a_new_offset_another_client_or_one_that_was_silent(offsets, clock):
    queue, one, two = Queue("T", 0), ("10.0.0.1", 1), ("10.0.0.2", 1)
    moved = []

    def pull(by, after_s):
        clock.advance(after_s)
        moved.append(offsets.pulled("A", queue, 7, clock.monotonic(), by).moved_at - began)

    began = clock.monotonic()
    pull(one, 0)
    pull(one, 20)
    offsets.commit("A", queue, 3)
    pull(one, 20)
    offsets.commit("A", queue, 3)  # a repetition
    offsets.commit("B", queue, 4)
    pull(one, 20)
    pull(two, 20)
    pull(two, 20)
    pull(two, 61)
    assert moved == [0, 0, 20, 20, 80, 80, 161]


def test_an_offset_moves_without_a_pull_since_the_start(offsets, clock):
    """A member that holds many messages commits for long before it pulls from a broker that was restarted."""
    queue = Queue("T", 0)
    clock.advance(5)
    offsets.commit("A", queue, 3)  # perhaps by a tool
    last = offsets.last_pull("A", queue)
    assert (last.next_offset, last.moved_at) == (-1, 0)
    clock.advance(5)
    offsets.commit("A", queue, 4)
    assert (last.next_offset, last.moved_at) == (-1, clock.monotonic())
    offsets.reset("A", queue, 2)
    assert last.next_offset == -1  # nothing was handed out
    clock.advance(5)
    assert offsets.pulled("A", queue, 7, clock.monotonic(), None) is last and last.moved_at == clock.monotonic()


def test_the_version_moves_once_per_set_number_of_commits(offsets):
    for number in range(7):
        offsets.commit("CG", Queue("T", 0), number)
    assert offsets.version.counter == 2
    assert offsets.dirty


def test_repeated_commits_are_counted_but_not_saved(offsets):
    offsets.commit("CG", Queue("T", 0), 5)
    assert taken_from(offsets) == ((), {"T@CG": {0: 5}})
    offsets.commit("CG", Queue("T", 0), 5)
    assert offsets.repeats("CG", Queue("T", 0), 5)
    assert (offsets.version.counter, offsets.dirty, taken_from(offsets)) == (1, False, ((), {}))
    for group, queue, at in (("CG", Queue("T", 0), 4), ("CG", Queue("T", 1), 5), ("Other", Queue("T", 0), 5)):
        assert not offsets.repeats(group, queue, at)
    offsets.commit("CG", Queue("T", 0), 4)
    assert (offsets.dirty, taken_from(offsets)) == (True, ((), {"T@CG": {0: 4}}))


def test_a_commit_repeats_nothing_while_a_reset_is_pending(offsets):
    offsets.reset("CG", Queue("T", 0), 4)
    assert not offsets.repeats("CG", Queue("T", 0), 4)


def test_groups_and_topics_find_each_other(offsets):
    for topic, group in (("T", "A"), ("T", "B"), ("U", "A"), ("%RETRY%A", "A")):
        offsets.commit(group, Queue(topic, 0), 1)
    assert offsets.groups_of("T") == ["A", "B"]
    assert offsets.topics_of("A") == ["T", "U", "%RETRY%A"]


def test_a_deleted_topic_or_group_is_forgotten_alone(offsets):
    for topic, group in (("T", "A"), ("T", "B"), ("TT", "A"), ("U", "AA")):
        offsets.commit(group, Queue(topic, 0), 1)
    offsets.forget_topic("T")
    assert sorted(offsets.table) == ["TT@A", "U@AA"]
    offsets.forget_group("A")
    assert sorted(offsets.table) == ["U@AA"]


def test_the_offsets_of_one_group_on_one_topic_are_forgotten_alone(offsets):
    for group, topic in (("A", "T"), ("A", "U"), ("B", "T")):
        offsets.commit(group, Queue(topic, 0), 5)
        offsets.pulled(group, Queue(topic, 0), 7, 0.0, None)
        offsets.reset(group, Queue(topic, 0), 4)
    taken_from(offsets)
    assert (offsets.forget("A", "T"), offsets.forget("A", "T")) == ({0: 4}, {})
    assert sorted(offsets.table) == ["T@B", "U@A"]
    assert taken_from(offsets) == (("T@A",), {})
    pulls = [offsets.last_pull(*each).next_offset for each in (("A", Queue("T", 0)), ("B", Queue("T", 0)))]
    assert pulls == [-1, 4]
    resets = [
        offsets.pending_reset(*each) for each in (("A", Queue("T", 0)), ("A", Queue("U", 0)), ("B", Queue("T", 0)))
    ]
    assert resets == [None, 4, 4]


def test_offsets_behind_the_end_of_their_queue_are_cut_back(offsets):
    ends = {Queue("T", 0): 7, Queue("T", 1): 3}
    for queue_id, at in ((0, 7), (1, 5), (2, 9)):
        offsets.commit("CG", Queue("T", queue_id), at)
    offsets.dirty = False
    ((said,),) = offsets.cut_back(ends.get)
    assert said == (
        "group CG had committed 5 in queue T/1, which ends at 3: 2 consumed messages are lost, it continues at 3"
    )
    assert offsets.table == {"T@CG": {0: 7, 1: 3, 2: 9}}
    assert offsets.dirty


def taken_from(offsets):
    gone, changed = offsets.take_changes()
    return gone, dict(changed)


def test_what_changed_is_told_once_and_as_copies(offsets):
    offsets.load({"T@A": {0: 1}, "U@A": {0: 1}}, offsets.version)
    assert taken_from(offsets) == ((), {"T@A": {0: 1}, "U@A": {0: 1}})
    assert taken_from(offsets) == ((), {})
    offsets.commit("A", Queue("T", 0), 2)
    offsets.copy("T", "A", "B")
    taken = taken_from(offsets)
    assert not offsets.dirty
    offsets.commit("A", Queue("T", 0), 3)
    assert offsets.dirty
    assert taken == ((), {"T@A": {0: 2}, "T@B": {0: 2}})
    list(offsets.cut_back({Queue("T", 0): 2}.get))
    assert taken_from(offsets) == ((), {"T@A": {0: 2}})


def test_what_goes_while_changes_are_copied_is_left_out(offsets):
    offsets.load({"T@A": {0: 1}, "U@A": {0: 1}}, offsets.version)
    gone, changed = offsets.take_changes()
    assert next(changed) == ("T@A", {0: 1})
    offsets.forget_topic("U")
    offsets.commit("A", Queue("T", 0), 2)
    assert (gone, list(changed)) == ((), [])
    assert taken_from(offsets) == (("U@A",), {"T@A": {0: 2}})


def test_what_went_and_came_again_comes_last(offsets):
    offsets.load({"T@A": {0: 1}, "U@A": {0: 1}}, offsets.version)
    offsets.take_changes()
    offsets.commit("A", Queue("T", 0), 5)
    offsets.forget_topic("T")
    offsets.commit("B", Queue("V", 0), 1)
    offsets.take_reset("A", Queue("T", 0))
    offsets.commit("A", Queue("T", 0), 0)
    gone, changed = taken_from(offsets)
    assert (gone, list(changed)) == (("T@A",), ["V@B", "T@A"])
    assert list(offsets.table) == ["U@A", "V@B", "T@A"]
    offsets.forget_group("A")
    assert taken_from(offsets) == (("U@A", "T@A"), {})
    assert offsets.groups_of("T") == offsets.topics_of("A") == []


def test_a_deleted_topic_looks_at_no_other(offsets):
    asked = []

    class Watched(dict):
        def __iter__(self):
            asked.append("table")
            return super().__iter__()

    for number in range(3):
        offsets.commit("A", Queue(f"T{number}", 0), 1)
        offsets.pulled("A", Queue(f"T{number}", 0), 7, 0.0, None)
        offsets.reset("A", Queue(f"T{number}", 0), 4)
    offsets._table = Watched(offsets._table)
    offsets.forget_topic("T1")
    assert asked == []
    assert [offsets.last_pull("A", Queue(f"T{number}", 0)).next_offset for number in range(3)] == [4, -1, 4]
    assert [offsets.take_reset("A", Queue(f"T{number}", 0)) for number in range(3)] == [4, 0, 4]
    assert offsets.take_reset("A", Queue("T0", 0)) is None


def test_readers_of_deleted_topics_are_kept_in_mind_up_to_a_bound(offsets, monkeypatch):
    monkeypatch.setattr("gantrymq.broker.tables.offsets.MOST_LEFT", 2)
    for number in range(4):
        offsets.pulled("A", Queue(f"T{number}", 0), 7, 0.0, None)
        offsets.commit("B", Queue(f"T{number}", 1), 7)
        offsets.forget_topic(f"T{number}")
    found = [(offsets.take_reset("A", Queue(f"T{n}", 0)), offsets.take_reset("B", Queue(f"T{n}", 1))) for n in range(4)]
    assert found == [(None, None), (None, None), (0, 0), (0, 0)]
    offsets.forget_topic("never-read")
    assert list(offsets._left) == ["T2", "T3"]
