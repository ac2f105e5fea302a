import json
from zlib import crc32

import attrs
import pytest

from gantrymq.interfaces import Bounds
from gantrymq.model.queue import Queue
from gantrymq.world.real import RealFiles
from gantrymq_storage_mmap.checkpoint.saved_point import FILE_NAME, SavedPoint, read_point, write_point
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_testing.store_contract_bench import START_MS, bodies, message

FILES = RealFiles()
T0 = Queue("T", 0)
POINT = SavedPoint(
    offset=1 << 40,
    newest=((1 << 40) - 96, 96, START_MS),
    log_min=8192,
    log_timestamp=START_MS,
    queue_timestamp=START_MS - 1,
    file_bytes=(400, 92, 128),
    index={"offset": 7, "keys": 1, "file": "", "header": [], "unsure": False},
    queues={"T": {"0": (3, 12), "1": (0, 1)}, 'quote " and \\': {"7": (0, 5)}, "täglich": {"0": (0, 1)}},
    batch_queues={"B": {"0": (2, 9)}},
    ext={"T": {"0": 160}},
)


def as_lists(point):
    """Convert pairs to lists, as JSON does."""
    found = {name: json.loads(json.dumps(getattr(point, name))) for name in ("queues", "batch_queues")}
    return attrs.evolve(point, **found)


def read(folder):
    said = []
    return read_point(FILES, folder, said.append), said


def test_what_was_written_is_read(tmp_path):
    write_point(FILES, tmp_path, POINT)
    assert read(tmp_path) == (as_lists(POINT), [])
    empty = SavedPoint(0, (-1, 0, 0), 0, 0, 0, (1, 2, 3), {}, {}, {}, {})
    write_point(FILES, tmp_path, empty)
    assert read(tmp_path) == (empty, [])


def test_the_file_is_json_with_a_line_for_each_topic_and_a_check_sum_over_the_text_before(tmp_path):
    write_point(FILES, tmp_path, POINT)
    data = (tmp_path / FILE_NAME).read_bytes()
    found = json.loads(data)
    assert (found["offset"], found["times"]) == (POINT.offset, [START_MS, START_MS - 1])
    assert found["crc"] == crc32(data[: data.rindex(b', "crc"')])
    lines = data.decode().splitlines()
    assert all(
        sum(line.startswith(f"{json.dumps(name, ensure_ascii=False)}: ") for line in lines) for name in found["queues"]
    )
    assert "täglich".encode() in data


def test_a_store_without_the_file_has_nothing_to_tell(tmp_path):
    assert read(tmp_path) == (None, [])


def signed(text):
    return text + b', "crc": %d}' % crc32(text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-9],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"[3, 12]", b"[3, 13]"),
        lambda data: data.replace(b'"crc": ', b'"crc": 1'),
        lambda data: bytes(len(data)),
        lambda data: signed(b"[1"),
        lambda data: signed(b'{"offset": 7'),
        lambda data: signed(data[: data.rindex(b', "crc"')].replace(b'"times": [', b'"times": [1, ')),
        lambda data: signed(data[: data.rindex(b', "crc"')].replace(b'"newest": [', b'"newest": 7, "more": [')),
        lambda data: signed(b'{"offset": "\xff"'),
    ],
)
def test_a_file_that_is_broken_is_told_and_not_used(tmp_path, spoil):
    write_point(FILES, tmp_path, POINT)
    path = tmp_path / FILE_NAME
    path.write_bytes(spoil(path.read_bytes()))
    found, said = read(tmp_path)
    assert found is None
    assert len(said) == 1
    assert said[0].startswith(f"{path} cannot be used (")
    assert said[0].endswith("; searching for the ends of the queues")


def test_every_flipped_bit_is_noticed(tmp_path):
    write_point(FILES, tmp_path, POINT)
    path = tmp_path / FILE_NAME
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert read(tmp_path)[0] in (None, as_lists(POINT))


def test_it_belongs_to_the_checkpoint_beside_it_and_to_the_one_before():
    def checkpoint(log, queue):
        return Checkpoint(log_timestamp=log, queue_timestamp=queue)

    assert POINT.belongs_to(checkpoint(START_MS, START_MS - 1))
    assert POINT.belongs_to(checkpoint(0, 0))
    assert not POINT.belongs_to(checkpoint(START_MS + 1, START_MS - 1))
    assert not POINT.belongs_to(checkpoint(START_MS, START_MS))


# --- in a store -----------------------------------------------------------------------------------------------------


def claiming(rig, end):
    """Make a store of three messages whose file claims that the queue ends at *end*."""

    async def case(bench):
        await bench.add(*[message(body=b"%d" % n) for n in range(3)])

    rig.run(case)
    point = read_point(FILES, rig.root, lambda sentence: None)
    assert point is not None
    write_point(FILES, rig.root, attrs.evolve(point, queues={"T": {"0": (0, end)}}))


def look(rig):
    found = []

    async def case(bench):
        found.append(bench.store.bounds(T0))
        assert bodies(await bench.read_all(T0))[:3] == [b"0", b"1", b"2"]

    rig.run(case)
    return found[0]


def test_it_is_valid_until_another_program_opens_the_store(rig):
    claiming(rig, 5)
    assert look(rig) == Bounds(0, 5)  # numbers are not given out again


@pytest.mark.parametrize(
    "moved", [{"log_timestamp": START_MS + 1}, {"queue_timestamp": START_MS + 1}], ids=["log", "queue"]
)
def test_it_is_not_believed_when_rocketmq_s_checkpoint_moved_without_it(rig, moved):
    claiming(rig, 5)
    before = Checkpoint(log_timestamp=START_MS, queue_timestamp=START_MS)
    (rig.root / "checkpoint").write_bytes(encode_checkpoint(before._replace(**moved)))
    assert look(rig) == Bounds(0, 3)


def test_it_is_not_believed_without_rocketmq_s_checkpoint(rig):
    claiming(rig, 5)
    (rig.root / "checkpoint").unlink()
    assert look(rig) == Bounds(0, 3)


def test_a_broken_one_is_in_the_report_and_the_queues_are_searched(rig):
    claiming(rig, 5)
    rig.patch(rig.root / FILE_NAME, 3, b"X")
    assert look(rig) == Bounds(0, 3)
    assert any("checkpoint.json cannot be used" in sentence for sentence in rig.said)
    rig.said.clear()
    assert look(rig) == Bounds(0, 3)  # and one that is sound was written
    assert rig.said == []


def test_it_is_not_believed_with_queue_files_of_another_size_or_a_log_that_does_not_reach_it(rig):
    claiming(rig, 5)
    point = read_point(FILES, rig.root, lambda sentence: None)
    for changed in ({"file_bytes": (800, *point.file_bytes[1:])}, {"offset": 8193}):
        write_point(FILES, rig.root, attrs.evolve(point, **changed))
        assert look(rig) == Bounds(0, 3)
