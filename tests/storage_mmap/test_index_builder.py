"""Building the index: in batches, across files, lagging and caught up, on a failing disk."""

import asyncio

import pytest
from turning import until

from gantrymq.errors import StoreError
from gantrymq_storage_mmap.index import builder
from gantrymq_storage_mmap.index.file import IndexPosition
from gantrymq_storage_mmap.reading.cold_record import DiskReads
from gantrymq_store_files import log_entries
from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.index import read_header
from gantrymq_testing.store_contract_bench import START_MS, bodies, keyed, message

SMALL = {"maxHashSlotNum": 5, "maxIndexNum": 8}  # seven keys a file


def checkpoint(rig):
    return decode_checkpoint((rig.root / "checkpoint").read_bytes())


async def caught_up(bench):
    """Wait until the index holds everything."""
    assert "being caught up" not in (await bench.query("no-such-key"))[1]


async def send(bench, count, first=0):
    """Messages with two keys and a unique key each, and one in four without any."""
    for n in range(first, first + count):
        bench.clock.now = START_MS + n * 700
        await bench.add(message(body=b"-") if n % 4 == 3 else keyed(b"%d" % n, f"all k{n}", f"U{n}"))


def test_files_are_filled_and_followed_by_others(rig):
    async def case(bench):
        await send(bench, 20)
        assert bodies((await bench.query("all"))[0]) == [b"%d" % n for n in range(20) if n % 4 != 3]
        await bench.restart()
        assert list(rig.index().values()) == rig.index_of_log(5, 8)
        await send(bench, 5, 20)
        assert bodies((await bench.query("k24"))[0]) == [b"24"]

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)
    assert len(rig.index()) == 9


def test_slots_of_a_found_file_are_read_for_its_first_entry(rig):
    async def case(bench):
        await send(bench, 5)
        await bench.restart()
        index = bench.store._index
        assert bodies((await bench.query("k2"))[0]) == [b"2"]
        assert index.files.all[-1].table is None
        rig.faults.only, rig.faults.failing = "index", {"pread": rig.BROKEN}
        await bench.add(keyed(b"5", "k5"))
        with pytest.raises(StoreError, match="the index cannot be read"):
            await bench.query("k5")
        assert "the index cannot be read" in rig.said[-1]
        rig.faults.failing = {}
        await bench.add(keyed(b"6", "k6"))
        await bench.restart()  # which reads them at its stop, or leaves the rest to the next start
        await until(lambda: not bench.store._index.lag)
        for n in (2, 5, 6):
            assert bodies((await bench.query(f"k{n}"))[0]) == [b"%d" % n]

    rig.run(case)


def test_a_stop_indexes_what_waits_for_slots(rig):
    async def case(bench):
        await send(bench, 5)
        await bench.restart()
        assert bodies((await bench.query("k4"))[0]) == [b"4"]
        await bench.add(keyed(b"5", "k5"))
        assert bench.store._index.files.all[-1].table is None
        await bench.restart()
        assert bodies((await bench.query("k5"))[0]) == [b"5"]
        assert bench.store._index.files.all[-1].table is None  # nothing was left to be added

    rig.run(case)


def test_a_stop_waits_for_an_index_that_lags(rig, monkeypatch):
    monkeypatch.setattr(builder, "MOST_WAITING", 10)

    async def case(bench):
        await bench.add(*[keyed(b"%d" % n, f"all k{n}", f"U{n}") for n in range(50)])
        assert bench.store._index.lag

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_stop_does_not_wait_for_ever(rig, monkeypatch):
    monkeypatch.setattr(builder, "MOST_WAITING", 10)
    monkeypatch.setattr(builder, "CATCH_UP_S", 0)

    async def case(bench):
        results = await bench.add(*[keyed(b"%d" % n, f"all k{n}", f"U{n}") for n in range(50)])
        await bench.restart()
        lag = f"the index lags {results[-1].end} bytes behind the log at this stop; the next start catches up"
        assert lag in rig.said
        assert len(bodies((await bench.query("all", limit=100))[0])) == 50

    rig.run(case, **SMALL)


@pytest.mark.parametrize("step", [1, 3, 256])
def test_one_publication_may_be_larger_than_a_step(rig, monkeypatch, step):
    monkeypatch.setattr(builder, "STEP_MESSAGES", step)

    async def case(bench):
        await bench.add(*[keyed(b"%d" % n, "all", f"U{n}") for n in range(50)])

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_nothing_is_indexed_in_the_turn_of_a_publication(rig):
    async def case(bench):
        await bench.add(keyed(b"1", "k"))
        assert rig.index() == {}
        await until(rig.index)
        await bench.query("k")

    rig.run(case, **SMALL)


