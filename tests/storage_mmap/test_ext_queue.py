import shutil

import pytest
from placed_messages import EXT, LIGHT, alone, fanned

from gantrymq.errors import StoreLayoutError
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue
from gantrymq_store_files.ext_unit import END_OF_UNITS, ExtUnit, ext_address, iter_ext_units, pack_ext_unit
from gantrymq_store_files.queue_entry import ENTRY, is_ext_address
from gantrymq_testing.store_contract_bench import START_MS, OnlyTags, message, records_of

QUEUE = Queue("T", 0)
TAGS = ["A", "B", "", "A", "C", "A", "B", "A"]


class RecordingTagFilter:
    """A filter for one tag that records its arguments."""

    accepts_all = needs_message = False

    def __init__(self, tag):
        self.code = tags_code(tag)
        self.asked = []

    def match_entry(self, code, ext):
        self.asked.append((code, ext))
        return code == self.code


def ext_file(rig, start=0, topic="T"):
    return rig.root / "consumequeue_ext" / topic / "0" / f"{start:020d}"


async def fill(bench):
    for tag in TAGS:
        await bench.add(message(tag=tag))
        bench.clock.now += 1


def entries(rig):
    return [entry for entry in ENTRY.iter_unpack(rig.queue().read_bytes()) if entry[1]]


def test_each_message_gets_a_unit_and_files_roll_as_java_s_do(rig):
    rig.run(fill, **EXT)
    units = [ExtUnit(tags_code(tag), START_MS + n) for n, tag in enumerate(TAGS)]
    packed = b"".join(map(pack_ext_unit, units[:6]))
    assert ext_file(rig).read_bytes() == packed + END_OF_UNITS + bytes(128 - 122)
    assert [unit for _, unit in iter_ext_units(ext_file(rig, 128).read_bytes())] == units[6:]
    addresses = [ext_address(at) for at in (0, 20, 40, 60, 80, 100, 128, 148)]
    assert [entry[2] for entry in entries(rig)] == addresses


@pytest.mark.parametrize("settings", [EXT, EXT | {"enableConsumeQueueExt": False}, EXT | {"hotReadWindow": 0}])
@pytest.mark.parametrize("again", [False, True])
def test_filters_are_asked_with_the_real_code_and_the_unit(rig, settings, again):
    async def case(bench):
        await fill(bench)
        if again:
            await bench.restart()
        match = RecordingTagFilter("A")
        found = await bench.read_all(QUEUE, match=match)
        assert [record.queue_offset for record in found] == [0, 3, 5, 7]
        expected = [tags_code(tag) for tag in TAGS]
        # The filter is called again for units that are on the disk only.
        assert [code for code, _ in match.asked] in (expected, expected * 2)
        if settings["enableConsumeQueueExt"]:
            assert [ext for _, ext in match.asked[:8]] == [ExtUnit(c, START_MS + n) for n, c in enumerate(expected)]
        by_message = await bench.read_all(QUEUE, match=OnlyTags("C", needs_message=True))
        assert [record.queue_offset for record in by_message] == [4]

    rig.run(case, **settings)


def test_units_are_written_while_the_setting_is_on_and_read_always(rig):
    off = EXT | {"enableConsumeQueueExt": False}

    async def add(bench):
        await bench.add(message(tag="A"), message(tag="B"))

    for settings in (EXT, off, EXT, off):
        rig.run(add, **settings)
    assert [is_ext_address(code) for _, _, code in entries(rig)] == [True, True, False, False] * 2

    async def look(bench):
        assert bench.report.clean
        assert len(await bench.read_all(QUEUE, match=RecordingTagFilter("A"))) == 4

    rig.run(look, **off)
    rig.run(look, **EXT)


def test_an_entry_without_its_unit_passes_the_first_stage(rig):
    rig.run(fill, **EXT)
    rig.patch(ext_file(rig), 0, bytes(40))

    async def look(bench):
        found = records_of(await bench.get(QUEUE, 0, GetLimit(), RecordingTagFilter("C")))
        assert [record.queue_offset for record in found] == [0, 1, 4]

    rig.run(look, **EXT)


def units_of(rig, topic="T"):
    folder = rig.root / "consumequeue_ext" / topic / "0"
    return [unit for path in sorted(folder.iterdir()) for _, unit in iter_ext_units(path.read_bytes())]


def test_units_get_the_bits_that_are_made_for_their_topic(rig):
    async def case(bench):
        await bench.add(message(tag="A"))
        rig.bit_maps["T"] = lambda properties: properties[-2:]
        for tag in ("B", "C"):
            await bench.add(message(tag=tag))
        await bench.add(message(topic="U", tag="B"))
        del rig.bit_maps["T"]
        await bench.add(message(tag="D"))

    rig.run(case, **EXT)
    assert [unit.bits for unit in units_of(rig)] == [b"", b"B\x02", b"C\x02", b""]
    assert [unit.bits for unit in units_of(rig, "U")] == [b""]


