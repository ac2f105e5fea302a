"""A log of small files in memory."""

from __future__ import annotations

from gantrymq.formats.record import encode_record
from gantrymq_store_files.blank import encode_blank, fits

START_MS = 1_795_245_252_000


class MemoryLog:
    """Records are appended, then the log is a `LogSource`."""

    def __init__(self, file_bytes: int = 8192, start: int = 0) -> None:
        self.file_bytes = file_bytes
        self.start = start
        self.records: list[tuple[int, int]] = []  # log offset, size
        self.reads: list[tuple[int, int]] = []  # log offset, bytes
        self.missing: set[int] = set()  # starts of files
        self.failing: set[int] = set()  # starts of files that cannot be read
        self.used = start  # after the last record
        self._log = bytearray()

    def add(self, **fields: object) -> int:
        """Append a record; returns its log offset."""
        n = len(self.records)
        made = {
            "topic": "TopicTest",
            "queue_id": n % 4,
            "queue_offset": n // 4,
            "body": b"body %d " % n * 9,
            "properties": b"UNIQ_KEY\x01%032d\x02TAGS\x01Tag%d\x02" % (n, n % 3),
            "store_timestamp": START_MS + n,
            **fields,
        }
        record = encode_record(log_offset=self.used, **made)
        left = self.file_bytes - (self.used - self.start) % self.file_bytes
        if not fits(len(record), left):
            self.put(self.used, encode_blank(left))
            self.used += left
            record = encode_record(log_offset=self.used, **made)
        self.put(self.used, record)
        self.records.append((self.used, len(record)))
        self.used += len(record)
        return self.records[-1][0]

    def put(self, log_offset: int, data: bytes) -> None:
        """Write over bytes; files that are not there yet are made."""
        place = log_offset - self.start
        files = -(-(place + len(data)) // self.file_bytes)
        self._log += bytes(max(0, files * self.file_bytes - len(self._log)))
        self._log[place : place + len(data)] = data

    @property
    def end(self) -> int:
        return self.start + len(self._log)

    def file_start(self, log_offset: int) -> int | None:
        begin = log_offset - (log_offset - self.start) % self.file_bytes
        return begin if self.start <= begin < self.end and begin not in self.missing else None

    def written(self, start: int, end: int) -> list[tuple[int, int]]:
        return [(start, end)]

    def next_start(self, log_offset: int) -> int | None:
        starts = range(self.start, self.end, self.file_bytes)
        return next((begin for begin in starts if begin >= log_offset and begin not in self.missing), None)

    def read(self, log_offset: int, length: int) -> bytes:
        begin = self.file_start(log_offset)
        assert begin is not None
        assert log_offset + length <= begin + self.file_bytes
        if begin in self.failing:
            raise OSError(5, "Input/output error")
        self.reads.append((log_offset, length))
        return bytes(self._log[log_offset - self.start : log_offset - self.start + length])
