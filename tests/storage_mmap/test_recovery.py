import asyncio
from pathlib import Path

import pytest

from gantrymq.errors import StoreDamaged, StoreError
from gantrymq.formats.record import encode_record
from gantrymq.interfaces import Bounds, GetLimit, GetResult, QueueTargets
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq_store_files.blank import encode_blank
from gantrymq_store_files.check import check_bytes
from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import START_MS, bodies, message

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
        rig.write_queues(bench)
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
        assert (report.cut_bytes, report.kept, report.entries_rebuilt, report.notes) == (0, (), 20, ())
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


def test_a_batch_that_a_crash_interrupted_leaves_its_first_messages(rig):
    """As in RocketMQ; docs/broker/durability.md says it. An acknowledged batch looks the same with ASYNC_FLUSH."""
    results = []

    async def case(bench):
        results.extend(await bench.add(*[message(body=b"%d" % n, same_file_as_previous=n > 0) for n in range(8)]))

    rig.kill(case)
    rig.patch(rig.log(), results[2].log_offset, bytes(results[-1].end - results[2].log_offset))

    async def check(bench):
        assert bodies(await bench.read_all(T0)) == [b"0", b"1"]
        (more,) = await bench.add(message(body=b"more"))
        assert (more.queue_offset, more.log_offset) == (2, results[2].log_offset)

    recovered(rig, check)


def test_a_zeroed_sector_in_the_properties_is_noticed(rig):
    async def case(bench):
        await bench.add(message(), message(properties=b"KEYS\x01" + b"k" * 3000 + b"\x02"), message())

    rig.kill(case)
    rig.patch(rig.log(), 1024, bytes(512))

    async def check(bench):
        assert bench.report.records_checked == 2
        assert "zero bytes where text belongs" in bench.report.notes[0]
        assert bench.report.cut_bytes > 3000
        assert len(await bench.read_all(T0)) == 2

    recovered(rig, check)


FIELDS = {"size": 2, "magic": 5, "crc": 9, "log offset": 30, "body length": 86, "body": 100, "topic length": 976}


@pytest.mark.parametrize("at", FIELDS.values(), ids=FIELDS)
def test_a_flipped_bit_costs_one_record_and_the_records_behind_it_stay(rig, at):
    results = fill(rig, 12)
    victim = results[9]  # in the second file
    before = rig.log(8192).read_bytes()
    place = victim.log_offset - 8192
    flipped = before[place : place + victim.size]
    flipped = flipped[:at] + bytes([flipped[at] ^ 0x04]) + flipped[at + 1 :]
    rig.patch(rig.log(8192), place, flipped)

    async def check(bench):
        report = bench.report
        assert (report.records_checked, report.log_end) == (11, results[-1].end)
        assert report.cut_bytes == victim.size
        assert kept_bytes(report) == [flipped]
        assert f"{victim.size} bytes of the log at {victim.log_offset} are damaged and given up" in report.notes[0]
        assert "1 messages are not in the log" in report.notes[1]
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 6)
        found = [bytes(body[:3]) for queue in (T0, Queue("T", 1)) for body in bodies(await bench.read_all(queue))]
        assert sorted(found) == [b"%03d" % n for n in range(12) if n != 9]
        (more,) = await bench.add(message(queue_id=1))
        assert (more.queue_offset, more.log_offset) == (6, results[-1].end)

    recovered(rig, check)
    after = rig.log(8192).read_bytes()
    filler = check_bytes(memoryview(after), place, victim.log_offset)
    assert (filler.size, is_filler(filler.record)) == (victim.size, True)
    assert b"recovered/1800000000000/commitlog/" in bytes(filler.record.body)

    async def again(bench):
        assert (bench.report.notes, bench.report.cut_bytes, bench.report.clean) == ((), 0, True)

    recovered(rig, again)


def test_a_damaged_message_at_the_end_of_its_queue_keeps_its_offset(rig):
    """The last message of queue 1 is lost, the log continues with queue 0: the next one must not reuse its offset."""
    results = fill(rig, 12)
    rig.patch(rig.log(8192), results[11].log_offset - 8192 + 100, b"?")
    append_behind(rig, results[11].end)

    async def check(bench):
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 6)
        (more,) = await bench.add(message(queue_id=1, body=b"more"))
        assert more.queue_offset == 6
        assert bodies(await bench.read_all(Queue("T", 1)))[-1] == b"more"
        assert len(await bench.read_all(Queue("T", 1))) == 6

    recovered(rig, check)

    (rig.root / "abort").touch()

    async def again(bench):
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 7)
        assert len(await bench.read_all(Queue("T", 1))) == 6

    recovered(rig, again)


