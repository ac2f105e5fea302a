"""Behaviour of the simulated disk only: a disk that fills up, and the trace."""

import errno
from pathlib import Path

import pytest

from gantrymq_testing.simulated import SimulatedFiles, Trace

PATH = Path("/a")
full = pytest.raises(OSError, check=lambda error: error.errno == errno.ENOSPC)


def make(capacity):
    return SimulatedFiles(lambda: 5, capacity=capacity)


def test_allocation_takes_room_and_a_full_disk_refuses_it_whole():
    files = make(5 * 4096)
    opened = files.open(PATH, create=True)
    opened.allocate(4 * 4096)
    assert files.disk_use(PATH) == (5 * 4096, 4096, 4096)
    with full:
        opened.allocate(6 * 4096)
    assert opened.size() == 4 * 4096
    assert files.disk_use(PATH).free == 4096


def test_a_hole_takes_no_room_until_it_is_written():
    files = make(2 * 4096)
    opened = files.open(PATH, create=True)
    opened.truncate(1 << 30)
    assert files.disk_use(PATH).free == 2 * 4096
    opened.pwrite(b"ab", 4095)
    assert files.disk_use(PATH).free == 0
    opened.pwrite(b"ab", 4095)
    with full:
        opened.pwrite(b"c", 8192)
    assert opened.pread(1, 8192) == b"\0"


def test_capacity_can_change_while_the_world_runs():
    files = make(4096)
    opened = files.open(PATH, create=True)
    opened.allocate(4096)
    files.capacity = 0
    assert files.disk_use(PATH).free == 0
    with full:
        files.replace(Path("/b"), b"x")
    assert files.list(Path("/")) == ["a"]
    files.capacity = 2 * 4096
    files.replace(Path("/b"), b"x")


def test_room_comes_back_with_the_last_holder():
    files = make(4096)
    opened = files.open(PATH, create=True)
    opened.allocate(4096)
    files.remove(PATH)
    assert files.disk_use(PATH).free == 0
    opened.close()
    assert files.disk_use(PATH).free == 4096


def test_cutting_a_file_gives_whole_blocks_back():
    files = make(3 * 4096)
    opened = files.open(PATH, create=True)
    opened.allocate(3 * 4096)
    opened.truncate(4097)
    assert files.disk_use(PATH).free == 4096
    opened.truncate(0)
    assert files.disk_use(PATH).free == 3 * 4096


def test_a_file_that_replaces_another_frees_its_room():
    files = make(2 * 4096)
    for _ in range(5):
        files.replace(PATH, b"x" * 4096)
    assert files.disk_use(PATH).free == 4096


def test_modification_times_come_from_the_clock():
    now = [5]
    files = SimulatedFiles(lambda: now[0])
    opened = files.open(PATH, create=True)
    opened.allocate(10)
    now[0] = 6
    opened.pwrite(b"a", 0)
    assert files.stat(PATH).modified_ms == 6


def test_relative_and_dotted_paths_name_the_same_file():
    files = make(1 << 20)
    files.make_dirs(Path("x"))
    files.replace(Path("x/../a"), b"a")
    assert files.read(PATH) == b"a"


def test_the_trace_has_every_change_in_order():
    trace = Trace()
    files = SimulatedFiles(lambda: 5, trace)
    opened = files.open(PATH, create=True)
    opened.allocate(100)
    opened.pwrite(b"first", 7)
    opened.pwrite(b"written", 20)
    opened.datasync()
    files.rename(PATH, Path("/b"))
    files.link(Path("/b"), Path("/c"))
    files.remove(Path("/b"))
    assert [(event.kind, event.where, event.position, event.data) for event in trace.events] == [
        ("file.create", "/a", 0, b""),
        ("file.allocate", "/a", 100, b""),
        ("file.pwrite", "/a", 7, b"first"),
        ("file.pwrite", "/a", 20, b"written"),
        ("file.datasync", "/a", 0, b""),
        ("file.rename", "/a", 0, b"/b"),
        ("file.link", "/b", 0, b"/c"),
        ("file.remove", "/b", 0, b""),
    ]
