"""Records that are damaged while the broker runs, or before recovery's start: refused one by one, told and counted."""

import pytest
from placed_messages import LIGHT, fanned

from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer
from gantrymq_storage_mmap.reading.read_check import expected_records
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import bodies, message

T0 = Queue("T", 0)
COLD = {"hotReadWindow": 0, "mappedFileSizeCommitLog": 1_000_000, "mappedFileSizeConsumeQueue": 200_000}


class Whole:
    """Asks for every record and takes it."""

    accepts_all = False
    needs_message = True

    def match_entry(self, tags_code, ext):
        return True

    def match_message(self, record):
        return True


async def add(bench, count=10):
    return await bench.add(*[message(body=b"%03d" % n + b"x" * 600, tag="A") for n in range(count)])


FIELDS = {"size": 2, "magic": 5, "crc": 9, "queue offset": 26, "log offset": 30, "body length": 86, "body": 100}


@pytest.mark.parametrize("match", [None, Whole()], ids=["all", "filtered"])
@pytest.mark.parametrize("at", FIELDS.values(), ids=FIELDS)
def test_a_bit_that_flipped_on_the_disk_costs_one_record(rig, at, match):
    async def case(bench):
        results = await add(bench)
        place = results[4].log_offset + at
        rig.patch(rig.log(), place, bytes([rig.log().read_bytes()[place] ^ 0x02]))
        got = await bench.get(T0, 0, match=match)
        assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 9, 10)
        assert sum(map(len, got.buffers)) == got.size == 9 * results[0].size
        assert [body[:3] for body in bodies(await bench.read_all(T0))] == [b"%03d" % n for n in range(10) if n != 4]
        assert bench.store.state().details["damagedRecordsRefused"] == "2"
        said = [sentence for sentence in rig.said if "damaged record" in sentence]
        assert len(said) == 1
        assert f"log offset {results[4].log_offset}" in said[0]

    rig.run(case, **COLD)


def test_a_pull_that_finds_only_a_damaged_record_goes_on_behind_it(rig):
    async def case(bench):
        results = await add(bench, 3)
        rig.patch(rig.log(), results[1].log_offset + 200, b"?")
        got = await bench.get(T0, 1, GetLimit(max_count=1))
        assert (got.status, got.count, got.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 0, 2)
        assert "damagedRecordsRefused" in bench.store.state().details

    rig.run(case, **COLD)


def test_zeros_where_a_record_was_are_refused(rig):
    async def case(bench):
        results = await add(bench, 3)
        rig.patch(rig.log(), results[0].log_offset, bytes(results[1].end))
        assert [body[:3] for body in bodies(await bench.read_all(T0))] == [b"002"]
        assert "zeros" in rig.said[-1]

    rig.run(case, **COLD)


def test_damage_before_the_start_of_recovery_is_met_by_readers(rig):
    small = {"mappedFileSizeConsumeQueue": 200_000}

    async def case(bench):
        await add(bench, 40)

    rig.run(case, **small)
    rig.patch(rig.log(), 300, b"?")

    async def after(bench):
        assert bench.report.records_checked == 1
        assert len(await bench.read_all(T0)) == 39
        assert sum("damaged record" in sentence for sentence in rig.said) == 1

    rig.run(after, **small)


def test_a_replay_goes_on_behind_a_damaged_record(rig):
    async def case(bench):
        results = await add(bench)
        rig.patch(rig.log(), results[4].log_offset + 4, b"\0\0\0\0")
        seen = [entry.queue_offset for entry in bench.store.scan(0, results[-1].end)]
        assert seen == [n for n in range(10) if n != 4]

    rig.run(case, **COLD)


def test_an_entry_that_repeats_its_neighbour_allows_that_one_s_queue_offset():
    data = b"".join(ENTRY.pack(place, 100, 0) for place in (0, 100, 300, 300, 400))
    wanted = expected_records(7, data, 4)
    assert wanted == {0: (100, 0, 7), 100: (100, 8, 8), 300: (100, 9, 10)}
    assert expected_records(7, data, 5)[400] == (100, 11, 2**63 - 1)


def test_zeros_in_a_queue_are_no_entry_of_the_record_at_log_offset_0(rig):
    data = ENTRY.pack(0, 100, 0) + bytes(40)
    assert expected_records(0, data, 3) == {0: (100, 0, 0)}

    async def case(bench):
        await bench.add(*[message(body=b"%d" % n) for n in range(5)])

    rig.run(case)

    async def zeroed(bench):
        rig.patch(rig.queue(), 20, bytes(60))
        assert bodies(await bench.read_all(Queue("T", 0))) == [b"0", b"1", b"2", b"3", b"4"]  # they were made again

    rig.run(zeroed)


@pytest.mark.parametrize("topic", ["T", "%LMQ%a"])
def test_a_record_of_another_topic_is_not_delivered(rig, monkeypatch, topic):
    monkeypatch.setattr(EntryRepairer, "can_repair", lambda *given, **more: False)
    settings = COLD | LIGHT

    async def case(bench):
        await bench.add(*[each for _ in range(5) for each in (fanned("%LMQ%a"), message("Secret"))])

    rig.run(case, **settings)
    other = rig.queue("Secret").read_bytes()
    for number in (0, 3):
        rig.patch(rig.queue(topic), 20 * number, other[20 * number : 20 * number + 20])

    async def then(bench):
        assert len(await bench.read_all(Queue(topic, 0))) == 3
        assert sum("it belongs to topic Secret" in sentence for sentence in rig.said) == 2

    rig.run(then, **settings)
