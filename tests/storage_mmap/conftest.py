"""A rig for the store: a world whose files can fail and whose worker threads can be held."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest

# Makes `import retention_rig` work whatever import mode pytest runs in.
if str(Path(__file__).parent) not in sys.path:
    sys.path.append(str(Path(__file__).parent))  # last: the golden tests have a test_queues too

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq.world.real import RealFiles, real_world
from gantrymq.world.workers import resolve_future
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_store_files.check import check_bytes
from gantrymq_store_files.index import IndexHeader, IndexLayout, write_header
from gantrymq_store_files.index_hash import index_hash, index_keys
from gantrymq_store_files.index_table import IndexTable
from gantrymq_testing.store_contract_bench import StandingClock, StoreBench

KEYS = (
    *SCHEMA,
    Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"),
    Setting("flushDiskType", "text", "SYNC_FLUSH", "declared by the broker"),
)


class Stopped(BaseException):
    """The process ended here."""


class Faults:
    """Counts calls; a method named in ``failing`` raises that error number (for paths that contain ``only``)."""

    def __init__(self):
        self.calls = Counter()
        self.failing = {}
        self.only = ""
        self.once, self.once_number = "", 0  # a method that raises this error number at its next call only,
        self.once_skips = 0  # or at a later one
        self.cached = False  # whether read data counts as being in memory
        self.volumes = True  # whether there is a ``syncfs``
        self.stop_at = 0  # number of the call before which the process ends, 0 for never

    def check(self, name, path):
        self.calls[name] += 1
        if name == self.once and self.once_skips:
            self.once_skips -= 1
        elif name == self.once:
            self.once = ""
            raise OSError(self.once_number, os.strerror(self.once_number), str(path))
        if self.stop_at and self.calls.total() >= self.stop_at:
            raise Stopped
        if name in self.failing and self.only in str(path):
            number = self.failing[name]
            raise OSError(number, os.strerror(number), str(path))


class RigFile:
    def __init__(self, inner, faults):
        self._inner, self._faults = inner, faults
        self.path = inner.path

    def pread_cached(self, length, position):
        self._faults.check("pread_cached", self.path)
        return self._inner.pread(length, position) if self._faults.cached else None

    def close(self):
        self._inner.close()

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        def call(*args):
            self._faults.check(name, self.path)
            return method(*args)

        return call


class RigVolume:
    """Syncs nothing: a real file system also contains data of other programs."""

    def __init__(self, faults, folder):
        self._faults, self._folder = faults, folder

    def sync(self):
        self._faults.check("syncfs", self._folder)

    def close(self):
        pass


class RigFiles:
    def __init__(self, faults):
        self._inner, self._faults = RealFiles(), faults

    def open(self, path, *, create=False, read_only=False):
        self._faults.check("create" if create else "open", Path(path))
        return RigFile(self._inner.open(path, create=create, read_only=read_only), self._faults)

    def watch(self, folder):
        return RigVolume(self._faults, folder) if self._faults.volumes else None

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        def call(path, *args):
            self._faults.check(name, path)
            return method(path, *args)

        return call


class RigWorkers:
    """Runs work at once, or, while ``held``, at `step`; awaited work is held only with ``held_runs``."""

    def __init__(self):
        self.held = self.held_runs = False
        self.waiting = []

    async def run(self, work, *args):
        if not self.held_runs:
            return work(*args)
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((work, args, resolve_future(answer)))
        return await answer

    def submit(self, work, *args, done):
        if self.held:
            self.waiting.append((work, args, done))
        else:
            self._do(work, args, done)

    def step(self):
        self._do(*self.waiting.pop(0))

    @staticmethod
    def _do(work, args, done):
        try:
            result = work(*args)
        except Exception as error:
            done(None, error)
        else:
            done(result, None)

    async def close(self):
        pass


class Rig:
    def __init__(self, root):
        self.root = root
        self.faults = Faults()
        self.workers = RigWorkers()
        self.said = []
        self.bit_maps = {}
        self.batch_topics = frozenset()  # as in the broker's topics
        world = real_world()
        self.clock = StandingClock(world.clock)
        self.world = attrs.evolve(world, clock=self.clock, workers=self.workers, files=RigFiles(self.faults))

    def make(self, progress=lambda sentence: None, **settings):
        """A store that is not started; small files unless *settings* say otherwise."""
        sizes = {"mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 400, **settings}
        given = self.world, self.root, Settings(KEYS, sizes), self.said.append, progress
        return MmapStore(StoreContext(*given, has_batch_queues=self.batch_topics.__contains__, bit_maps=self.bit_maps))

    def run(self, case, **settings):
        """Run ``case(bench)`` with an open store, which is stopped cleanly afterwards."""

        async def inside():
            bench = StoreBench(lambda: self.make(**settings), self.clock)
            bench.report = await bench.store.start()
            try:
                await case(bench)
            finally:
                self.workers.held = self.workers.held_runs = False
                while self.workers.waiting:
                    self.workers.step()
                await bench.store.stop()

        asyncio.run(inside())

    def kill(self, case, *, stop_at=0, **settings):
        """Run ``case(bench)`` and drop the store like a killed process: nothing synced, ``abort`` left.

        Args:
            case: runs with the open store.
            stop_at: end the process before this call of the world's files; the result is True if that happened.
            settings: as for `make`.
        """
        store = self.make(**settings)

        async def inside():
            working = asyncio.current_task()

            def ended(loop, context):
                """Timers end the process too, but the event loop catches their exceptions."""
                if isinstance(context.get("exception"), Stopped):
                    working.cancel()
                else:
                    loop.default_exception_handler(context)

            asyncio.get_running_loop().set_exception_handler(ended)
            bench = StoreBench(lambda: store, self.clock)
            bench.report = await store.start()
            await case(bench)

        self.faults.calls.clear()
        self.faults.stop_at = stop_at
        try:
            asyncio.run(inside())
        except (Stopped, asyncio.CancelledError):
            return True
        finally:
            self.faults.stop_at = 0
            store._locks.release()
            store._close_files()
        return False

    @staticmethod
    def write_queues(bench):
        """Write every queue entry that is in memory only; asserts that it succeeds."""
        pending = bench.store._queues.pending
        pending.write_all()
        assert (pending.refusal, pending.waiting_bytes) == (None, 0)

    @classmethod
    async def checkpoint(cls, bench):
        """Take a checkpoint now, successful or not, and those that it triggers."""
        bench.store._checkpointer.request()
        await cls.checkpoint_ends(bench)

    @staticmethod
    async def checkpoint_ends(bench):
        """Wait for a running checkpoint, if any, and for those that it triggers."""
        while (task := bench.store._checkpointer._task) is not None:
            await asyncio.wait([task])

    def log(self, start=0):
        return self.root / "commitlog" / f"{start:020d}"

    def queue(self, topic="T", queue_id=0, start=0):
        return self.root / "consumequeue" / topic / str(queue_id) / f"{start:020d}"

    def index(self):
        """Contents of the index files by name, oldest first."""
        folder = self.root / "index"
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())} if folder.exists() else {}

    def index_of_log(self, slots, entries):
        """Return the expected content of the index files, oldest first, according to the log."""
        layout = IndexLayout(slots, entries)
        keys_found = []
        for path in sorted((self.root / "commitlog").iterdir()):
            data, place = memoryview(path.read_bytes()), 0
            while (record := check_bytes(data, place, int(path.name) + place).record) is not None:
                place += record.total_size
                for key in index_keys(bytes(record.properties_bytes), record.sys_flag):
                    keys_found.append(
                        (index_hash(record.topic, key.decode()), record.log_offset, record.store_timestamp)
                    )
        files, header = [], IndexHeader()
        while keys_found:
            table = IndexTable(layout, header)
            put = table.put(*(list(column) for column in zip(*keys_found, strict=True)))
            data = bytearray(layout.file_bytes)
            data[:40] = write_header(table.header)
            data[40 : layout.entry_at(0)] = table.slot_bytes(0, slots)
            data[layout.entry_at(1) : layout.entry_at(1) + len(put.entries)] = put.entries
            files.append(bytes(data))
            keys_found, header = keys_found[put.taken :], table.header.following()
        return files

    def patch(self, path, position, data):
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(data)

    NO_SPACE = errno.ENOSPC
    BROKEN = errno.EIO


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path / "store")