@pytest.mark.parametrize(("call", "skips"), [("remove", 0), ("rename", 0), ("rename", 1), ("rename", 2)])
def test_a_start_that_ends_while_it_moves_files_away_leaves_no_gap(rig, call, skips):
    fill(rig, 30)
    for start in range(0, 8192 * 4, 8192):  # the fifth was made ahead and is empty
        rig.patch(rig.log(start), 0, b"\xff" * 8192)

    async def nothing(bench):
        pass

    rig.faults.once, rig.faults.once_number, rig.faults.once_skips = call, rig.BROKEN, skips
    with pytest.raises(StoreError):
        rig.run(nothing)
    assert not rig.faults.once

    async def check(bench):
        await bench.add(message(body=b"new"))
        assert bodies(await bench.read_all(T0)) == [b"new"]

    recovered(rig, check)


def test_a_start_that_ends_while_it_fills_a_queue_over_a_hole_costs_no_message_more(rig):
    root, skips, failed = rig.root, 0, True
    while failed:
        rig.root = root / str(skips)
        results = fill(rig, 12)
        rig.patch(rig.log(8192), results[9].log_offset - 8192 + 100, b"?")
        rig.patch(rig.queue("T", 1), 4 * ENTRY.size, bytes(2 * ENTRY.size))  # its entry, and the one after it

        async def look(bench):
            found = [bytes(body[:3]) for queue in (T0, Queue("T", 1)) for body in bodies(await bench.read_all(queue))]
            assert sorted(found) == [b"%03d" % n for n in range(12) if n != 9]
            assert not any("in no queue" in note for note in bench.report.notes)

        rig.faults.once, rig.faults.once_number, rig.faults.once_skips = "pwrite", rig.BROKEN, skips
        try:
            rig.run(look)
        except StoreError:
            recovered(rig, look)
        failed = not rig.faults.once
        rig.faults.once, skips = "", skips + 1
    assert skips > 4


def append_behind(rig, place):
    """A sound record of queue 0 at *place*, as if it had been appended before the crash."""
    raw = encode_record(
        topic="T", queue_id=0, queue_offset=6, body=b"behind", properties=b"", log_offset=place,
        store_timestamp=rig.clock.now_ms(),
    )  # fmt: skip
    rig.patch(rig.log(8192), place - 8192, raw)


def test_many_holes_and_all_kinds_of_places_leave_every_other_message(rig):
    """A zeroed page, the start of a file, its end with the blank, and two records in a row."""
    results = fill(rig, 40)
    data = bytearray(b"".join(rig.log(start).read_bytes() for start in range(0, 8192 * 5, 8192)))
    for start, end in ((4096, 4608), (8192, 8300), (8 * 990 + 8192 - 100, 16384)):
        data[start:end] = bytes(end - start)
    for n in (20, 21):
        data[results[n].log_offset + 300] ^= 1
    for number in range(5):
        rig.log(8192 * number).write_bytes(data[8192 * number :][:8192])
    hit = {
        n for n, r in enumerate(results)
        if any(r.log_offset < end and start < r.end for start, end in ((4096, 4608), (8192, 8300), (16012, 16384)))
    } | {20, 21}  # fmt: skip

    async def check(bench):
        assert bench.report.log_end == results[-1].end
        found = [bytes(body[:3]) for queue in (T0, Queue("T", 1)) for body in bodies(await bench.read_all(queue))]
        assert sorted(found) == [b"%03d" % n for n in range(40) if n not in hit]
        assert bench.store.bounds(T0) == bench.store.bounds(Queue("T", 1)) == Bounds(0, 20)
        assert [entry.log_offset for entry in bench.store.scan(0, results[-1].end)][-1] == results[-1].log_offset

    recovered(rig, check)
    (rig.root / "abort").touch()

    async def again(bench):
        assert (bench.report.cut_bytes, bench.report.log_end) == (0, results[-1].end)

    recovered(rig, again)