def test_after_a_crash_units_that_are_listed_again_keep_their_bits(rig):
    async def fill_and_write(bench):
        rig.bit_maps["T"] = lambda properties: properties[-2:]
        await fill(bench)
        rig.write_queues(bench)

    rig.kill(fill_and_write, **EXT)
    before = [(unit.tags_code, unit.bits) for unit in units_of(rig)]
    rig.bit_maps.clear()
    shutil.rmtree(rig.root / "consumequeue")

    async def look(bench):
        assert len(await bench.read_all(QUEUE)) == len(TAGS)

    rig.run(look, **EXT)
    assert [(unit.tags_code, unit.bits) for unit in units_of(rig)] == before
    assert before[0][1] == b"A\x02"


@pytest.mark.parametrize("part", ["consumequeue", "consumequeue_ext"])
def test_after_a_crash_queue_and_units_belong_together_again(rig, part):
    async def fill_and_write(bench):
        await fill(bench)
        rig.write_queues(bench)

    rig.kill(fill_and_write, **EXT)
    before = ext_file(rig).read_bytes(), rig.queue().read_bytes()
    shutil.rmtree(rig.root / part)

    async def look(bench):
        match = RecordingTagFilter("A")
        assert [record.queue_offset for record in await bench.read_all(QUEUE, match=match)] == [0, 3, 5, 7]
        assert [code for code, _ in match.asked] == [tags_code(tag) for tag in TAGS]
        await bench.add(message(tag="A"))
        assert len(await bench.read_all(QUEUE, match=RecordingTagFilter("A"))) == 5

    rig.run(look, **EXT)
    assert (ext_file(rig).read_bytes(), rig.queue().read_bytes()[:160]) == (before[0], before[1][:160])


def test_units_that_went_before_the_checkpoint_are_missing_and_later_ones_go_on_behind_them(rig):
    async def fill_and_save(bench):
        await fill(bench)
        await rig.checkpoint(bench)
        await bench.add(message(tag="A"))

    rig.kill(fill_and_save, **EXT)
    shutil.rmtree(rig.root / "consumequeue_ext")

    async def look(bench):
        assert bench.report.entries_rebuilt == 1
        await rig.checkpoint(bench)
        match = RecordingTagFilter("A")
        assert len(await bench.read_all(QUEUE, match=match)) == 9  # without its unit an entry passes
        assert {code for code, _ in match.asked} == {tags_code("A")}  # of the one whose unit is there

    rig.run(look, **EXT)
    assert [ext_address(at) for at in (0, 20, 40, 60, 80, 100, 128, 148, 168)] == [code for *_, code in entries(rig)]


def test_units_behind_the_last_entry_are_cut_off_and_kept(rig):
    async def fill_and_write(bench):
        await fill(bench)
        rig.write_queues(bench)

    rig.kill(fill_and_write, **EXT)
    rig.patch(ext_file(rig, 128), 40, b"\x00\x14" + b"x" * 18)

    async def look(bench):
        assert any("consumequeue_ext/T/0" in kept for kept in bench.report.kept)

    rig.run(look, **EXT)
    assert ext_file(rig, 128).read_bytes()[40:] == bytes(88)


def test_batch_queues_and_light_queues_have_no_units(rig):
    async def case(bench):
        await bench.add(alone(tag="A"), fanned("%LMQ%a", tag="A"))

    rig.run(case, **EXT, **LIGHT)
    assert sorted(path.name for path in (rig.root / "consumequeue_ext").iterdir()) == ["T"]
    assert ENTRY.unpack_from(rig.queue("%LMQ%a").read_bytes())[2] == tags_code("A")


def test_files_of_another_size_are_refused_with_the_setting_that_fits(rig):
    rig.run(fill, **EXT)
    with pytest.raises(StoreLayoutError, match="set mappedFileSizeConsumeQueueExt=128 for this store"):
        rig.run(fill, **EXT | {"mappedFileSizeConsumeQueueExt": 256})


def test_a_dropped_topic_takes_its_units_along(rig):
    async def case(bench):
        await fill(bench)
        bench.store.drop("T")
        assert not (rig.root / "consumequeue_ext" / "T").exists()
        await bench.add(message(tag="B"))
        assert [r.queue_offset for r in await bench.read_all(QUEUE, match=RecordingTagFilter("B"))] == [0]

    rig.run(case, **EXT)
