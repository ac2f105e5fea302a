"""Folders, files and clocks: who may use a log, what a crash leaves behind, and where a recovery begins."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import attrs
import pytest
from crash_rig.lives import Life, plugins
from crash_rig.starts import NEW, ROOT, SIZES, Starts
from crash_rig.story import Story, tell

from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import StoreLocked
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, PutStatus, StoreContext, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq.world import File, Files
from gantrymq.world.real import RealFiles, real_world

A, B = Queue("PlacesA", 0), Queue("PlacesB", 0)
DAY_MS = 24 * 3600 * 1000


# --- 7: one log, two stores -------------------------------------------------------------------------------------------


def test_a_log_that_another_store_uses_is_locked(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def first(life: Life) -> None:
            await story.send(life, A, 3)

            async def second(life: Life) -> None:
                await story.send(life, B, 3)

            with pytest.raises(StoreLocked, match="/shared/log"):
                await story.live(second, storePathRootDir="/other", storePathCommitLog="/shared/log")
            await story.send(life, A, 3)
            await story.judge(life)

        await story.live(first, storePathCommitLog="/shared/log")
        await story.live(story.judge, storePathCommitLog="/shared/log")  # and is free again after a stop

    tell(starts.get(NEW), tale)


# --- 8: what crashes leave --------------------------------------------------------------------------------------------


def test_crashes_do_not_pile_up_index_files(starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 20)
            await life.world.clock.sleep(5)

        left = []
        for _ in range(8):
            await story.live(day, end="kill")
            left.append(len(index_files(story.machine.inner, ROOT / "recovered")))
        assert left[-1] <= 2, left

    tell(starts.get(NEW), tale)


def index_files(files: Files, folder: Path) -> list[Path]:
    """Return the files below *folder* that are in a folder ``index``."""
    found = []
    for name in files.list(folder):
        stat = files.stat(folder / name)
        if stat is not None and stat.is_dir:
            found += index_files(files, folder / name)
        elif folder.name == "index":
            found.append(folder / name)
    return found


# --- 9: a file system that cannot reserve -----------------------------------------------------------------------------


class WithoutReservation(RealFiles):
    """A file system without fallocate: the C library writes a byte into each block that holds none, as slow as that is.

    The second log file is still being filled by its thread when the first is full. The bytes that the thread is about
    to write were looked at before.

    Source: glibc sysdeps/posix/posix_fallocate.c.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loop_thread = threading.current_thread()
        self.filling = threading.Event()  # a thread is in the middle of a file
        self.go_on = threading.Event()
        self.filled = threading.Event()  # that thread has written its bytes

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        opened = super().open(path, create=create, read_only=read_only)
        return _Slow(opened, self) if create and Path(path).parent.name == "commitlog" else opened


class _Slow:
    def __init__(self, inner: File, files: WithoutReservation) -> None:
        self._inner, self._files = inner, files

    def allocate(self, length: int) -> None:
        inner, files = self._inner, self._files
        ends = [end - 1 for end in range(4096, length + 1, 4096)]
        empty = [end for end in ends if inner.pread(1, end) in (b"", b"\0")]
        slow = threading.current_thread() is not files.loop_thread and inner.path.name != f"{0:020d}"
        if slow:
            files.filling.set()
            files.go_on.wait(0.3)  # so that waiting for the end of this thread ends
        for end in empty:
            inner.pwrite(b"\0", end)
        if slow:
            files.filled.set()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def test_a_log_file_in_use_is_not_filled_with_zeros_any_more(tmp_path: Path) -> None:
    bodies: list[bytes] = []
    found: list[bytes] = []

    async def main() -> None:
        files = WithoutReservation()
        world = attrs.evolve(real_world(), files=files)
        settings = Settings([*SCHEMA, *plugins().config], SIZES)
        store = plugins().stores["mmap"](StoreContext(world, tmp_path / "store", settings))
        await store.start()
        for number in range(12):  # into the second file
            body = bytes([number + 1]) * 2000
            (result,) = store.put([StoreMessage("A", 0, body, b"")])
            assert result.status is PutStatus.OK, result.problem
            bodies.append(body)
            if number == 0:
                await world.workers.run(files.filling.wait, 1.0)  # the thread is at the second file
        files.go_on.set()
        await store.flushed(result.end)
        store.publish(result.end)
        if files.filling.is_set():
            assert await world.workers.run(files.filled.wait, 60.0)
        at = 0
        while at < len(bodies):
            got = store.get(Queue("A", 0), at, GetLimit(), None)
            got = await got if asyncio.iscoroutine(got) or isinstance(got, asyncio.Future) else got
            found.extend(bytes(record.body) for buffer in got.buffers for record in iter_records(buffer))
            assert got.next_offset > at
            at = got.next_offset
        await store.stop()
        await world.workers.close()

    asyncio.run(main())
    assert found == bodies


# --- 10: a clock that jumps -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["kill", "power"])
def test_a_clock_that_was_a_day_ahead_for_a_moment_does_not_make_recoveries_long(end: str, starts: Starts) -> None:
    async def tale(story: Story) -> None:
        async def day(life: Life) -> None:
            await story.send(life, A, 30)
            life.set_clock(DAY_MS)
            await story.send(life, A, 3, pause_s=0.5)
            life.set_clock(0)
            for _ in range(4):
                await story.send(life, A, 100)  # four log files
                await life.world.clock.sleep(30)
            await story.send(life, A, 5)

        async def look(life: Life) -> None:
            assert life.report is not None
            assert life.report.records_checked < 150, life.report
            await story.judge(life)

        await story.live(day, end=end, flushConsumeQueueThoroughInterval=5000)
        await story.live(look)

    tell(starts.get(NEW), tale)
