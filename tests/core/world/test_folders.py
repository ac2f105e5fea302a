"""Durable creation of folders."""

from pathlib import Path

import pytest

from gantrymq.world.files import make_durable_dirs
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.simulated import SimulatedFiles


def test_the_name_of_each_folder_that_was_missing_is_synced():
    files = RecordingFiles(SimulatedFiles(lambda: 0))
    files.make_dirs(Path("/a"))
    made = len(files.calls)
    make_durable_dirs(files, Path("/a/b/c"))
    assert [(call.name, str(call.path)) for call in files.calls[made:]] == [
        ("make_dirs", "/a/b/c"),
        ("sync_dir", "/a"),
        ("sync_dir", "/a/b"),
    ]


def test_a_folder_that_is_there_costs_a_look():
    files = RecordingFiles(SimulatedFiles(lambda: 0))
    files.make_dirs(Path("/a"))
    made = len(files.calls)
    make_durable_dirs(files, Path("/a"))
    assert files.calls[made:] == []


def test_a_file_of_that_name_is_an_error():
    files = SimulatedFiles(lambda: 0)
    files.open(Path("/a"), create=True).close()
    with pytest.raises(OSError, match="/a"):
        make_durable_dirs(files, Path("/a"))
    with pytest.raises(OSError, match="/a"):
        make_durable_dirs(files, Path("/a/b"))