def test_damage_with_nothing_sound_behind_it_ends_the_log(rig):
    results = fill(rig, 12)
    for n in (10, 11):
        rig.patch(rig.log(8192), results[n].log_offset - 8192 + 100, b"??")

    async def check(bench):
        assert bench.report.log_end == results[10].log_offset
        assert "because of damage" in bench.report.notes[0]

    recovered(rig, check)


def test_the_last_record_of_a_cleanly_stopped_store_keeps_its_place_when_it_is_damaged(rig):
    results = fill(rig, 12, kill=False)
    rig.patch(rig.log(8192), results[11].log_offset - 8192 + 100, b"??")

    async def check(bench):
        assert bench.report.log_end == results[11].end
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 6)
        assert len(await bench.read_all(Queue("T", 1))) == 5

    recovered(rig, check)


def test_a_lost_file_that_was_replaced_by_zeros_is_closed_by_a_blank(rig):
    results = fill(rig, 40, kill=False)
    rig.log(8192).write_bytes(bytes(8192))

    async def check(bench):
        assert "does not begin with a record" in bench.report.notes[0]
        assert rig.log(8192).read_bytes() == encode_blank(8192).ljust(8192, b"\0")
        assert bench.report.log_end == results[-1].end
        found = [bytes(body[:3]) for queue in (T0, Queue("T", 1)) for body in bodies(await bench.read_all(queue))]
        gone = [n for n, r in enumerate(results) if 8192 <= r.log_offset < 16384]
        assert sorted(found) == [b"%03d" % n for n in range(40) if n not in gone]

    recovered(rig, check)


@pytest.mark.parametrize("queue_offset", [2**40 + 7, 2, -3], ids=["far ahead", "back", "negative"])
def test_a_record_whose_queue_offset_cannot_be_true_is_in_no_queue(rig, queue_offset):
    results = fill(rig, 20)
    rig.patch(rig.log(8192), results[14].log_offset - 8192 + 20, queue_offset.to_bytes(8, "big", signed=True))

    async def check(bench):
        assert bench.report.log_end == results[-1].end
        assert any(f"the record at {results[14].log_offset} (topic T, queue 0)" in note for note in bench.report.notes)
        assert bench.store.bounds(T0) == Bounds(0, 10)
        assert len(await bench.read_all(T0)) == 9

    recovered(rig, check)


@pytest.mark.parametrize("rebuild", [False, True], ids=["queues there", "queues missing"])
def test_a_hole_gets_the_same_entry_with_and_without_the_queues(rig, rebuild):
    results = fill(rig, 12)
    rig.patch(rig.log(), results[4].log_offset + 100, b"?")
    if rebuild:
        rig.queue().unlink()

    async def check(bench):
        size = results[0].size
        entries = [ENTRY.unpack_from(rig.queue().read_bytes(), 20 * n)[:2] for n in range(6)]
        assert entries == [(results[n].log_offset, size) for n in (0, 2, 6, 6, 8, 10)]
        got = await bench.get(T0, 0, GetLimit(max_count=2))
        assert (got.count, got.next_offset) == (2, 2)
        got = await bench.get(T0, 0, GetLimit(max_count=3))
        assert (got.count, got.next_offset) == (3, 4)
        assert len(await bench.read_all(T0)) == 5

    recovered(rig, check)


def test_older_records_behind_newer_ones_never_come_back(rig):
    """Data truncated by a Java broker stays in the file; it is overwritten in part, which leaves whole old records."""
    results = fill(rig, 6)
    place = results[2].log_offset

    newer = b""
    for queue_offset in (1, 2):
        newer += encode_record(
            topic="T", queue_id=0, queue_offset=queue_offset, body=b"newer", properties=b"",
            log_offset=place + len(newer), store_timestamp=rig.clock.now_ms() + 1,
        )  # fmt: skip
    rig.patch(rig.log(), place, newer)

    async def check(bench):
        assert bench.report.log_end == place + len(newer)
        assert bench.report.records_checked == 4
        assert rig.log().read_bytes()[bench.report.log_end :] == bytes(8192 - bench.report.log_end)

    recovered(rig, check)


