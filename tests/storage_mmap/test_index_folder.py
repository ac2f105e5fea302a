"""Opening the index: after clean stops, after crashes, and with files that cannot be right."""

import pytest

from gantrymq.formats.checkpoint import decode_checkpoint
from gantrymq.formats.index import read_header, write_header
from gantrymq.testing.store_contract_bench import START_MS, bodies, keyed

SMALL = {"maxHashSlotNum": 5, "maxIndexNum": 8}  # seven keys a file


async def send(bench, count=9):
    """Messages of three keys each."""
    for n in range(count):
        bench.clock.now = START_MS + n * 700
        await bench.add(keyed(b"%d" % n, f"all k{n}", f"U{n}"))
    await bench.query("all")


async def everything(bench):
    found = bodies((await bench.query("all"))[0])
    assert found == [b"%d" % n for n in range(len(found))]
    bench.found = len(found)


def right(rig):
    """Whether the index is what the log says."""
    return list(rig.index().values()) == rig.index_of_log(5, 8)


def aside(rig):
    return sorted(path.name for path in rig.root.glob("recovered/*/index/*"))


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
    assert aside(rig) == []


def test_after_a_kill_the_newest_file_is_set_aside_and_built_again(rig):
    rig.kill(send, **SMALL)
    before = rig.index()
    assert not right(rig)  # slots of the newest file were never written
    rig.run(everything, **SMALL)
    assert right(rig)
    assert aside(rig) == list(before)[-1:]
    assert any("was being written when the broker ended" in said for said in rig.said)
    assert list(rig.index().items())[:-1] == list(before.items())[:-1]


def test_a_kill_before_the_checkpoint_knew_of_a_full_file_builds_that_again_too(rig):
    rig.kill(send, **SMALL)
    (rig.root / "checkpoint").unlink()
    before = list(rig.index())
    rig.run(everything, **SMALL)
    assert right(rig)
    assert aside(rig) == before


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"index_count": 9}, "says it holds 8 entries where 7 fit"),
        ({"end_offset": 1 << 40}, "knows a message at"),
        ({"begin_offset": 1 << 39}, "begins behind its own end"),
        ({"begin_timestamp": 1 << 60}, "begins behind its own end"),
        ({"begin_offset": 0}, "before the end of the file before it"),
    ],
)
def test_a_file_whose_header_cannot_be_right_is_built_again_with_those_behind_it(rig, fields, says):
    rig.run(send, **SMALL)
    before = list(rig.index())
    patched_header(rig, 1, **fields)
    rig.run(everything, **SMALL)
    assert right(rig)
    assert aside(rig) == before[1:]
    assert says in rig.said[0]
    assert before[1] in rig.said[0]


def test_what_follows_a_file_that_is_not_full_is_built_again(rig):
    rig.run(send, **SMALL)
    before = list(rig.index())
    first = read_header(rig.index()[before[0]])
    rig.patch(rig.root / "index" / before[1], 0, write_header(first.following()))
    rig.run(everything, **SMALL)
    assert aside(rig) == before[2:]
    assert any("follows a file that is not full" in said for said in rig.said)

    async def found(bench):
        await everything(bench)
        assert bench.found == 9

    rig.run(found, **SMALL)


def test_files_of_another_size_are_built_again_in_the_size_of_the_settings(rig):
    rig.run(send, **SMALL)
    rig.run(everything, maxHashSlotNum=3, maxIndexNum=100)
    assert list(rig.index().values()) == rig.index_of_log(3, 100)
    assert len(aside(rig)) == 4
    assert "where maxHashSlotNum=3 and maxIndexNum=100 make" in rig.said[0]


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
    assert len([said for said in rig.said if "is no index file and is left alone" in said]) == 2


@pytest.mark.parametrize("note", ["", "{", "[]", '{"offset": "x", "newest": ""}', '{"offset": 1e400, "newest": ""}'])
def test_a_note_that_cannot_be_read_counts_as_none(rig, note):
    rig.run(send, **SMALL)
    (rig.root / "indexPosition.json").write_text(note)
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
