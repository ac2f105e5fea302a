from memory_log import MemoryLog

from gantrymq_store_files.check import LogContent
from gantrymq_store_files.log_source import check_offset
from gantrymq_store_files.record_crc import crc_tail


def test_a_record_is_read_and_no_more():
    log = MemoryLog()
    log.add()
    place = log.add()
    found = check_offset(log, place)
    assert (found.found, found.size) == (LogContent.RECORD, log.records[1][1])
    assert found.record.log_offset == place
    assert sum(length for _, length in log.reads) == 8 + found.size


def test_blanks_zeros_and_places_outside():
    log = MemoryLog()
    while len(log.records) < 2 or log.records[-1][0] < log.file_bytes:
        log.add()
    blank = sum(log.records[-2])
    assert check_offset(log, blank)[:2] == (LogContent.BLANK, log.file_bytes - blank)
    assert check_offset(log, log.used).found is LogContent.END
    assert check_offset(log, log.end).found is LogContent.END
    assert check_offset(log, log.end - 3).found is LogContent.END


def test_damage_is_told():
    log = MemoryLog()
    place = log.add()
    log.put(place + 90, b"?")
    assert check_offset(log, place).found is LogContent.DAMAGED
    assert check_offset(log, place, check_crc=False).found is LogContent.RECORD
    assert "size" in check_offset(log, place + 1).problem


def test_a_check_sum_of_the_record_s_own_is_looked_at():
    log = MemoryLog()
    place = log.add(properties=b"a\x01b\x02" + crc_tail(b"something else"))
    found = check_offset(log, place)
    assert found.found is LogContent.DAMAGED
    assert "__CRC32#" in found.problem