@pytest.mark.parametrize("end", ["stop", "kill", "checkpoint and kill", "checkpoint file lost"])
def test_delays_and_store_times_stay_after_a_clock_that_ran_ahead_was_corrected(rig, end):
    ahead_ms = START_MS + 3_600_000

    def delayed(number):
        own = b"DELAY\x013\x02KEYS\x01k%d\x02" % number
        return message(SCHEDULE_TOPIC, 2, properties=own, queue_targets=QueueTargets(due_in_ms=10_000))

    async def case(bench):
        bench.clock.now = ahead_ms
        await bench.add(*[message(body=b"x" * 900) for _ in range(12)])  # into the second file
        bench.clock.now = START_MS
        await bench.add(delayed(0))
        if end == "checkpoint and kill":
            await rig.checkpoint(bench)
        await bench.add(*[delayed(number) for number in range(1, 40)])  # into the third file
        if end == "checkpoint file lost":
            await rig.checkpoint(bench)

    (rig.run if end == "stop" else rig.kill)(case)
    if end == "checkpoint file lost":
        (rig.root / "checkpoint.json").unlink()
    seen = []

    class Codes:
        accepts_all = needs_message = False

        def match_entry(self, tags_code, ext):
            seen.append(tags_code)
            return True

        def match_message(self, record):
            return True

    async def check(bench):
        assert not [note for note in bench.report.notes if "checkpoint" not in note]
        for position in range(0, 40, 10):
            found = bench.store.get(Queue(SCHEDULE_TOPIC, 2), position, GetLimit(10), Codes())
            assert (found if isinstance(found, GetResult) else await found).count == 10
        assert seen == [START_MS + 10_000] * 40
        (more,) = await bench.add(message(body=b"more"))
        assert more.store_timestamp == ahead_ms

    recovered(rig, check)


def test_delayed_messages_after_damage_stay_after_a_clock_that_ran_ahead_was_corrected(rig):
    results = []

    async def case(bench):
        bench.clock.now = START_MS + 3_600_000
        results.extend(await bench.add(*[message(body=b"%d" % n) for n in range(4)]))
        bench.clock.now = START_MS
        own = b"DELAY\x013\x02"
        given = {"properties": own, "queue_targets": QueueTargets(due_in_ms=10_000)}
        await bench.add(*[message(SCHEDULE_TOPIC, 2, b"delayed %d" % n, **given) for n in range(3)])

    rig.kill(case)
    rig.patch(rig.log(), results[3].log_offset + 89, b"?")

    async def check(bench):
        assert bodies(await bench.read_all(Queue(SCHEDULE_TOPIC, 2))) == [b"delayed 0", b"delayed 1", b"delayed 2"]
        assert bodies(await bench.read_all(T0)) == [b"0", b"1", b"2"]

    recovered(rig, check)


def test_queues_that_are_missing_are_rebuilt_from_the_log(rig):
    fill(rig, 30, kill=False)
    before = {path: path.read_bytes() for path in (rig.root / "consumequeue").rglob("0*") if path.is_file()}
    for path in before:
        path.unlink()

    async def check(bench):
        assert bench.report.clean
        assert bench.report.entries_rebuilt == 30
        assert {path: path.read_bytes() for path in before} == before

    recovered(rig, check)


