import asyncio
import os
import shutil

import pytest

from gantrymq.errors import StoreDamaged, StoreError, StoreLayoutError, StoreLocked, StoreReadOnly
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.recovery import recovery
from gantrymq_testing.store_contract_bench import START_MS, message


def filled(rig, count=20):
    async def case(bench):
        if count:
            await bench.add(*[message(body=b"x" * 1000) for _ in range(count)])

    rig.run(case)


def refuses(rig, error, says, **settings):
    async def case(bench):
        raise AssertionError("the store started")

    with pytest.raises(error, match=says):
        rig.run(case, **settings)
    # nothing stays locked or open: the same store starts once the cause is gone


def test_a_run_leaves_what_rocketmq_expects(rig):
    async def case(bench):
        assert (rig.root / "abort").read_bytes() == str(os.getpid()).encode()
        assert (rig.root / "lock").read_bytes() == b"lock"
        await bench.add(message())

    rig.run(case)
    of_rocketmq = ["checkpoint", "commitlog", "consumequeue", "lock"]
    assert sorted(path.name for path in rig.root.iterdir()) == sorted(
        [*of_rocketmq, "checkpoint.json", "delayLevels.json"]
    )
    assert (rig.root / "checkpoint").read_bytes()[:40] == START_MS.to_bytes(8, "big") * 2 + bytes(24)
    assert (rig.root / "checkpoint").stat().st_size == 4096


def test_a_second_store_on_the_folder_is_refused(rig):
    async def case(bench):
        with pytest.raises(StoreLocked, match="in use by another broker"):
            await rig.make().start()
        await bench.add(message())

    rig.run(case)
    rig.run(case)


async def cancelled_start(rig, store):
    """Cancel a start while its thread opens the files; return when the thread has done so and the start has ended."""
    rig.workers.held_runs = True
    start = asyncio.ensure_future(store.start())
    await asyncio.sleep(0)
    rig.workers.step()  # creates the folders
    for _ in range(3):
        await asyncio.sleep(0)
    rig.workers.held_runs = False
    for _ in range(3):
        start.cancel()
        await asyncio.sleep(0)
    with pytest.raises(StoreLocked, match="in use by another broker"):
        await rig.make().start()
    rig.workers.step()
    with pytest.raises(asyncio.CancelledError):
        await start


def test_a_cancelled_start_keeps_the_lock_until_its_thread_ends_and_stops_cleanly(rig):
    filled(rig)
    asyncio.run(cancelled_start(rig, rig.make()))
    assert not (rig.root / "abort").exists()

    async def stopped_cleanly(bench):
        assert bench.report.clean

    rig.run(stopped_cleanly)


def test_a_cancelled_start_ends_a_recovery_that_the_next_start_begins_again(rig, monkeypatch):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(20)])

    rig.kill(case)
    monkeypatch.setattr(recovery, "PROGRESS_S", 0.0)
    said = []
    asyncio.run(cancelled_start(rig, rig.make(said.append)))
    assert not said
    assert (rig.root / "abort").exists()

    async def recovered(bench):
        assert bench.report.records_checked == 20

    rig.run(recovered)


def test_log_files_of_another_size_name_the_key_and_the_size(rig):
    filled(rig)
    refuses(rig, StoreLayoutError, "set mappedFileSizeCommitLog=8192 for this store", mappedFileSizeCommitLog=65536)
    refuses(rig, StoreLayoutError, "set mappedFileSizeCommitLog=8192 for this store", mappedFileSizeCommitLog=4096)
    filled(rig)


@pytest.mark.parametrize("which", [0, -1])
def test_a_truncated_log_file_is_no_reason_to_change_the_size_of_all(rig, which):
    filled(rig)
    file = sorted((rig.root / "commitlog").iterdir())[which]
    content = file.read_bytes()
    file.write_bytes(content[:3000])
    refuses(
        rig, StoreDamaged, f"{file.name} has 3000 bytes, others have 8192: it was truncated .* store repair {rig.root}"
    )
    file.write_bytes(content)
    filled(rig)


def test_queue_files_of_another_size_name_the_key_and_the_size(rig):
    filled(rig)
    refuses(rig, StoreLayoutError, "set mappedFileSizeConsumeQueue=400 for this store", mappedFileSizeConsumeQueue=6000)
    filled(rig)


def test_a_stray_file_in_the_log_is_named(rig):
    filled(rig)
    (rig.root / "commitlog" / "backup.tar").touch()
    refuses(rig, StoreLayoutError, r"commitlog/backup.tar does not belong")


