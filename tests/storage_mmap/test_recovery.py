from pathlib import Path

import pytest

from gantrymq.errors import StoreDamaged
from gantrymq.formats.queue_entry import ENTRY
from gantrymq.interfaces import Bounds
from gantrymq.model.queue import Queue
from gantrymq.testing.store_contract_bench import bodies, message

T0 = Queue("T", 0)


def fill(rig, count=6, kill=True, **more):
    """Messages of 1000-byte records on two queues; returns their results."""
    results = []

    async def case(bench):
        results.extend(
            await bench.add(
                *[message(queue_id=n % 2, body=b"%03d" % n + b"x" * 888, tag="A", **more) for n in range(count)]
            )
        )
        rig.write_queues(bench)
        assert results[0].size == 990

    (rig.kill if kill else rig.run)(case)
    return results


def recovered(rig, check):
    async def case(bench):
        await check(bench)

    rig.run(case)


def kept_bytes(report):
    return [Path(path).read_bytes() for path in report.kept]


def test_a_kill_loses_nothing_that_reached_the_page_cache(rig):
    results = fill(rig, 20)
    assert (rig.root / "abort").exists()

    async def check(bench):
        report = bench.report
        assert (report.clean, report.records_checked, report.log_end) == (False, 20, results[-1].end)
        assert (report.cut_bytes, report.kept, report.entries_rebuilt, report.notes) == (0, (), 0, ())
        assert bench.store.bounds(T0) == Bounds(0, 10)
        (more,) = await bench.add(message(body=b"more"))
        assert (more.queue_offset, more.log_offset) == (10, results[-1].end)

    recovered(rig, check)


def test_what_was_appended_but_never_published_is_visible_after_recovery(rig):
    async def case(bench):
        bench.store.put([message(body=b"late")])

    rig.kill(case)

    async def check(bench):
        assert bodies(await bench.read_all(T0)) == [b"late"]
        assert bench.report.entries_rebuilt == 1

    recovered(rig, check)


@pytest.mark.parametrize("cut_at", [4, 60, 300, 978, 985], ids=["head", "hosts", "body", "topic", "properties"])
def test_a_torn_record_ends_the_log_and_its_bytes_are_kept(rig, cut_at):
    results = fill(rig)
    last = results[-1]
    torn = rig.log().read_bytes()[last.log_offset : last.log_offset + cut_at]
    rig.patch(rig.log(), last.log_offset + cut_at, bytes(last.size - cut_at))

    async def check(bench):
        report = bench.report
        assert (report.records_checked, report.log_end) == (5, last.log_offset)
        assert report.cut_bytes == len(torn.rstrip(b"\0"))
        assert kept_bytes(report)[0] == torn.rstrip(b"\0")
        assert report.kept[0].endswith(f"commitlog/{last.log_offset:020d}")
        assert rig.log().read_bytes()[last.log_offset :] == bytes(8192 - last.log_offset)
        assert (bench.store.bounds(T0), bench.store.bounds(Queue("T", 1))) == (Bounds(0, 3), Bounds(0, 2))
        assert any("because of a write that did not finish" in note for note in report.notes)
        (again,) = await bench.add(message(queue_id=1))
        assert (again.queue_offset, again.log_offset) == (2, last.log_offset)

    recovered(rig, check)


def test_a_zeroed_sector_in_the_properties_is_noticed(rig):
    async def case(bench):
        await bench.add(message(), message(properties=b"KEYS\x01" + b"k" * 3000 + b"\x02"), message())

    rig.kill(case)
    rig.patch(rig.log(), 1024, bytes(512))

    async def check(bench):
        assert bench.report.records_checked == 1
        assert "zero bytes where text belongs" in bench.report.notes[0]
        assert bench.report.cut_bytes > 3000

    recovered(rig, check)


@pytest.mark.parametrize("at", [0, 5, 9, 30, 100], ids=["size", "magic", "crc", "log offset", "body"])
def test_a_flipped_bit_ends_the_log_and_all_behind_it_is_kept(rig, at):
    results = fill(rig, 12)
    victim = results[9]  # in the second file, the third follows
    data = rig.log(8192).read_bytes()
    place = victim.log_offset - 8192 + at
    rig.patch(rig.log(8192), place, bytes([data[place] ^ 0x10]))

    async def check(bench):
        report = bench.report
        assert (report.records_checked, report.log_end) == (9, victim.log_offset)
        assert report.cut_bytes == results[-1].end - victim.log_offset
        assert "because of damage" in report.notes[0]
        assert bench.store.bounds(T0).max_offset == 5

    recovered(rig, check)


def test_later_files_are_moved_aside_and_the_store_opens_again(rig):
    results = fill(rig, 30)
    rig.patch(rig.log(), 100, b"\xff\xff")
    whole = rig.log(16384).read_bytes()

    async def check(bench):
        report = bench.report
        assert report.log_end == 0
        assert not rig.log(8192).exists()
        assert [path[-20:] for path in report.kept[:4]] == [f"{at:020d}" for at in (0, 8192, 16384, 24576)]
        assert kept_bytes(report)[2] == whole
        await bench.add(message(body=b"new"))

    recovered(rig, check)
    assert results

    async def again(bench):
        assert bench.report.notes == ()
        assert bodies(await bench.read_all(T0)) == [b"new"]

    recovered(rig, again)


def test_old_bytes_behind_the_end_never_come_back(rig):
    """A sound record of the past that would follow a new one seamlessly is zeroed when the log is cut before it."""
    results = fill(rig, 6)
    rig.patch(rig.log(), results[2].log_offset + 200, b"????")
    same = message(body=b"002" + b"y" * 888, tag="A")

    async def check(bench):
        (result,) = await bench.add(same)
        assert result.end == results[3].log_offset

    async def killed(bench):
        await check(bench)

    rig.kill(killed)

    async def after(bench):
        assert bench.report.records_checked == 3

    recovered(rig, after)