@pytest.mark.parametrize("left", [0, 5], ids=["missing", "short"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_a_queue_without_a_recent_message_that_lost_entries_is_rebuilt(rig, clean, left):
    async def case(bench):
        await bench.add(*[message("Idle", 3) for _ in range(7)])
        for n in range(30):
            bench.clock.now += 1000
            await bench.add(message(queue_id=n % 2, body=b"x" * 900))

    rig.run(case)
    path = rig.queue("Idle", 3)
    before = path.read_bytes()
    path.write_bytes(before[: 20 * left].ljust(400, b"\0")) if left else path.unlink()
    if not clean:
        (rig.root / "abort").touch()

    async def check(bench):
        assert "missing or wrong (Idle/3): 7 entries were rebuilt" in bench.report.notes[0]
        assert bench.store.bounds(Queue("Idle", 3)) == Bounds(0, 7)
        assert path.read_bytes() == before

    recovered(rig, check)


def test_queues_of_a_deleted_topic_are_not_missed_and_a_broken_note_is_told(rig):
    async def case(bench):
        await bench.add(message("IsExpired"), message())

    rig.run(case)

    async def drop(bench):
        bench.store.drop("IsExpired")

    rig.kill(drop)

    async def check(bench):
        assert bench.report.notes == ()

    recovered(rig, check)
    (rig.root / "checkpoint.json").write_text('{"T": 5')

    async def broken(bench):
        assert "checkpoint.json cannot be used" in bench.report.notes[0]

    recovered(rig, broken)


def test_one_missing_queue_is_rebuilt_in_full_though_the_checkpoint_is_recent(rig):
    async def case(bench):
        for n in range(30):
            bench.clock.now += 1000
            await bench.add(message(queue_id=n % 2, body=b"x" * 900))

    rig.run(case)
    before = rig.queue().read_bytes()
    rig.queue().unlink()
    (rig.root / "checkpoint.json").unlink()  # as a Java broker leaves a store
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
        assert bench.report.records_checked == 0
        assert bench.store.bounds(T0) == Bounds(0, 30)

    recovered(rig, check)
    (rig.root / "checkpoint.json").unlink()  # RocketMQ's own bounds it too
    (rig.root / "abort").touch()

    async def by_time(bench):
        assert 3 < bench.report.records_checked < 15
        assert bench.store.bounds(T0) == Bounds(0, 30)

    recovered(rig, by_time)


def test_entries_that_are_wrong_or_torn_are_written_anew(rig):
    fill(rig, 12)
    before = rig.queue().read_bytes()
    rig.patch(rig.queue(), 20, ENTRY.pack(77, 5, 5))
    rig.patch(rig.queue(), 70, bytes(50))

    async def check(bench):
        assert rig.queue().read_bytes() == before
        assert bench.report.entries_rebuilt == 12

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
    (rig.root / "checkpoint.json").unlink()
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
    fill(rig, 5, kill=False)
    rig.log(8192).write_bytes(fake_file(8192))

    async def check(bench):
        raise AssertionError

    with pytest.raises(StoreDamaged, match="after it holds records"):
        recovered(rig, check)


def fake_file(start):
    return encode_record(topic="T", queue_id=0, body=b"", properties=b"", log_offset=start).ljust(8192, b"\0")


@pytest.mark.parametrize("length", [0, 39, 40, 5000])
def test_a_checkpoint_of_another_length_is_told_and_written_anew(rig, length):
    results = fill(rig, 12)
    (rig.root / "checkpoint").write_bytes(b"\x7f" * min(length, 39) + bytes(max(0, length - 39)))

    async def check(bench):
        assert bench.report.records_checked == 12
        assert bench.report.log_end == results[-1].end
        assert f"has {length} bytes where 4096 belong" in bench.report.notes[0]

    recovered(rig, check)
    assert len((rig.root / "checkpoint").read_bytes()) == 4096


@pytest.mark.parametrize("clean", [True, False])
def test_a_checkpoint_from_the_future_is_not_believed(rig, clean):
    results = fill(rig, 30)
    if clean:
        (rig.root / "abort").unlink()
    else:
        rig.queue().write_bytes(rig.queue().read_bytes()[:100].ljust(400, b"\0"))  # a loss that its start shows
    far = 2**62
    (rig.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(far, far)))

    async def check(bench):
        assert any(f"the checkpoint's times are {far} and {far} ms" in note for note in bench.report.notes)
        assert bench.store.bounds(T0) == Bounds(0, 15)
        if not clean:
            assert bench.report.records_checked == 30
        (more,) = await bench.add(message())
        assert bench.store.read(more.log_offset).store_timestamp == rig.clock.now_ms()

    recovered(rig, check)
    newest = decode_checkpoint((rig.root / "checkpoint").read_bytes())
    assert newest.log_timestamp <= rig.clock.now_ms()
    assert results


def test_a_long_scan_tells_how_far_it_is(rig):
    big = {"mappedFileSizeCommitLog": 8_000_000, "mappedFileSizeConsumeQueue": 200_000}

    async def case(bench):
        await bench.add(*[message(body=b"x" * 888, tag="A") for _ in range(5000)])

    rig.kill(case, **big)
    told = []
    ticks = iter(range(10_000))
    rig.clock.monotonic = lambda: next(ticks)
    store = rig.make(told.append, **big)
    report = asyncio.run(started(store))
    assert report.records_checked == 5000
    assert told[0] == "recovering the store: 1 of at most 16 MB of the log read, 1 MB/s"
    assert len(told) == 5


async def started(store):
    report = await store.start()
    await store.stop()
    return report


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
