"""Opening the index: after clean stops, after crashes, and with files that cannot be right."""

import attrs
import pytest

from gantrymq.world.real import RealFiles
from gantrymq_storage_mmap.checkpoint.saved_point import read_point, write_point
from gantrymq_storage_mmap.index import builder
from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.index import read_header, write_header
from gantrymq_store_files.index_hash import index_hash
from gantrymq_testing.store_contract_bench import START_MS, bodies, keyed

SMALL = {"maxHashSlotNum": 5, "maxIndexNum": 8}  # seven keys a file


async def send(bench, count=9):
    """Messages of three keys each."""
    for n in range(count):
        bench.clock.now = START_MS + n * 700
        await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}"))
    await bench.query("all")


def send_and_kill(rig):
    """`send`, killed after the checkpoint requested by a full file."""

    async def case(bench):
        await send(bench)
        await rig.checkpoint_ends(bench)

    rig.kill(case, **SMALL)


async def everything(bench):
    found = bodies((await bench.query("all"))[0])
    assert found == [b"%d" % n for n in range(len(found))]
    bench.found = len(found)


def right(rig):
    """Whether the index matches the log."""
    return list(rig.index().values()) == rig.index_of_log(5, 8)


def sentences(rig):
    """Return the sentences about the index; none of its data is ever quarantined."""
    assert not list(rig.root.glob("recovered/*/index"))
    return [said for said in rig.said if said.startswith("index file")]


def forget_note(rig):
    """As if another broker had stopped here."""
    (rig.root / "checkpoint.json").unlink()


@pytest.fixture
def read_from(monkeypatch):
    """Log offsets from which the index read the log."""
    found, walk = [], builder.LogEntries

    def begin(source, start, *rest, **more):
        found.append(start)
        return walk(source, start, *rest, **more)

    monkeypatch.setattr(builder, "LogEntries", begin)
    return found


def patched_header(rig, number, **fields):
    name = list(rig.index())[number]
    header = read_header(rig.index()[name])
    rig.patch(rig.root / "index" / name, 0, write_header(header._replace(**fields)))
    return name


def test_a_clean_start_changes_nothing(rig):
    rig.run(send, **SMALL)
    before = rig.index()
    rig.said.clear()
    rig.run(everything, **SMALL)
    assert rig.index() == before
    assert rig.said == []


# --- after a crash --------------------------------------------------------------------------------------------------

WIDE = {"maxHashSlotNum": 2000, "maxIndexNum": 100}  # two pages of slots


@pytest.mark.parametrize("sizes", [SMALL, WIDE], ids=["small", "wide"])
def test_what_came_after_a_checkpoint_is_cut_and_read_again_and_nothing_before_it(rig, read_from, sizes):
    known = []

    async def case(bench):
        await send(bench, 5)
        known.extend(rig.index())
        await rig.checkpoint(bench)
        bench.store._checkpointer.halt()  # no other checkpoint
        for n in range(5, 9):
            bench.clock.now = START_MS + n * 700
            (result,) = await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}"))
            if n == 5:
                known.append(result.log_offset)
        await bench.query("all")

    rig.kill(case, **sizes)
    *before, place = known
    rig.said.clear()
    rig.run(everything, **sizes)
    assert sentences(rig) == []
    assert min(read_from) == place
    assert list(rig.index())[: len(before)] == before
    assert list(rig.index().values()) == rig.index_of_log(*sizes.values())


@pytest.mark.parametrize("first", ["query", "add"])
@pytest.mark.parametrize("pages", [1, 2])
@pytest.mark.parametrize("lost", [False, True], ids=["killed", "power cut"])
def test_a_checkpoint_that_ended_among_the_slots_is_made_good(rig, read_from, pages, first, lost):
    ends = []

    async def case(bench):
        await send(bench, 5)
        await rig.checkpoint(bench)
        for n in range(5, 9):
            (result,) = await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}"))
        await bench.query("all")
        (part,) = bench.store._index.files.begin_checkpoint().parts
        (run,) = part.runs
        assert (run.first, run.length) == (0, 2000)
        slots = part.file.table.slot_bytes(0, pages * 1024)
        part.file.file.pwrite(slots, part.file.layout.slot_at(0))
        heads = [int.from_bytes(slots[4 * slot :][:4], "big") for slot in range(1024)]
        assert max(heads) >= 16  # the durable part ends before
        ends.append(result.end)

    rig.kill(case, **WIDE)
    (name,) = rig.index()
    if lost:
        at = 40 + 4 * 2000 + 20 * 16  # entries that were not durable, and the header that counts them
        rig.patch(rig.root / "index" / name, at, bytes(20 * 12))
        header = read_header(rig.index()[name])
        rig.patch(rig.root / "index" / name, 0, write_header(header._replace(index_count=16)))

    async def after(bench):
        if first == "add":
            bench.clock.now = START_MS + 9 * 700
            await bench.add(keyed(b"9", "all k9", "U9"))
        for n in range(9):
            assert bodies((await bench.query(f"k{n}"))[0]) == [b"%d" % n]
        await everything(bench)

    rig.run(after, **WIDE)
    assert sentences(rig) == []
    assert list(rig.index()) == [name]
    assert list(rig.index().values()) == rig.index_of_log(2000, 100)


