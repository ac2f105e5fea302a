"""The epoch list and its file."""

import random
from contextlib import suppress

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.errors import StoreDamaged
from gantrymq.world.real import real_world
from gantrymq_replication.election.epochs import NO_END, Epoch, EpochFile, EpochList, format_epochs, parse_epochs
from gantrymq_testing.failing_files import FailingFiles

JAVA_B_TAIL = [Epoch(1, 0), Epoch(2, 12072)]
JAVA_A = [Epoch(1, 0), Epoch(2, 12072), Epoch(3, 17342)]


@pytest.fixture
def file(tmp_path):
    return EpochFile(real_world().files, tmp_path / "epochFileCheckpoint")


def epochs(*pairs):
    return EpochList(Epoch(*pair) for pair in pairs)


def test_a_java_file_is_written_again_with_the_same_bytes(java):
    files = {name: text for name, text in java["files"].items() if "epochFile" in name}
    assert len(files) == 6
    for text in files.values():
        entries = parse_epochs(text.encode())
        assert entries and format_epochs(entries) == text.encode()


def test_changes_leave_the_files_that_java_leaves(java, file):
    found = epochs((1, 0))
    file.save(found)
    for entry in ((2, 12072), (3, 17342), (4, 20132)):
        assert found.append(*entry)
        file.save(found)
    assert file.path.read_text() == java["files"]["autoswitch-a/epochFileCheckpoint"]
    assert (file.path.parent / "epochFileCheckpoint.bak").read_text() == java["files"][
        "autoswitch-a/epochFileCheckpoint.bak"
    ]
    assert file.load() == (found, "")


def test_the_consistent_point_of_the_recorded_switch():
    """The slave had 8 messages that its new master never got; Java cut its log from 19822 to 17342."""
    assert EpochList(JAVA_B_TAIL).consistent_point(19822, JAVA_A, 19202) == 17342


@pytest.mark.parametrize(
    ("own", "own_end", "master", "master_end", "point"),
    [
        ([(1, 0)], 50, [(1, 0)], 80, 50),
        ([(1, 0)], 80, [(1, 0)], 50, 50),  # of the same epoch: the master lost its tail
        ([(1, 0), (2, 40)], 80, [(1, 0), (3, 40)], 90, 40),
        ([(1, 0), (2, 40)], 80, [(1, 0), (3, 30)], 90, 30),
        ([(1, 0), (2, 40)], 80, [(1, 0), (2, 45), (3, 50)], 90, 40),  # the same epoch, another start
        ([(2, 40)], 80, [(1, 0)], 50, None),
        ([(1, 0)], 80, [(2, 0)], 50, 0),
        ([(1, 0)], 80, [], 0, None),
        ([(1, 0), (2, 40)], 40, [(1, 0), (2, 40), (3, 40)], 70, 40),  # nothing was stored in epoch 2
        ([(0, 0)], 80, [(2, 0)], 50, None),  # records of fixed roles
        ([], 0, [(1, 0)], 50, None),
    ],
)
def test_consistent_points(own, own_end, master, master_end, point):
    assert epochs(*own).consistent_point(own_end, [Epoch(*each) for each in master], master_end) == point


def history(rng):
    """Logs of brokers that took turns as master: each is a list of (epoch, value), one offset an entry."""
    logs, lists = [[] for _ in range(3)], [EpochList() for _ in range(3)]
    for epoch in range(1, rng.randrange(2, 9)):
        master = rng.randrange(3)
        begin = lists[master].begin if rng.random() < 0.5 else lists[master].append
        begin(epoch, len(logs[master]))
        logs[master] += [(epoch, rng.random()) for _ in range(rng.randrange(3))]
        for slave in rng.sample(range(3), rng.randrange(3)):
            if slave == master:
                continue
            if lists[slave].entries:
                point = lists[slave].consistent_point(len(logs[slave]), lists[master].entries, len(logs[master]))
                if point is None:
                    continue
                del logs[slave][point:]
                lists[slave].cut_from_offset(point)
            else:
                logs[slave].clear()
            while (at := len(logs[slave])) < len(logs[master]) and rng.random() < 0.8:
                entry, _ = lists[master].at(at)
                lists[slave].append(*entry)
                logs[slave].append(logs[master][at])
    return logs, lists