def test_a_folder_in_the_log_is_ignored(rig):
    filled(rig)
    (rig.root / "commitlog" / "lost+found").mkdir()
    filled(rig)


def test_an_empty_last_log_file_is_removed(rig):
    filled(rig)
    rig.log(24576).touch()
    if rig.log(32768).exists():
        rig.log(32768).unlink()
    filled(rig, 0)


def test_a_log_file_missing_in_the_middle_is_named(rig):
    filled(rig)
    rig.log(8192).unlink()
    refuses(rig, StoreDamaged, f"{8192:020d} is missing between {0:020d} and {16384:020d}")


def test_a_rocksdb_store_is_refused(rig):
    (rig.root / "consumequeue").mkdir(parents=True)
    (rig.root / "consumequeue" / "CURRENT").write_bytes(b"MANIFEST-000004\n")
    refuses(rig, StoreLayoutError, "RocksDB")


def test_a_folder_that_cannot_be_written_is_refused(rig):
    rig.faults.failing["lock"] = 30
    refuses(rig, StoreReadOnly, "cannot be written")


def test_a_root_that_is_a_file_is_refused(rig):
    rig.root.parent.mkdir(exist_ok=True)
    rig.root.write_bytes(b"")
    refuses(rig, StoreReadOnly, "cannot be written")


def test_a_disk_that_fails_while_opening_is_a_store_error(rig):
    filled(rig)
    rig.faults.failing["open"] = rig.BROKEN
    refuses(rig, StoreError, "cannot be opened")
    rig.faults.failing.clear()
    filled(rig)


def test_a_note_of_deleted_topics_that_cannot_be_read_is_refused(rig):
    filled(rig)
    (rig.root / "droppedTopics.json").write_bytes(b'{"T": ')
    refuses(rig, StoreDamaged, r"droppedTopics.json is not a JSON object")


def test_the_log_may_lie_elsewhere_and_what_is_cut_off_is_kept_beside_it(rig, tmp_path):
    elsewhere = tmp_path / "disk" / "log"

    async def case(bench):
        await bench.add(message(), message())

    rig.kill(case, storePathCommitLog=str(elsewhere))
    rig.patch(elsewhere / ("0" * 20), 100, b"\xff")

    async def after(bench):
        (kept,) = [path for path in bench.report.kept if "log" in path][:1]
        assert kept.startswith(str(tmp_path / "disk" / "recovered"))

    rig.run(after, storePathCommitLog=str(elsewhere))
    assert not (rig.root / "commitlog").exists()


def test_stop_can_be_called_twice_and_before_start(rig):
    async def case():
        store = rig.make()
        await store.stop()
        await store.start()
        await store.stop()
        await store.stop()
        assert store.state().refusal == "the store is not running"

    asyncio.run(case())


def test_a_stop_publishes_what_waits_for_its_gates(rig):
    async def case(bench):
        bench.store.put([message()])

    rig.run(case)

    async def after(bench):
        assert bench.report.clean
        assert bench.store.bounds(Queue("T", 0)).max_offset == 1

    rig.run(after)


def test_sparse_files_of_a_java_store_are_reserved_before_they_are_written(rig):
    filled(rig, 3)
    data = rig.log().read_bytes()
    shutil.copy(rig.log(), rig.root / "copy")
    with open(rig.log(), "wb") as file:
        file.write(data.rstrip(b"\0"))
        file.truncate(8192)
    before = rig.faults.calls["allocate"]
    filled(rig, 0)
    assert rig.faults.calls["allocate"] == before + 1
    assert rig.log().read_bytes() == data


def test_after_a_crash_asynchronous_flush_says_what_may_be_missing(rig):
    for keys, told in (({"flushDiskType": "ASYNC_FLUSH"}, 1), ({"flushDiskType": "SYNC_FLUSH"}, 0), ({}, 0)):
        rig.root = rig.root.with_name(f"store{len(keys)}{told}")

        async def case(bench):
            await bench.add(message())

        async def nothing(bench):
            pass

        rig.kill(case, **keys)
        rig.run(nothing, **keys)
        said = [line for line in rig.said if "acknowledged in the 10500 ms before may be gone" in line]
        assert len(said) == told
        rig.run(nothing, **keys)
        assert len([line for line in rig.said if "10500 ms" in line]) == told
        rig.said.clear()
