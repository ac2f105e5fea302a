from memory_log import MemoryLog

from gantrymq_store_files.check import Found
from gantrymq_store_files.log_source import look_at
from gantrymq_store_files.record_crc import crc_tail


def test_a_record_is_read_and_no_more():
    log = MemoryLog()
    log.add()
    place = log.add()
    found = look_at(log, place)
    assert (found.found, found.size) == (Found.RECORD, log.records[1][1])
    assert found.record.log_offset == place
    assert sum(length for _, length in log.reads) == 8 + found.size


def test_blanks_zeros_and_places_outside():
    log = MemoryLog()
    while len(log.records) < 2 or log.records[-1][0] < log.file_bytes:
        log.add()
    blank = sum(log.records[-2])
    assert look_at(log, blank)[:2] == (Found.BLANK, log.file_bytes - blank)
    assert look_at(log, log.used).found is Found.END
    assert look_at(log, log.end).found is Found.END
    assert look_at(log, log.end - 3).found is Found.END


def test_damage_is_told():
    log = MemoryLog()
    place = log.add()
    log.put(place + 90, b"?")
    assert look_at(log, place).found is Found.DAMAGED
    assert look_at(log, place, check_crc=False).found is Found.RECORD
    assert "size" in look_at(log, place + 1).problem


def test_a_check_sum_of_the_record_s_own_is_looked_at():
    log = MemoryLog()
    place = log.add(properties=b"a\x01b\x02" + crc_tail(b"something else"))
    found = look_at(log, place)
    assert found.found is Found.DAMAGED
    assert "__CRC32#" in found.problem