def test_logs_are_equal_up_to_the_consistent_point():
    for seed in range(500):
        logs, lists = history(random.Random(seed))
        for slave in range(3):
            for master in range(3):
                point = lists[slave].consistent_point(len(logs[slave]), lists[master].entries, len(logs[master]))
                assert point is None or logs[slave][:point] == logs[master][:point], seed


def test_append_follows_javas_rule():
    found = epochs((1, 0), (2, 10))
    assert not found.append(2, 20) and not found.append(3, 10)
    assert found.append(3, 20) and found.last_epoch == 3


def test_a_master_of_ours_has_an_entry_for_its_epoch_and_keeps_those_without_a_record():
    found = epochs((1, 0), (2, 10))
    assert found.begin(3, 10) and found == epochs((1, 0), (2, 10), (3, 10))
    assert found.at(10) == (Epoch(3, 10), NO_END) and found.at(9) == (Epoch(1, 0), 10)
    # A slave of RocketMQ that followed epoch 2 has its entry, because heartbeats had it; it joins again.
    assert epochs((1, 0), (2, 10)).consistent_point(10, found.entries, 10) == 10
    assert not found.begin(3, 30)
    assert EpochList().last_epoch == -1


def test_cuts():
    found = epochs((1, 0), (2, 10), (5, 20))
    assert found.at(9) == (Epoch(1, 0), 10) and found.at(25)[0] == Epoch(5, 20) and EpochList().at(0) is None
    assert found.forget_before(10) and found == epochs((2, 10), (5, 20)) and not found.forget_before(19)
    assert found.at(5) is None
    assert not epochs((1, 0), (2, 0)).forget_before(0)
    assert not found.cut_from_offset(21) and found.cut_from_offset(20) and found == epochs((2, 10))
    assert found.cut_from_epoch(2) and found == EpochList()


def test_a_missing_file_is_an_empty_list(file):
    assert file.load() == (EpochList(), "")


DAMAGE = [
    (b"2\n1701049115\n1-0\n2-12073\n", "checksum does not match"),
    (b"3\n1701049115\n1-0\n2-12072\n", "2 of 3 epochs"),
    (b"2\n0\n2-0\n1-5\n", "not in ascending order"),
    (b"", "not a list of epochs"),
    (b"\0" * 30, "not a list of epochs"),
    (b"2\n1701049115\n1-0-7\n2-12072\n", "not a list of epochs"),
]


@pytest.mark.parametrize(("content", "why"), DAMAGE)
def test_a_damaged_file_is_told_in_a_sentence(file, content, why):
    file.path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=f"list of epochs .* cannot be read: .*{why}.* is missing. Restore it"):
        file.load()


def test_the_older_list_helps_a_slave_and_is_not_replaced_by_damage(file):
    file.save(epochs((1, 0)))
    file.save(epochs((1, 0), (2, 12072)))
    file.path.write_bytes(DAMAGE[0][0])
    found, problem = file.load()
    assert found == epochs((1, 0)) and "checksum" in problem and "must follow a master before it may be one" in problem
    file.save(epochs((1, 0), (4, 20)))
    assert file.path.with_name("epochFileCheckpoint.bak").read_bytes() == format_epochs([Epoch(1, 0)])
    assert file.load() == (epochs((1, 0), (4, 20)), "")


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("following", [[(1, 0), (2, 12072)], []])
def test_a_stop_at_any_call_leaves_the_old_list_or_the_new_one(tmp_path, following, done):
    files, path, outcomes = real_world().files, tmp_path / "epochFileCheckpoint", []
    for call in range(20):
        for each in tmp_path.iterdir():
            each.unlink()
        for entries in ([(1, 0)], [(1, 0), (2, 500)]):
            EpochFile(files, path).save(epochs(*entries))
        failing = FailingFiles(files, call, done=done)
        with suppress(OSError):
            EpochFile(failing, path).save(epochs(*following))
        if not failing.failed:
            break
        outcomes.append(EpochFile(files, path).load())
        assert outcomes[-1] in ((epochs((1, 0), (2, 500)), ""), (epochs(*following), ""))
    assert len(outcomes) >= 2


def test_a_checksum_of_0_is_not_checked():
    assert parse_epochs(b"1\n0\n7-5\n") == [Epoch(7, 5)]


def test_an_empty_list_leaves_no_file(file):
    file.save(epochs((1, 0)))
    file.save(EpochList())
    assert file.load() == (EpochList(), "") and not file.path.exists()
