"""Tests of the oracle of test_sync_before_reply.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from durability_rig.oracle import Disk

from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import SimulatedFiles

LOG = Path("/log/00000000000000000000")


@pytest.fixture
def files() -> RecordingFiles:
    files = RecordingFiles(SimulatedFiles(lambda: 0))
    files.make_dirs(LOG.parent)
    return files


def missing(files: RecordingFiles, start: int = 0, end: int = 10) -> str | None:
    disk = Disk()
    for call in files.calls:
        disk.see(call)
    return disk.missing(LOG, start, end)


def test_bytes_are_durable_once_a_sync_that_began_after_their_write_has_ended(files: RecordingFiles) -> None:
    file = files.open(LOG, create=True)
    assert missing(files) == "not written"
    file.pwrite(bytes(10), 0)
    assert missing(files) == "not synced"
    begun = files.note("datasync.begin", LOG)
    assert missing(files) == "not synced"
    file.pwrite(bytes(10), 10)
    files.note("datasync.end", LOG, begun=begun)
    assert missing(files) is None
    assert missing(files, 5, 15) == "not synced"
    file.datasync()
    assert missing(files, 5, 15) is None
    assert missing(files, 15, 25) == "not written"


def test_a_sync_of_another_file_and_one_that_failed_do_not_count(files: RecordingFiles) -> None:
    files.open(LOG, create=True).pwrite(bytes(10), 0)
    files.open(LOG.with_name("other"), create=True).datasync()
    files.note("datasync.fail", LOG, begun=files.note("datasync.begin", LOG))
    assert missing(files) == "not synced"


def test_a_new_file_needs_its_folder_synced(files: RecordingFiles) -> None:
    file = files.open(LOG, create=True)
    file.allocate(100)
    file.pwrite(bytes(10), 0)
    file.datasync()
    assert missing(files) == "in a file whose name is not synced"
    files.sync_dir(LOG.parent.parent)
    assert missing(files) == "in a file whose name is not synced"
    files.sync_dir(LOG.parent)
    assert missing(files) is None
