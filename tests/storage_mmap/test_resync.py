from gantrymq.formats.record import encode_record
from gantrymq.world.real import RealFiles
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.recovery.resync import CHUNK_BYTES, look_behind


def record(log_offset, body=b"body", at=1000):
    return encode_record(topic="T", queue_id=0, body=body, properties=b"", log_offset=log_offset, store_timestamp=at)


def log(tmp_path, *files):
    """Log files with these contents, one behind the other."""
    size = len(files[0])
    opened = []
    for number, data in enumerate(files):
        path = tmp_path / f"{number * size:020d}"
        path.write_bytes(data)
        opened.append(LogFile(path, number * size, size, RealFiles().open(path)))
    return opened


def look(opened, place, not_before_ms=0):
    try:
        return look_behind(opened, place, not_before_ms, check_crc=True)
    finally:
        for file in opened:
            file.close()


def test_zeros_up_to_the_end_are_nothing(tmp_path):
    assert look(log(tmp_path, bytes(4096), bytes(4096)), 100) == (-1, 0, True)


def test_bytes_that_are_no_record_are_nothing_but_not_zeros(tmp_path):
    assert look(log(tmp_path, bytes(4000) + b"garbage".ljust(96, b"\0")), 100) == (-1, 0, False)


def test_the_next_record_is_found_where_the_damaged_one_ends(tmp_path):
    damaged = bytearray(record(0))
    damaged[88] ^= 1
    data = bytes(damaged) + record(len(damaged), at=2000)
    assert look(log(tmp_path, data.ljust(4096, b"\0")), 0) == (len(damaged), 2000, False)


def test_a_record_across_a_chunk_s_edge_is_found(tmp_path):
    for place in (CHUNK_BYTES - 6, CHUNK_BYTES - 4, CHUNK_BYTES - 1, CHUNK_BYTES):
        data = (bytes(place) + record(place)).ljust(2 * CHUNK_BYTES, b"\0")
        folder = tmp_path / str(place)
        folder.mkdir()
        assert look(log(folder, data), 0) == (place, 1000, False)


def test_a_record_that_says_it_stands_elsewhere_does_not_count(tmp_path):
    copied = record(0, body=record(5000))  # somebody sent a piece of a log as a message
    damaged = bytearray(copied)
    damaged[2] ^= 1
    behind = len(copied)
    data = bytes(damaged) + record(behind)
    assert look(log(tmp_path, data.ljust(4096, b"\0")), 0) == (behind, 1000, False)


def test_an_older_record_does_not_count(tmp_path):
    data = bytes(500) + record(500, at=10) + bytes(100)
    assert look(log(tmp_path, data.ljust(4096, b"\0")), 0, not_before_ms=11).log_offset == -1


def test_the_search_goes_on_in_the_next_file(tmp_path):
    found = look(log(tmp_path, b"x" * 4096, record(4096).ljust(4096, b"\0")), 4000)
    assert found == (4096, 1000, False)
