"""A full disk: the answers to senders, and that sends work again once there is space."""

import errno
import re
import time

import pytest
from faulty_broker import DEADLINE_S, LOG_FILE_BYTES
from polling import wait_until

from gantrymq.broker.tables import state_files
from gantrymq.remoting.codes import RequestCode
from gantrymq.world import DiskUsage
from gantrymq.world.real.file import RealFile
from gantrymq.world.real.files import RealFiles

MIB = 1024 * 1024
SMALL = {"mappedFileSizeCommitLog": MIB, "cleanFileForciblyEnable": False}
BODY = b"b" * (400 * 1024)


class Disk:
    """The simulated disk usage for every broker of this process."""

    def __init__(self):
        self.total, self.free, self.full = 1000 * MIB, 900 * MIB, False


@pytest.fixture
def disk(monkeypatch):
    made = Disk()
    allocate = RealFile.allocate

    def refuse_or_allocate(file, length):
        if made.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(file, length)

    monkeypatch.setattr(RealFiles, "disk_use", lambda files, path: DiskUsage(made.total, made.free, made.free))
    monkeypatch.setattr(RealFile, "allocate", refuse_or_allocate)
    return made


def answered(peer, is_wanted):
    """The first answer to a send that meets the condition."""
    answers = []

    def look():
        answers.append(peer.send("T", BODY))
        return answers[-1] if is_wanted(answers[-1]) else None

    return wait_until(look, "such answer", DEADLINE_S, lambda: f"{answers[-1].code} {answers[-1].remark}")


def refused(peer, cause):
    answer = answered(peer, lambda answer: answer.code == 14)
    figures = peer.ask(28).payload
    assert f'"storeRefusalCause":"{cause}"'.encode() in figures
    return answer


def served_again(peer):
    answered(peer, lambda answer: answer.code == 0)
    assert b"storeRefusalCause" not in peer.ask(28).payload


def test_bi109_a_disk_above_the_ratio(broker_with, row, disk, tmp_path):
    with broker_with(**SMALL, cleanResourceInterval=20).peer() as peer:
        disk.free = 50 * MIB
        answer = refused(peer, "disk_ratio")
        folder = tmp_path / "store" / "commitlog"
        row.check(answer.remark, answer.code, folder=folder, percent=95.0, ratio=90)
        disk.free = 900 * MIB
        served_again(peer)


def test_bi110_a_disk_with_too_little_free(broker_with, row, disk, tmp_path):
    limits = {"diskSpaceWarningLevelRatio": 100, "minFreeDiskBytes": 100 * MIB}
    with broker_with(**SMALL, cleanResourceInterval=20, **limits).peer() as peer:
        disk.free = 50 * MIB
        answer = refused(peer, "free_bytes")
        folder = tmp_path / "store" / "commitlog"
        row.check(answer.remark, answer.code, folder=folder, free=50 * MIB, limit=100 * MIB)
        disk.free = 900 * MIB
        served_again(peer)


def test_bi111_a_store_above_its_quota(broker_with, row, disk, tmp_path):
    with broker_with(**SMALL, cleanResourceInterval=20, storeQuotaBytes=3 * MIB).peer() as peer:
        answer = refused(peer, "store_quota")
        size = int(re.search(r"takes (\d+) bytes", answer.remark)[1])  # it may have been checked again since
        assert 3 * MIB < size < 4 * MIB
        row.check(answer.remark, answer.code, root=tmp_path / "store", size=size, quota=3 * MIB)
        assert peer.ask(25, body=f"storeQuotaBytes={100 * MIB}".encode()).code == 0
        served_again(peer)


def test_bi112_no_room_for_the_next_log_file(broker_with, row, disk, tmp_path):
    with broker_with(**SMALL).peer() as peer:
        disk.full = True
        first = answered(peer, lambda answer: answer.code != 0)
        assert (first.code, first.remark) == (1, "no new commit log file: [Errno 28] No space left on device")
        answer = refused(peer, "no_room")
        row.check(answer.remark, answer.code, size=MIB, folder=tmp_path / "store" / "commitlog")
        disk.full = False
        served_again(peer)


def test_bi135_offsets_that_could_not_be_saved(broker_with, row, monkeypatch, tmp_path):
    full, replace = [False], RealFiles.replace

    def refuse_or_replace(files, path, data, mode=None):
        if full[0] and path.name == "consumerOffset.json":
            raise OSError(errno.EIO, "Input/output error")
        replace(files, path, data, mode)

    monkeypatch.setattr(RealFiles, "replace", refuse_or_replace)
    monkeypatch.setattr(state_files, "MOST_UNSAVED_S", 0.0)
    with broker_with(flushConsumerOffsetInterval=100).peer() as peer:
        commit = {"consumerGroup": "G135", "topic": "T", "queueId": "0", "commitOffset": "0"}
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, b'{"groupName":"G135"}').code == 0
        assert peer.send("T").code == 0
        full[0] = True
        deadline = time.monotonic() + DEADLINE_S
        while (answer := peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)).code == 0:
            assert time.monotonic() < deadline
        row.check(
            answer.remark.replace("for 0 s", "for 60 s"),
            answer.code,
            group="G135",
            topic="T",
            queue=0,
            root=tmp_path / "store",
            why="Input/output error",
        )
        assert peer.send("T").code == 0
        full[0] = False
        while peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit).code != 0:
            assert time.monotonic() < deadline


def test_bi113_an_invalid_hour(program, row):
    row.check(*program.refusal("--set", "deleteWhen=4,5"), text="4,5", piece="'4,5'")


def test_bi114_a_quota_that_leaves_no_room(program, row):
    words = ("--set", f"storeQuotaBytes={3 * LOG_FILE_BYTES - 1}", "--set", f"mappedFileSizeCommitLog={LOG_FILE_BYTES}")
    least = 3 * LOG_FILE_BYTES
    row.check(*program.refusal(*words), quota=least - 1, least=least, size=LOG_FILE_BYTES)


def test_bi115_a_time_to_keep_messages_that_is_no_number(broker, row):
    with broker.peer() as peer:
        answer = peer.create_topic("NoTime", attributes="+reserve.time=-2")
        row.check(answer.remark, answer.code, topic="NoTime", value="-2")
