"""Comparison of the compiled functions for Spark with their Python versions on seeded random records, damaged and
unusual ones included.
"""

from __future__ import annotations

import random
import sys
import zlib

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("gantrymq_spark")

from gantrymq import speedups
from gantrymq.formats.record import encode_record
from gantrymq.model.sys_flag import COMPRESSED
from gantrymq_spark import batches, record_run
from gantrymq_spark.batches import RowOptions, batch_of
from gantrymq_spark.columns import COLUMNS, schema
from gantrymq_spark.compiled_columns import COMPILED, compiled_columns
from gantrymq_spark.record_columns import FORMAT
from gantrymq_spark.records import Records
from gantrymq_store_files.filler import FILLER_TOPIC
from gantrymq_store_files.record_crc import crc_tail

if speedups.compiled is None:
    pytest.skip(f"nothing to compare: {speedups.description}", allow_module_level=True)

SEEDS = range(6)
V4, OTHER_V4, V6 = b"\x7f\0\0\1\0\0\x2a\x9f", b"\xff\xff\xff\xff\x80\0\0\0", bytes(range(20))
NAMES = (b"KEYS", b"TAGS", b"UNIQ_KEY", b"KEY", b"a", "ä".encode(), b"", b"TAGS\x01")
ODD_BYTES = (
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe0\x9f\xbf",
    b"\xf0\x9f\x98\x80",
    b"\xc3",
)


def property_text(rng, odd):
    if rng.random() < 0.1:
        return b"".join(b"name%d\x01%d\x02" % (rng.randrange(60), n) for n in range(rng.choice((15, 16, 17, 18, 200))))
    pairs = [
        rng.choice(NAMES) + b"\x01" + rng.choice((b"", b"v", b"\x01", b"value %d" % rng.randrange(9))) + b"\x02"
        for _ in range(rng.randrange(6))
    ]
    if rng.random() < odd:
        pairs.insert(rng.randrange(len(pairs) + 1), rng.choice((b"\x01", b"\x02", *ODD_BYTES)))
    text = b"".join(pairs)
    return text[:-1] if rng.random() < 0.2 else text


def record(rng, log_offset=0, odd=0.05):
    hosts = (V4, V4, V4, OTHER_V4) if rng.random() > odd else (V6, V4)
    topic = (
        rng.choice(("T", "TopicTest", "T" * 127)) if rng.random() > odd else rng.choice(("тема", "t" * 128, "t" * 3000))
    )
    body, flags = rng.randbytes(rng.choice((0, 1, 15, 64, 100, 1000))), rng.randrange(1 << 31) & ~(0x30 | COMPRESSED)
    if rng.random() < odd:
        body, flags = (zlib.compress(body) if rng.random() < 0.8 else body), COMPRESSED
    data = encode_record(
        topic=topic,
        queue_id=rng.randrange(-2, 9),
        body=body,
        properties=property_text(rng, odd),
        queue_offset=rng.choice((0, -1, rng.randrange(1 << 62))),
        log_offset=log_offset,
        store_timestamp=rng.choice((rng.randrange(1 << 41), -(1 << 63), 253_402_300_800_000)),
        born_timestamp=rng.choice((rng.randrange(1 << 41), (1 << 63) - 1, -62_135_596_800_000)),
        born_host=rng.choice(hosts),
        store_host=rng.choice(hosts),
        flag=rng.randrange(-(1 << 31), 1 << 31),
        sys_flag=flags,
        reconsume_times=rng.randrange(3),
        prepared_offset=rng.randrange(-1, 1 << 50),
    )
    return with_checksum(data, wrong=rng.random() < 0.1) if rng.random() < odd else data


def with_checksum(data, *, wrong):
    """The record with a checksum of its own as last property."""
    at = data.rindex(b"\x02") + 1 if data.endswith(b"\x02") else None
    if at is None:
        return data
    size = len(data) + 20
    start = next(n for n in range(len(data) - 2, 87, -1) if n + 2 + int.from_bytes(data[n : n + 2], "big") == len(data))
    length = len(data) - start - 2 + 20
    made = size.to_bytes(4, "big") + data[4:start] + length.to_bytes(2, "big") + data[start + 2 :]
    return made + crc_tail(made + b"x" if wrong else made)


