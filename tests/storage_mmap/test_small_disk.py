"""A file system of 16 MiB, filled and freed: a real disk's refusal, and how soon writes resume."""

import asyncio
import subprocess
import sys
import time

import pytest
from polling import until

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import PutStatus, StoreContext
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing.store_contract_bench import message

KEYS = (*SCHEMA, Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"))
MIB = 1024**2
BIG = message(body=b"b" * (400 * 1024))
PATIENCE_S = 20.0
LOW = {"diskSpaceWarningLevelRatio": 80}


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    if sys.platform != "linux":
        pytest.skip("only Linux has a tmpfs to mount")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "gantrymq-test", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def run(case, root, **settings):
    async def main():
        world, said = real_world(), []
        values = {"mappedFileSizeCommitLog": MIB, "mappedFileSizeConsumeQueue": 4000, **settings}
        store = MmapStore(StoreContext(world, root, Settings(KEYS, values), said.append))
        await store.start()
        try:
            await case(store, said)
        finally:
            await store.stop()
            await world.workers.close()

    asyncio.run(main())


async def until_refused(store, pause_s=0.001):
    async def refusal():
        (result,) = store.put([BIG])
        if result.status is not PutStatus.OK:
            return result
        await store.flushed(result.end)
        store.publish(result.end)
        return None

    return await until(refusal, "refusal", PATIENCE_S, poll_s=pause_s)


async def until_accepted(store):
    """Send a message all the time until it is accepted and published."""

    def accepted():
        (result,) = store.put([BIG])
        return result if result.status is PutStatus.OK else None

    result = await until(accepted, "accepted write", PATIENCE_S, poll_s=0.005)
    await store.flushed(result.end)
    store.publish(result.end)


async def resumed_s(store):
    """Return the seconds until a message is accepted, sending all the time."""
    began = time.monotonic()
    await until_accepted(store)
    return time.monotonic() - began


AT_ONCE = pytest.mark.parametrize("within_s", [PATIENCE_S, pytest.param(1, marks=pytest.mark.slow)])


@AT_ONCE
def test_no_room_for_the_next_log_file_then_room(small_disk, within_s):
    async def case(store, said):
        first = await until_refused(store)
        assert (first.status, "No space left on device" in first.problem) == (PutStatus.CREATE_FILE_FAILED, True)
        (second,) = store.put([message()])
        assert second.status is PutStatus.DISK_FULL
        assert second.problem == (
            f"the next commit log file of {MIB} bytes finds no room on the disk of {small_disk}/store/commitlog (No "
            "space left on device); free space; writes resume by themselves once there is room"
        )
        await asyncio.sleep(1)  # real time: a real disk is full, and the store tries again after each second
        assert store.put([message()])[0].status is PutStatus.DISK_FULL
        ballast.unlink()
        assert await resumed_s(store) <= within_s

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 * MIB))
    run(case, small_disk / "store", diskSpaceWarningLevelRatio=100, cleanFileForciblyEnable=False)


@AT_ONCE
def test_a_disk_above_the_ratio_then_below_it(small_disk, within_s):
    async def case(store, said):
        refused = await until_refused(store, pause_s=0.1)  # the disk is looked at in between
        assert refused.status is PutStatus.DISK_FULL
        assert refused.problem.startswith(f"the disk of {small_disk}/store/commitlog is 8")
        ballast.unlink()
        assert await resumed_s(store) <= within_s
        assert said[-1] == "there is room again, writes are accepted"

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8 * MIB))
    run(case, small_disk / "store", **LOW, cleanResourceInterval=50, cleanFileForciblyEnable=False)


def test_the_oldest_files_make_room_by_themselves(small_disk):
    async def case(store, said):
        for _ in range(100):  # 50 MiB of log on 16 MiB of disk
            await until_accepted(store)
            await asyncio.sleep(0.01)  # real time: rate of the load
        assert store.state().min_log_offset >= 30 * MIB

    run(case, small_disk / "store", cleanResourceInterval=50, deleteCommitLogFilesInterval=0)