def test_slots_are_made_good_though_nothing_is_indexed(rig):
    """Queries of a broker that only reads find the durable messages; the next clean start finds correct slots."""

    async def case(bench):
        await send(bench, 5)
        await rig.checkpoint(bench)
        await send(bench, 9)
        mark = bench.store._index.files.begin_checkpoint()
        mark.write()

    async def look(bench):
        assert bodies((await bench.query("all"))[0]) == [b"%d" % n for n in range(5)]

    rig.kill(case, **WIDE)
    rig.run(look, messageIndexEnable=False, **WIDE)
    rig.run(look, messageIndexEnable=False, **WIDE)
    (data,) = rig.index().values()
    count = read_header(data).index_count
    heads = [int.from_bytes(data[40 + 4 * slot :][:4], "big") for slot in range(2000)]
    assert max(heads) == count - 1 == 15
    assert heads[index_hash("T", "all") % 2000] == 14


def test_without_a_checkpoint_everything_is_built_again(rig, read_from):
    send_and_kill(rig)
    (rig.root / "checkpoint").unlink()
    before = list(rig.index())
    rig.said.clear()
    rig.run(everything, **SMALL)
    assert right(rig)
    assert min(read_from) == 0
    assert sentences(rig) == [
        f"index file {before[0]} was being written when the broker ended; it and {len(before) - 1} newer files are "
        "removed and rebuilt from the log"
    ]


def test_where_another_broker_crashed_full_files_count_that_its_checkpoint_knew(rig):
    send_and_kill(rig)
    forget_note(rig)
    before = rig.index()
    rig.said.clear()
    rig.run(everything, **SMALL)
    assert right(rig)
    (said,) = sentences(rig)
    assert said.startswith(f"index file {list(before)[-1]} was being written when the broker ended; it is removed")
    assert list(rig.index().items())[:-1] == list(before.items())[:-1]


def test_a_file_is_never_named_like_one_that_a_checkpoint_may_still_name(rig):
    rig.run(send, **SMALL)
    *_, newest = rig.index()
    (rig.root / "index" / newest).unlink()
    rig.clock.now = START_MS
    rig.run(everything, **SMALL)
    assert right(rig)
    assert max(rig.index()) > newest


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"offset": 1 << 62}, None),  # the log lost its end: that place is not believed, the file is
        ({"header": [0] * 6}, ""),
        ({"header": [1, 2, 3]}, ""),
        ({"header": [0, 0, 0, 1 << 62, 1, 5]}, "refers to a message at"),
        ({"header": "x"}, ""),
        ({"file": "20990101000000000"}, "is not full, but the checkpoint refers to a newer file 20990101000000000"),
        ({"file": 7}, ""),
        ({"offset": 1}, "but the checkpoint says 1"),
        ({"keys": -1}, ""),
        ({"keys": "1"}, ""),
    ],
)
@pytest.mark.parametrize("crashed", [False, True])
def test_a_note_that_cannot_be_right_costs_a_file_at_most(rig, fields, says, crashed):
    rig.run(send, **SMALL)
    point = read_point(RealFiles(), rig.root, print)
    write_point(RealFiles(), rig.root, attrs.evolve(point, index=point.index | fields))
    if crashed:
        (rig.root / "abort").write_text("1")
    rig.run(everything, **SMALL)
    assert right(rig)
    if says:
        assert says in sentences(rig)[0]


# --- files that cannot be right -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"index_count": 9}, "says it holds 8 entries where 7 fit"),
        ({"end_offset": 1 << 40}, "refers to a message at"),
        ({"begin_offset": 1 << 39}, "begins after its own end"),
        ({"begin_timestamp": 1 << 60}, "begins after its own end"),
        ({"begin_offset": 0}, "before the end of the file before it"),
    ],
)
def test_a_file_whose_header_cannot_be_right_is_built_again_with_those_behind_it(rig, fields, says):
    rig.run(send, **SMALL)
    before = list(rig.index())
    patched_header(rig, 1, **fields)
    rig.run(everything, **SMALL)
    assert right(rig)
    (said,) = sentences(rig)
    assert said.startswith(f"index file {before[1]} ")
    assert says in said
    assert said.endswith(f"it and {len(before) - 2} newer files are removed and rebuilt from the log")