def test_queues_that_are_missing_are_rebuilt_from_the_log(rig):
    fill(rig, 30, kill=False)
    before = {path: path.read_bytes() for path in (rig.root / "consumequeue").rglob("0*") if path.is_file()}
    for path in before:
        path.unlink()

    async def check(bench):
        assert bench.report.clean
        assert (bench.report.records_checked, bench.report.entries_rebuilt) == (30, 30)
        assert {path: path.read_bytes() for path in before} == before

    recovered(rig, check)


def test_one_missing_queue_is_rebuilt_in_full_though_the_checkpoint_is_recent(rig):
    async def case(bench):
        for n in range(30):
            bench.clock.now += 1000
            await bench.add(message(queue_id=n % 2, body=b"x" * 900))

    rig.run(case)
    before = rig.queue().read_bytes()
    rig.queue().unlink()
    (rig.root / "abort").touch()

    async def check(bench):
        assert bench.report.records_checked == 30
        assert rig.queue().read_bytes() == before
        assert "the whole log is read again" in bench.report.notes[0]

    recovered(rig, check)


def test_the_checkpoint_bounds_what_is_read(rig):
    async def case(bench):
        for _ in range(30):
            bench.clock.now += 1000
            await bench.add(message(body=b"x" * 900))

    rig.run(case)
    (rig.root / "abort").touch()

    async def check(bench):
        assert 3 < bench.report.records_checked < 15
        assert bench.store.bounds(T0) == Bounds(0, 30)

    recovered(rig, check)


def test_entries_that_are_wrong_or_torn_are_written_anew(rig):
    fill(rig, 12)
    before = rig.queue().read_bytes()
    rig.patch(rig.queue(), 20, ENTRY.pack(77, 5, 5))
    rig.patch(rig.queue(), 70, bytes(50))

    async def check(bench):
        assert rig.queue().read_bytes() == before
        assert bench.report.entries_rebuilt == 4

    recovered(rig, check)


def test_entries_ahead_of_the_log_are_cut_and_kept(rig):
    results = fill(rig, 6)
    ahead = ENTRY.pack(results[-1].end, 100, 0) * 2
    rig.patch(rig.queue(), 60, ahead)

    async def check(bench):
        assert bench.store.bounds(T0) == Bounds(0, 3)
        assert "without a record" in bench.report.notes[0]
        assert kept_bytes(bench.report)[0] == ahead.rstrip(b"\0")
        assert rig.queue().read_bytes()[60:] == bytes(340)

    recovered(rig, check)


def test_a_clean_store_whose_queue_points_nowhere_is_recovered_like_a_crashed_one(rig):
    fill(rig, 6, kill=False)
    rig.patch(rig.queue(), 40, ENTRY.pack(3000, 990, 0))
    rig.patch(rig.queue(queue_id=1), 40, ENTRY.pack(4001, 990, 0))

    async def check(bench):
        assert bench.report.log_end == 6 * 990
        assert bench.report.records_checked == 6
        assert len(await bench.read_all(T0)) == 3

    recovered(rig, check)


def test_a_queue_without_a_log_ends_at_zero(rig):
    fill(rig, 6)
    rig.log().unlink()
    rig.log(8192).unlink()

    async def check(bench):
        assert bench.store.bounds(T0) == Bounds(0, 0)
        (result,) = await bench.add(message())
        assert (result.queue_offset, result.log_offset) == (0, 0)

    recovered(rig, check)


def test_records_behind_the_end_of_a_cleanly_stopped_log_refuse_the_start(rig):
    fill(rig, 12, kill=False)
    rig.patch(rig.log(8192), 0, bytes(8192))
    data = rig.log().read_bytes()
    rig.patch(rig.log(), 0, data)
    (rig.log(16384)).write_bytes(fake_file(16384))

    async def check(bench):
        raise AssertionError

    with pytest.raises(StoreDamaged, match="behind it holds records"):
        recovered(rig, check)


def fake_file(start):
    from gantrymq.formats.record import encode_record

    return encode_record(topic="T", queue_id=0, body=b"", properties=b"", log_offset=start).ljust(8192, b"\0")


def test_a_torn_checkpoint_counts_as_none(rig):
    fill(rig, 12)
    (rig.root / "checkpoint").write_bytes(b"\x7f" * 39)

    async def check(bench):
        assert bench.report.records_checked == 12

    recovered(rig, check)


def test_prepared_records_get_no_entry_in_recovery_either(rig):
    async def case(bench):
        await bench.add(message(sys_flag=4), message(sys_flag=12), message(sys_flag=8))

    rig.kill(case)

    async def check(bench):
        assert (bench.report.records_checked, bench.store.bounds(T0)) == (3, Bounds(0, 1))

    recovered(rig, check)


@pytest.mark.parametrize("gap", [0, 5000], ids=["right behind the end", "anywhere once something was found"])
def test_all_entries_behind_the_end_are_cut_when_any_are_found(rig, gap):
    big = {"mappedFileSizeConsumeQueue": 200_000}
    ahead = ENTRY.pack(8000, 100, 0)

    async def case(bench):
        await bench.add(message(), message(queue_id=1))
        rig.write_queues(bench)

    rig.kill(case, **big)
    rig.patch(rig.queue(), 20, ahead)
    rig.patch(rig.queue(), 20 + (1 + gap) * 20, ahead)

    async def after(bench):
        assert rig.queue().read_bytes()[20:] == bytes(200_000 - 20)
        (kept,) = kept_bytes(bench.report)
        assert kept == (ahead + bytes(20 * gap) + ahead).rstrip(b"\0")

    rig.run(after, **big)
