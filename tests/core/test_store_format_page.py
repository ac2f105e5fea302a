"""docs/internals/store-format.md agrees with the modules of formats: the order of fields, and total sizes."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from gantrymq.formats.record import HEAD_V4
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
from gantrymq_store_files.blank import BLANK_BYTES
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.ext_unit import MIN_UNIT_BYTES
from gantrymq_store_files.index import ENTRY as INDEX_ENTRY
from gantrymq_store_files.index import HEADER as INDEX_HEADER
from gantrymq_store_files.queue_entry import ENTRY_BYTES

PAGE = Path(__file__).resolve().parents[2] / "docs/internals/store-format.md"
ROW = re.compile(r"^\| (\d+) \| (\d+) \| (.+?) \|.*\| `.+ \|$")

SIZES = {
    "1. Commit log: the record": [HEAD_V4.size],
    "2. Commit log: the blank": [BLANK_BYTES],
    "3. Queue entry": [ENTRY_BYTES],
    "4. Ext unit": [MIN_UNIT_BYTES],
    "5. Batch entry": [BATCH_ENTRY_BYTES],
    "6. Index file": [INDEX_HEADER.size, INDEX_ENTRY.size],
    "7. Checkpoint": [8 * len(Checkpoint._fields)],
}


def tables(heading):
    """The tables of fields below *heading*: each a list of ``(at, bytes, name)``."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = []
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if lines[0].startswith("| at | bytes |"):
            rows = [ROW.match(line) for line in lines[2:]]
            assert all(rows), f"a row of {heading} has no place, size or source"
            found.append([(int(row[1]), int(row[2]), row[3]) for row in rows])
    return found


@pytest.mark.parametrize("heading", SIZES)
def test_fields_lie_side_by_side_and_add_up(heading):
    found = tables(heading)
    for rows in found:
        assert rows[0][0] == 0
        assert all(at + size == after for (at, size, _), (after, _, _) in pairwise(rows))
    assert [rows[-1][0] + rows[-1][1] for rows in found] == SIZES[heading]


@pytest.mark.parametrize("heading", SIZES)
def test_a_number_has_the_size_that_its_type_says(heading):
    for rows in tables(heading):
        for _, size, name in rows:
            bits = re.search(r"[iu](16|32|64)$", name)
            assert bits is None or int(bits[1]) == 8 * size, name


def test_the_checkpoint_s_times_stand_where_the_page_says():
    data = encode_checkpoint(Checkpoint(*range(1, 6)))
    assert len(data) == 4096
    values = [int.from_bytes(data[at : at + size], "big") for at, size, _ in tables("7. Checkpoint")[0]]
    assert values == [1, 2, 3, 4, 5]