def test_what_follows_a_file_that_is_not_full_is_built_again(rig):
    rig.run(send, **SMALL)
    before = list(rig.index())
    first = read_header(rig.index()[before[0]])
    rig.said.clear()
    rig.patch(rig.root / "index" / before[1], 0, write_header(first.following()))
    rig.run(everything, **SMALL)
    (said,) = sentences(rig)
    assert "but the checkpoint refers to a newer file" in said
    assert before[1] in said

    async def found(bench):
        await everything(bench)
        assert bench.found == 9

    rig.run(found, **SMALL)


def test_files_of_another_size_are_built_again_in_the_size_of_the_settings(rig):
    rig.run(send, **SMALL)
    rig.run(everything, maxHashSlotNum=3, maxIndexNum=100)
    assert list(rig.index().values()) == rig.index_of_log(3, 100)
    (said,) = sentences(rig)
    assert "where maxHashSlotNum=3 and maxIndexNum=100 make" in said
    assert "it and 3 newer files are removed" in said


def test_a_checkpoint_that_knew_more_than_is_kept_is_put_right_before_anything_is_built(rig):
    rig.run(send, **SMALL)
    full = decode_checkpoint((rig.root / "checkpoint").read_bytes()).index_timestamp
    assert full == read_header(list(rig.index().values())[2]).end_timestamp
    patched_header(rig, 1, index_count=9)

    async def look(bench):
        first = read_header(next(iter(rig.index().values())))
        assert decode_checkpoint((rig.root / "checkpoint").read_bytes()).index_timestamp == first.end_timestamp

    rig.kill(look, **SMALL)
    rig.run(everything, **SMALL)
    assert right(rig)


def test_strangers_in_the_folder_are_left_alone_and_told(rig):
    rig.run(send, **SMALL)
    (rig.root / "index" / "notes.txt").write_text("mine")
    (rig.root / "index" / "20260101000000000").mkdir()
    rig.run(everything, **SMALL)
    assert (rig.root / "index" / "notes.txt").read_text() == "mine"
    assert len([said for said in rig.said if "is ignored: names of index files have 17 digits" in said]) == 2


@pytest.mark.parametrize("note", [None, [], {}, {"offset": 1e400}, 7])
def test_a_note_that_cannot_be_understood_counts_as_none(rig, note):
    rig.run(send, **SMALL)
    point = read_point(RealFiles(), rig.root, print)
    write_point(RealFiles(), rig.root, attrs.evolve(point, index=note))
    rig.run(everything, **SMALL)
    assert right(rig)


def test_an_index_ahead_of_a_log_that_lost_its_end_is_built_again(rig):
    rig.run(send, **SMALL)
    log = rig.root / "commitlog" / f"{0:020d}"
    last = read_header(list(rig.index().values())[-1]).end_offset
    rig.patch(log, last, bytes(8192 - last))
    (rig.root / "abort").write_text("1")
    rig.run(everything, **SMALL)
    assert right(rig)
    assert len(bodies_in(rig)) == 8


def bodies_in(rig):
    """Log offsets that the index knows."""
    return {
        int.from_bytes(data[at + 4 : at + 12], "big")
        for data in rig.index().values()
        for at in range(40 + 20 + 20, 40 + 20 + 20 * read_header(data).index_count, 20)
    }


# --- the process ends at every call ---------------------------------------------------------------------------------


async def workload(bench):
    """Sends and asks, over three files, several in one millisecond; the index is written in between."""
    for n in range(3, 7):
        bench.clock.now = START_MS + n // 4 * 4 * 700
        await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}"))
        await bench.query("all")
    await bench.store.stop()


@pytest.mark.slow
def test_the_index_is_what_the_log_says_wherever_the_process_ends(tmp_path, rig):
    async def first(bench):
        await send(bench, 3)

    stop_at, went_on = 1, True
    while went_on:
        rig.root = tmp_path / str(stop_at)
        rig.said.clear()
        rig.run(first, **SMALL)
        went_on = rig.kill(workload, stop_at=stop_at, **SMALL)
        rig.run(asked, **SMALL)
        assert right(rig), (stop_at, rig.said)
        stop_at += 1
    assert stop_at > 50


async def asked(bench):
    await bench.query("all")


def test_messages_behind_the_damage_that_the_newest_full_file_ends_in_are_found(rig):
    places = []

    async def case(bench):
        await send(bench)
        places.extend(entry.log_offset for entry in bench.store.scan(0, 1 << 60))

    rig.kill(case, **SMALL)
    assert read_header(list(rig.index().values())[2]).end_offset == places[6]
    for place in places[5:7]:
        rig.patch(rig.log(), place + 4, b"\xff" * 8)

    async def after(bench):
        assert bodies((await bench.query("all"))[0]) == [b"%d" % n for n in range(9) if n not in (5, 6)]

    rig.run(after, **SMALL)
