"""Queries of the index: results, omissions, and reasons for empty results."""

from inspect import isawaitable

import pytest

from gantrymq_storage_mmap.index import query as index_query
from gantrymq_storage_mmap.reading import cold_record
from gantrymq_store_files.index import read_header
from gantrymq_store_files.index_hash import index_hash
from gantrymq_testing.store_contract_bench import START_MS, bodies, keyed

SMALL = {"maxHashSlotNum": 5, "maxIndexNum": 8}  # seven keys a file


@pytest.fixture(params=[False, True], ids=["disk", "memory"], autouse=True)
def in_memory(rig, request):
    """Whether read data counts as being in memory."""
    rig.faults.cached = request.param
    return request.param


async def send(bench, count=9, **more):
    for n in range(count):
        bench.clock.now = START_MS + n * 10_000
        await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}", **more))


def test_a_message_of_another_key_with_the_same_hash_is_left_out(rig):
    assert index_hash("T", "Aa") == index_hash("T", "BB")

    async def case(bench):
        await bench.add(keyed(b"1", "Aa"), keyed(b"2", "BB"), keyed(b"3", "Aa"), keyed(b"4", "BB"))
        assert bodies((await bench.query("Aa", limit=1))[0]) == [b"3"]
        assert bodies((await bench.query("BB"))[0]) == [b"2", b"4"]

    rig.run(case, **SMALL)


def test_why_nothing_is_found(rig):
    async def case(bench):
        assert (await bench.query("k"))[1].endswith("no message with a key was stored yet")
        await bench.add(keyed(b"1", "Aa"), keyed(b"2", "BBBB"))
        assert (await bench.query("BB"))[1].endswith("1 with the same hash have another key")
        assert (await bench.query("Aa", (0, START_MS - 1)))[1].endswith(
            f"no index file covers that time; the index holds messages stored from {START_MS} to {START_MS}"
        )
        assert (await bench.query("k"))[1] == "no message of topic T with key k was found in that time"

    rig.run(case, **SMALL)

    async def off(bench):
        assert bodies((await bench.query("Aa"))[0]) == [b"1"]
        await bench.add(keyed(b"3", "later"))
        assert "messageIndexEnable is false" in (await bench.query("later"))[1]

    rig.run(off, messageIndexEnable=False, **SMALL)


def test_messages_that_left_the_log_are_told(rig):
    async def case(bench):
        await send(bench)
        await bench.query("all")
        bench.store._log._starts[0] = bench.store._log.files[0].start = 4096  # as if everything before had been removed
        assert "1 messages in the index are no longer in the log" in (await bench.query("k0"))[1]
        bench.store._log._starts[0] = bench.store._log.files[0].start = 0

    rig.run(case, **SMALL)


@pytest.mark.parametrize(
    ("window", "found"),
    [((0, 8), range(9)), ((3, 5), [3, 4, 5]), ((8, 99), [8]), ((-9, 0), [0]), ((9, 99), [])],
)
def test_windows_go_across_files(rig, window, found):
    async def case(bench):
        await send(bench)
        first, last = (START_MS + step * 10_000 for step in window)
        assert bodies((await bench.query("all", (first, last)))[0]) == [b"%d" % n for n in found]

    rig.run(case, **SMALL)


def test_the_store_has_a_limit_of_its_own(rig):
    async def case(bench):
        await send(bench)
        assert bodies((await bench.query("all", limit=100))[0]) == [b"6", b"7", b"8"]

    rig.run(case, maxMsgsNumBatch=3, **SMALL)


def test_no_thread_is_needed_for_what_is_in_memory(rig, in_memory):
    async def case(bench):
        await send(bench)
        await bench.query("all")
        before = rig.faults.calls["pread"]
        assert len(bodies((await bench.query("all"))[0])) == 9
        assert (rig.faults.calls["pread"] == before) == in_memory

    rig.run(case, **SMALL)


@pytest.mark.parametrize(("limit", "value"), [("_MOST_READS", 5), ("_MOST_BYTES", 1000)])
def test_what_takes_too_long_is_for_a_thread(rig, monkeypatch, limit, value):
    monkeypatch.setattr(cold_record, limit, value)

    async def case(bench):
        await send(bench)
        await bench.query("all")
        before = rig.faults.calls["pread"]
        assert len(bodies((await bench.query("all"))[0])) == 9
        assert rig.faults.calls["pread"] > before

    rig.run(case, **SMALL)


def test_a_record_longer_than_most_is_found_whole(rig):
    async def case(bench):
        await bench.add(keyed(b"x" * 3000, "k"))
        assert bodies((await bench.query("k"))[0]) == [b"x" * 3000]

    rig.run(case, **SMALL)


def test_an_answer_is_no_larger_than_a_frame_takes(rig, monkeypatch):
    monkeypatch.setattr(index_query, "MAX_ANSWER_BYTES", 700)

    async def case(bench):
        await bench.add(*[keyed(b"%d" % n * 300, "k") for n in range(4)])
        assert [body[:1] for body in bodies((await bench.query("k"))[0])] == [b"3"]
        monkeypatch.setattr(index_query, "MAX_ANSWER_BYTES", 10)
        assert [body[:1] for body in bodies((await bench.query("k"))[0])] == [b"3"]

    rig.run(case, **SMALL)


def test_a_message_that_is_indexed_twice_is_found_once(rig):
    """As in a file of Java's that was built again from the middle of a message."""

    async def case(bench):
        (result,) = await bench.add(keyed(b"1", "k"))
        await bench.query("k")
        table = bench.store._index.files.all[-1].table
        again = table.put([index_hash("T", "k")], [result.log_offset], [START_MS])
        bench.store._index.files.all[-1].write(again)
        assert bodies((await bench.query("k"))[0]) == [b"1"]

    rig.run(case, **SMALL)


def test_the_newest_message_of_the_index_is_told(rig):
    async def case(bench):
        await send(bench)
        await bench.query("k3")
        result = bench.store.query("T", "k3", 0, 1 << 62, 32)
        result = await result if isawaitable(result) else result
        newest = read_header(list(rig.index().values())[-1])
        assert (result.index_timestamp, result.index_log_offset) == (newest.end_timestamp, newest.end_offset)
        assert newest.end_timestamp == START_MS + 80_000

    rig.run(case, **SMALL)


def test_a_disk_that_cannot_be_read_is_an_error(rig):
    async def case(bench):
        await send(bench, 4)
        await bench.query("all")
        rig.faults.only, rig.faults.failing = "index", {"pread": rig.BROKEN, "pread_cached": rig.BROKEN}
        with pytest.raises(index_query.StoreError, match="the index cannot be read"):
            await bench.query("all")
        rig.faults.failing = {}
        assert bench.store._index.files.readers == 0

    rig.run(case, **SMALL)


def test_a_query_of_a_store_that_stopped_waits_for_nothing(rig):
    async def case(bench):
        await send(bench, 4)

    rig.run(case, messageIndexEnable=False, **SMALL)

    async def stopped(bench):
        bench.store._index.halt()
        assert "being caught up" in (await bench.query("all"))[1]

    rig.run(stopped, **SMALL)
