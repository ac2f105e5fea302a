from gantrymq.interfaces import PutStatus
from gantrymq.world.real import RealFiles
from gantrymq_storage_mmap.log.file import create_log_file
from gantrymq_testing.recording import RecordingFiles
from gantrymq_testing.store_contract_bench import message

HALF = message(body=b"h" * 4100)


def test_the_next_file_is_made_once_half_of_the_current_is_used(rig):
    async def case(bench):
        await bench.add(message())
        assert not rig.log(8192).exists()
        rig.workers.held = True
        bench.store.put([HALF])
        while rig.workers.waiting:
            rig.workers.step()
        assert rig.log(8192).read_bytes() == bytes(8192)
        made = rig.faults.calls["allocate"]
        (result,) = bench.store.put([HALF])
        assert result.log_offset == 8192
        assert rig.faults.calls["allocate"] == made

    rig.run(case)


def test_a_file_that_is_not_ready_is_made_on_the_spot(rig):
    async def case(bench):
        rig.workers.held = True
        results = bench.store.put([HALF, HALF, HALF])
        assert [result.log_offset for result in results] == [0, 8192, 16384]
        while rig.workers.waiting:
            rig.workers.step()  # the thread comes second and its file is dropped
        assert len(rig.log(8192).read_bytes().rstrip(b"\0")) > 4100
        bench.store.put([HALF])
        assert bench.store.state().max_log_offset == 24576 + HALF_BYTES

    rig.run(case)


HALF_BYTES = 4100 + 92


def test_a_full_disk_is_an_error_at_allocation_and_leaves_no_file(rig):
    async def case(bench):
        bench.store.put([message(body=b"x" * 100)])
        rig.faults.failing["allocate"] = rig.NO_SPACE
        fits, refused, small = bench.store.put([HALF, HALF, message(body=b"small")])
        assert (fits.status, small.status) == (PutStatus.OK, PutStatus.OK)
        assert refused.status is PutStatus.CREATE_FILE_FAILED
        assert "No space left" in refused.problem
        assert not rig.log(8192).exists()
        assert any("could not be preallocated" in sentence for sentence in rig.said)
        asked = rig.faults.calls["allocate"]
        bench.store.put([message(body=b"small")])
        assert rig.faults.calls["allocate"] == asked  # not tried again for every message
        (refused,) = bench.store.put([HALF])
        assert refused.status is PutStatus.DISK_FULL
        assert refused.problem == bench.store.state().refusal
        assert "the next commit log file of 8192 bytes finds no room" in refused.problem
        assert rig.faults.calls["allocate"] == asked
        rig.faults.failing.clear()
        bench.store._watch.tick()  # the next look at the disk
        (result,) = bench.store.put([HALF])
        assert (result.status, result.log_offset) == (PutStatus.OK, 8192)

    rig.run(case)


def test_a_file_made_and_not_used_is_taken_over_by_the_next_start(rig):
    async def case(bench):
        await bench.add(HALF)

    rig.run(case)
    assert rig.log(8192).read_bytes() == bytes(8192)

    async def again(bench):
        assert bench.report.notes == ()
        (result,) = await bench.add(HALF)
        assert result.log_offset == 8192

    rig.run(again)


def test_the_length_of_a_log_file_is_durable_before_its_name(rig):
    files = RecordingFiles(RealFiles())
    rig.root.mkdir()
    create_log_file(files, rig.root, 0, 8192).close()
    calls = [call.name for call in files.calls]
    assert calls.index("allocate") < calls.index("datasync.end") < calls.index("sync_dir")
