"""Where the zeros at the end of bytes, or of a file, begin."""

import pytest

from gantrymq_store_files import blank
from gantrymq_store_files.blank import last_nonzero, without_zeros


@pytest.mark.parametrize("behind", [0, 1, 19, 20, 21, 4096, 100_000])
@pytest.mark.parametrize("data", [b"", b"x", b"\0x", bytes(50) + b"x", b"x" + bytes(4096) + b"y"])
def test_zeros_at_the_end_go_and_no_others(data, behind):
    assert without_zeros(data + bytes(behind)) == data


def test_the_last_byte_is_looked_for_from_the_end_on_and_only_where_something_was_written(monkeypatch):
    monkeypatch.setattr(blank, "CHUNK_BYTES", 100)
    data = bytearray(1000)
    reads = []

    def read(at, length):
        reads.append((at, length))
        return bytes(data[at : at + length])

    assert last_nonzero(read, 50, [(50, 300), (700, 850)]) == 50
    assert reads == [(800, 50), (700, 100), (250, 50), (150, 100), (50, 100)]
    data[720] = 1
    assert last_nonzero(read, 50, [(50, 300), (700, 850)]) == 721
    assert last_nonzero(read, 50, []) == 50