def test_a_full_file_is_durable_and_the_checkpoint_says_so(rig):
    async def case(bench):
        await send(bench, 3)
        assert checkpoint(rig).index_timestamp == 0 if (rig.root / "checkpoint").exists() else True
        await bench.query("all")
        await rig.checkpoint_ends(bench)
        (name, first), *_ = rig.index().items()
        assert read_header(first).index_count == 8
        assert checkpoint(rig).index_timestamp == read_header(first).end_timestamp == START_MS + 1400
        assert first == rig.index_of_log(5, 8)[0]
        assert len(name) == 17

    rig.run(case, **SMALL)


def test_names_increase_while_the_clock_stands_still(rig):
    async def case(bench):
        await bench.add(*[keyed(b"%d" % n, "all", f"U{n}") for n in range(12)])

    rig.run(case, **SMALL)
    first, *others = (int(name) for name in rig.index())
    assert others == [first + 1, first + 2, first + 3]


def test_an_index_that_is_missing_is_built_in_the_background(rig, monkeypatch):
    async def case(bench):
        await send(bench, 20)

    rig.run(case, messageIndexEnable=False, **SMALL)
    assert rig.index() == {}

    async def later(bench):
        monkeypatch.setattr(builder, "QUERY_WAIT_S", 0)
        assert "being caught up; try again" in (await bench.query("k4"))[1]
        monkeypatch.undo()
        await caught_up(bench)
        assert bodies((await bench.query("k4"))[0]) == [b"4"]
        await send(bench, 2, 20)

    rig.run(later, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_an_answer_that_may_lack_newer_messages_says_so(rig, monkeypatch):
    async def indexed(bench):
        await send(bench, 3)

    async def not_indexed(bench):
        await send(bench, 3, 4)

    async def later(bench):
        monkeypatch.setattr(builder, "QUERY_WAIT_S", 0)
        found, problem = await bench.query("all")
        assert bodies(found) == [b"0", b"1", b"2"]
        assert problem.startswith("newer messages may be missing: the index lags ")
        monkeypatch.undo()
        found, problem = await bench.query("all")
        assert (bodies(found), problem) == ([b"0", b"1", b"2", b"4", b"5", b"6"], "")

    rig.run(indexed, **SMALL)
    rig.run(not_indexed, messageIndexEnable=False, **SMALL)
    rig.run(later, **SMALL)


@pytest.mark.parametrize("chunk", [8, 100, 8192])
def test_the_log_is_read_in_pieces_that_may_be_smaller_than_a_record(rig, monkeypatch, chunk):
    monkeypatch.setattr(log_entries, "CHUNK_BYTES", chunk)

    async def case(bench):
        await send(bench, 10)
        await bench.add(keyed(b"x" * 5000, "large"), keyed(b"y" * 4000, "next file"))

    rig.run(case, messageIndexEnable=False, **SMALL)

    async def later(bench):
        await caught_up(bench)

    rig.run(later, **SMALL)
    assert len(list((rig.root / "commitlog").iterdir())) > 1
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_what_comes_while_it_is_caught_up_is_indexed_once(rig):
    async def case(bench):
        await send(bench, 12)

    rig.run(case, messageIndexEnable=False, **SMALL)

    async def later(bench):
        for n in range(12, 16):
            await send(bench, 1, n)
            await asyncio.sleep(0)
        await caught_up(bench)
        await send(bench, 4, 16)

    rig.run(later, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_what_a_stop_leaves_unread_is_read_by_the_next_start(rig):
    async def case(bench):
        await send(bench, 20)

    rig.run(case, messageIndexEnable=False, **SMALL)

    async def stopped_at_once(bench):
        pass

    rig.run(stopped_at_once, **SMALL)
    rig.run(caught_up, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_too_much_waiting_is_read_from_the_log_instead(rig, monkeypatch):
    monkeypatch.setattr(builder, "MOST_WAITING", 5)

    async def case(bench):
        await send(bench, 20)
        assert bench.store._index.lag > 0
        await caught_up(bench)

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


# --- a disk that fails ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["pwrite", "create", "truncate", "make_dirs"])
def test_a_full_disk_stops_no_message_and_is_made_up_for(rig, monkeypatch, method):
    monkeypatch.setattr(builder, "RETRY_S", 0.0)

    async def case(bench):
        await send(bench, 4)
        if method != "make_dirs":
            await bench.query("all")
        rig.faults.only, rig.faults.failing = "index", {method: rig.NO_SPACE}
        await send(bench, 8, 4)
        problem = (await bench.query("k10"))[1]
        assert "the index cannot be written" in problem
        assert "No space left" in problem
        assert len([said for said in rig.said if "No space left" in said]) == 1
        assert bench.store.refusal() is None
        rig.faults.failing = {}
        await until(lambda: not bench.store._index.lag)
        assert bodies((await bench.query("k10"))[0]) == [b"10"]

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_write_that_fails_in_the_middle_of_a_message_repeats_none_of_its_keys(rig, monkeypatch):
    monkeypatch.setattr(builder, "RETRY_S", 0.0)

    async def case(bench):
        rig.faults.only, rig.faults.failing = "index", {}
        await bench.add(keyed(b"1", "a b c d", "U"))
        await bench.query("a")
        await bench.add(keyed(b"2", "a b c d e f", "U"))
        rig.faults.failing = {"create": rig.NO_SPACE}
        assert (await bench.query("f"))[1]
        assert bench.store._index.files.place.keys == 2  # seven fit the first file
        rig.faults.failing = {}
        await until(lambda: not bench.store._index.lag)

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_sync_that_failed_is_not_believed_when_it_is_tried_again(rig, monkeypatch):
    monkeypatch.setattr(builder, "RETRY_S", 0.0)
    pages = []

    async def case(bench):
        await send(bench, 2)
        await rig.checkpoint(bench)
        rig.faults.only, rig.faults.failing = "index", {"datasync": rig.BROKEN}
        before = list(rig.index())
        await send(bench, 2, 2)
        await bench.query("k1")
        await rig.checkpoint(bench)
        assert "2 index files could not be made durable; the content of them is rebuilt from the log" in rig.said
        rig.faults.failing = {}
        await until(lambda: not bench.store._index.lag)
        assert list(rig.index()) > before  # another file, rebuilt
        assert bodies((await bench.query("k1"))[0]) == [b"1"]
        await rig.checkpoint(bench)
        rig.faults.calls.clear()
        await rig.checkpoint(bench)
        pages.append(rig.faults.calls["pwrite"])

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)
    assert not (rig.root / "abort").exists()
    assert checkpoint(rig).index_timestamp == START_MS + 1400
    assert pages == [0]  # nothing was left to be written


def test_syncs_that_go_on_failing_are_told_once_and_asked_for_no_more(rig, monkeypatch):
    monkeypatch.setattr(builder, "RETRY_S", 0.0)

    async def case(bench):
        rig.faults.only, rig.faults.failing = "index", {"datasync": rig.BROKEN}
        await send(bench, 8)
        await bench.query("all")
        await until(lambda: not bench.store._index.lag)
        for _ in range(3):
            await rig.checkpoint(bench)
            await until(lambda: not bench.store._index.lag)
        assert len([said for said in rig.said if "rebuilt from the log" in said]) == 1
        assert bodies((await bench.query("k6"))[0]) == [b"6"]
        rig.faults.failing = {}

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_slots_that_could_not_be_written_are_written_by_the_next_checkpoint(rig):
    async def case(bench):
        await send(bench, 2)
        await bench.query("all")
        (before,) = rig.index()
        rig.faults.only, rig.faults.failing = "index", {"pwrite": rig.NO_SPACE}
        await rig.checkpoint(bench)
        rig.faults.failing = {}
        assert not any("built again" in said for said in rig.said)
        await rig.checkpoint(bench)
        assert bench.store._index.files.all[0].durable
        assert rig.index() == {before: rig.index_of_log(5, 8)[0]}

    rig.run(case, **SMALL)


def test_what_is_durable_stays_when_a_checkpoint_fails(rig, monkeypatch):
    monkeypatch.setattr(builder, "RETRY_S", 0.0)

    async def case(bench):
        await send(bench, 8)
        await bench.query("all")
        await rig.checkpoint(bench)
        files = list(rig.index())
        bench.store._index._request_checkpoint = lambda: None
        mark = bench.store._index.files.begin_checkpoint()
        mark.write()
        bench.store._index.checkpoint_failed(mark)  # because of queues, or of anything else
        assert list(rig.index()) == files
        await send(bench, 1, 8)
        await bench.query("all")
        mark = bench.store._index.files.begin_checkpoint()
        mark.write()
        await send(bench, 6, 9)
        await bench.query("all")
        bench.store._index.checkpoint_failed(mark)
        assert list(rig.index()) == files[:2]  # full and durable
        assert bench.store._index.files.place == bench.store._index.files.all[-1].end
        await until(lambda: not bench.store._index.lag)
        assert min(set(rig.index()) - set(files[:2])) > max(files)

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_stop_that_cannot_make_the_index_durable_leaves_abort(rig):
    async def case(bench):
        await send(bench, 2)
        rig.faults.only, rig.faults.failing = "index", {"datasync": rig.BROKEN}

    rig.run(case, **SMALL)
    assert (rig.root / "abort").exists()
    rig.faults.failing = {}
    rig.run(caught_up, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


# --- checkpoints ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_covers_what_was_there_when_it_began(rig):
    async def case(bench):
        index = bench.store._index
        index._request_checkpoint = lambda: None
        await send(bench, 2)
        results = await bench.add(keyed(b"2", "all k2", "U2"))
        await bench.query("all")
        mark = index.files.begin_checkpoint()
        await send(bench, 10, 4)
        await bench.query("all")
        mark.write()
        index.checkpointed(mark)
        first, second, *others = index.files.all
        assert [part.file for part in mark.parts] == [first, second]
        assert (first.durable, first.table) == (True, None)
        assert (second.durable, second.full, second.table is None) == (False, True, False)
        assert not any(file.durable for file in others)
        assert mark.full_timestamp == START_MS + 700
        assert mark.note == {
            "offset": results[-1].end,
            "keys": 0,
            "file": second.path.name,
            "header": list(mark.parts[1].header),
            "unsure": False,
        }
        assert mark.parts[1].header.index_count == 3
        assert mark.folders == (rig.root, rig.root / "index")
        mark = index.files.begin_checkpoint()
        assert mark.folders == (rig.root / "index",)
        mark.write()
        index.checkpointed(mark)
        assert all(file.durable and (file.table is None) == file.full for file in index.files.all)
        assert index.files.begin_checkpoint().parts == []

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_nothing_is_added_while_a_checkpoint_writes_slots(rig):
    """A slot on disk would lead to an entry that the checkpoint's header does not count."""

    async def case(bench):
        index = bench.store._index
        await send(bench, 2)
        await bench.query("all")
        place = index.files.place
        rig.workers.held_runs = True
        marking = asyncio.ensure_future(index.mark())
        await until(lambda: rig.workers.waiting)
        await send(bench, 2, 4)
        asking = asyncio.ensure_future(bench.query("k4"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert index.files.place == place and not asking.done()
        rig.workers.held_runs = False
        rig.workers.step()
        mark = await marking
        (part,) = mark.parts
        heads = [int.from_bytes(rig.index()[part.file.path.name][40 + 4 * slot :][:4], "big") for slot in range(5)]
        assert max(heads) < part.header.index_count
        assert bodies((await asking)[0]) == [b"4"]
        index.checkpointed(mark)

    rig.run(case, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


# --- old files ------------------------------------------------------------------------------------------------------


def test_files_below_the_log_are_removed_but_never_the_newest(rig):
    async def case(bench):
        await send(bench, 16)
        await bench.query("all")
        await rig.checkpoint(bench)
        files = {name: read_header(data) for name, data in rig.index().items()}
        assert len(files) == 6
        second = list(files.values())[1]
        assert bench.store._index.files.delete_before(second.end_offset) == 1
        assert list(rig.index()) == list(files)[1:]
        assert bench.store._index.files.delete_before(second.end_offset) == 0
        assert bench.store._index.files.delete_before(1 << 62) == 4
        assert list(rig.index()) == list(files)[-1:]
        assert (await bench.query("k0"))[1]
        assert bodies((await bench.query("k14"))[0]) == [b"14"]

    rig.run(case, **SMALL)


def test_a_file_that_a_query_reads_is_removed_afterwards(rig):
    async def case(bench):
        await send(bench, 16)
        await bench.query("all")
        await rig.checkpoint(bench)
        bench.store._index.files.reading(1)
        old = bench.store._index.files.all[0]
        bench.store._index.files.delete_before(1 << 62)
        oldest = old.entry(1, DiskReads().index)
        kept = len(rig.index())
        bench.store._index.files.reading(-1)
        assert (oldest.log_offset, kept) == (0, 6)
        assert len(rig.index()) == 1

    rig.run(case, **SMALL)


# --- the note -------------------------------------------------------------------------------------------------------


async def with_a_long_end(bench):
    await send(bench, 3)
    await bench.add(*[message(body=b"-" * 100) for _ in range(20)])


def test_an_end_without_keys_is_not_read_again(rig):
    rig.run(with_a_long_end, **SMALL)

    async def later(bench):
        assert bench.store._index.files.place.log_offset == bench.store.state().max_log_offset
        await send(bench, 3, 3)

    rig.run(later, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_note_counts_only_beside_the_file_it_names(rig):
    rig.run(with_a_long_end, **SMALL)
    for path in (rig.root / "index").iterdir():
        path.unlink()
    rig.run(caught_up, **SMALL)
    assert list(rig.index().values()) == rig.index_of_log(5, 8)


def test_a_message_of_which_java_indexed_more_hides_no_key_of_the_next(rig):
    """RocketMQ 5.5 makes an entry of the tag as well."""

    async def case(bench):
        await bench.add(keyed(b"0", "k0", "U0"), keyed(b"1", "k1", "U1"))
        first, second = bench.store.scan(0, 1 << 60)
        held = bench.store._index.files
        held.place = IndexPosition(first.log_offset, 3)
        keys = held.keys_of([first, second])
        assert keys.offsets[keys.start :] == [second.log_offset] * 2

    rig.run(case)