def log_piece(rng, base):
    data = bytearray()
    for _ in range(rng.randrange(1, 25)):
        wrong = rng.random() < 0.01
        data += record(rng, base + len(data) + wrong)
        if rng.random() < 0.01:
            data += encode_record(topic=FILLER_TOPIC, queue_id=0, body=b"", properties=b"", log_offset=base + len(data))
    for _ in range(rng.choice((0, 0, 0, 1, 3))):
        at = rng.randrange(len(data))
        data[at] = rng.choice((0, data[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    return bytes(data)


def starts(records):
    return [] if records is None else records.starts.tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_of_sound_records_are_found_alike(seed):
    rng = random.Random(seed)
    found = 0
    for _ in range(60):
        base = rng.choice((0, 5, 1 << 40))
        data = log_piece(rng, base)
        view = memoryview(data[: rng.choice((len(data), len(data), rng.randrange(len(data) + 1)))])
        for check_crc in (True, False):
            given = (view, base, base + rng.choice((1 << 30, rng.randrange(len(data) + 2))))
            sound = starts(record_run.sound_run(*given, check_crc=check_crc))
            assert sound == starts(record_run._sound_run(*given, check_crc=check_crc))
            found += len(sound)
        assert starts(record_run.whole_records(view)) == starts(record_run._whole_records(view))
    assert found > 300


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_byte_ends_a_run_alike(seed):
    """Each byte of a record's head, lengths and texts in turn."""
    rng = random.Random(seed)
    tail = b"a\x01b\x02"
    whole = with_checksum(
        encode_record(topic="T" * rng.choice((5, 130)), queue_id=0, body=b"x" * 9, properties=tail), wrong=False
    )
    for at in range(len(whole)):
        piece = bytearray(whole)
        piece[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        for data in (bytes(piece) + whole, bytes(piece[: rng.randrange(len(piece))]), bytes(piece)):
            view = memoryview(data + bytes(rng.choice((0, 40))))
            for check_crc in (True, False):
                given = (view, 0, 1 << 30)
                assert starts(record_run.sound_run(*given, check_crc=check_crc)) == starts(
                    record_run._sound_run(*given, check_crc=check_crc)
                )
            assert starts(record_run.whole_records(view)) == starts(record_run._whole_records(view))


def rows_of(data, positions, options):
    """A batch, or the error, and the names of the columns that the compiled function built."""
    records = Records(data, positions)
    try:
        return batch_of(records, options)
    except Exception as problem:
        return str(problem)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_are_built_alike(seed, monkeypatch):
    rng = random.Random(seed)
    built = set()

    def counted(data, places, names, delta):
        found = compiled_columns(data, places, names, delta)
        built.update(found)
        return found

    for number in range(60):
        odd = (0, 0.05, 0.3)[number % 3]
        data = b"".join(record(rng, rng.choice((0, 1 << 50, (1 << 63) - 1)), odd) for _ in range(rng.randrange(1, 20)))
        whole = record_run._whole_records(memoryview(data + bytes(24)))
        if whole is None:
            continue
        positions = whole.starts[:: rng.choice((1, 1, 2))]
        names = rng.sample([*COLUMNS], rng.randrange(1, len(COLUMNS) + 1)) if rng.random() < 0.7 else None
        options = RowOptions(
            schema(names),
            rng.choice((None, "broker-a")),
            rng.choice(({}, {}, {"T": "shown"})),
            rng.random() < 0.3,
            rng.choice((0, 7, -3)),
            rng.choice(("null", "keep", "fail")),
        )
        monkeypatch.setattr(batches, "compiled_columns", counted)
        found = rows_of(data, positions, options)
        monkeypatch.setattr(batches, "compiled_columns", lambda *_: {})
        expected = rows_of(data, positions, options)
        if isinstance(expected, str):
            assert found == expected
            continue
        found.validate(full=True)
        assert found.equals(expected)
        assert found.schema == expected.schema
    assert built == {*COMPILED}


def test_what_is_unusual_is_left_to_python():
    plain = encode_record(topic="T", queue_id=0, body=b"b", properties=b"TAGS\x01A\x02")
    odd = encode_record(topic="T", queue_id=0, body=b"b", properties=b"TAGS\x01\xff\x02", born_host=V6)
    places = record_run._whole_records(memoryview(plain + odd + bytes(24))).starts
    found = compiled_columns(plain + odd, places, [*COMPILED], 0)
    assert {*COMPILED} - {*found} == {"bornHost", "properties", "keys", "tags", "uniqueKey"}
    assert {*compiled_columns(plain + odd, places[:1], [*COMPILED], 0)} == {*COMPILED}


@pytest.mark.parametrize(
    ("positions", "column"),
    [
        ([1], (0, 0, 0, b"")),
        ([-1], (0, 0, 0, b"")),
        ([1 << 40], (0, 0, 0, b"")),
        ([0], (0, 85, 0, b"")),
        ([0], (1, -1, 0, b"")),
        ([0], (3, 8, 0, b"")),
    ],
)
def test_positions_and_fields_that_are_not_there_are_refused(positions, column):
    data = encode_record(topic="T", queue_id=0, body=b"", properties=b"")
    packed = b"".join(place.to_bytes(8, sys.byteorder, signed=True) for place in positions)
    with pytest.raises(ValueError, match="no "):
        speedups.compiled.record_columns((1, 2, 3, 4), (0, 1), data, packed, (column,))


def test_nothing_is_kept():
    rng = random.Random(5)
    pieces = [memoryview(log_piece(rng, 0)) for _ in range(5)]
    pulled = b"".join(record(rng, odd=0) for _ in range(50))
    places = record_run._whole_records(memoryview(pulled + bytes(24))).starts
    odd = encode_record(topic="T", queue_id=0, body=b"", properties=b"\xff", born_host=V6, store_host=V6)
    wanted = tuple((kind, at, 0, key) for kind, at, key in COMPILED.values())

    def columns(data, positions):
        found = speedups.compiled.record_columns(FORMAT, (0, 1), data, positions, wanted)
        return sum(column is not None for column in found)

    def work():
        for piece in pieces:
            speedups.compiled.sound_starts(FORMAT, b"f", b"__CRC32#\x01", piece, len(piece), 0, 7)
        return columns(pulled, places) - columns(odd, places[:1])

    blocks = []
    for rounds in (5, 50):
        assert min(work() for _ in range(rounds)) == 6
        blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 50
