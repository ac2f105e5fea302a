"""Names of files that are one whole, and the pieces of a range."""

import pytest

from gantrymq_store_files.file_names import Piece, file_name, file_start, pieces


def test_a_name_is_the_place_of_the_first_byte():
    assert file_name(1024) == "00000000000000001024"
    assert file_start(file_name(1024)) == 1024


@pytest.mark.parametrize("name", ["1024", "0000000000000000102x", "000000000000000010240", ".00000000000000000000"])
def test_other_names_are_none(name):
    assert file_start(name) is None


@pytest.mark.parametrize(
    ("position", "length", "found"),
    [
        (100, 0, []),
        (130, 20, [(100, 30, 20)]),
        (130, 70, [(100, 30, 70)]),
        (190, 20, [(100, 90, 10), (200, 0, 10)]),
        (100, 250, [(100, 0, 100), (200, 0, 100), (300, 0, 50)]),
    ],
)
def test_a_range_is_cut_where_files_end(position, length, found):
    assert list(pieces(position, length, 100)) == [Piece(*each) for each in found]
