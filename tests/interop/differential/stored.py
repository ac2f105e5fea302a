"""The records of a store, read from its files while the broker runs, each with its queue entry."""

from pathlib import Path
from typing import NamedTuple

from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, RecordView, read_record
from gantrymq_store_files.queue_entry import ENTRY_BYTES, read_entry

LOG_BYTES = 16 * 1024 * 1024  # one file is enough for every script
QUEUE_BYTES = 6_000
FILE_SETTINGS = {
    "mappedFileSizeCommitLog": str(LOG_BYTES),
    "mappedFileSizeConsumeQueue": str(QUEUE_BYTES),
    "flushIntervalConsumeQueue": "100",
    "flushConsumeQueueThoroughInterval": "100",
}
_MAGICS = {magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2)}


class Stored(NamedTuple):
    """A record and its queue entry."""

    record: RecordView
    tags_code: int | None  # None where no queue has an entry for it

    @property
    def place(self) -> tuple[str, int]:
        """The topic and queue."""
        return self.record.topic, self.record.queue_id


def read_log(store: Path) -> list[RecordView]:
    """Return all records in log order."""
    file = store / "commitlog" / f"{0:020}"
    log = file.read_bytes() if file.exists() else b""  # a Java broker makes it for the first message
    found, position = [], 0
    while log[position + 4 : position + 8] in _MAGICS:
        found.append(read_record(log, position))
        position += found[-1].total_size
    return found


def with_entries(store: Path, records: list[RecordView]) -> list[Stored]:
    """Return the records with the tags codes of their queue entries."""
    return [Stored(record, _tags_code(store, record)) for record in records]


def _tags_code(store: Path, record: RecordView) -> int | None:
    """Return None if the files of the queue do not have the entry yet."""
    file, inside = divmod(record.queue_offset * ENTRY_BYTES, QUEUE_BYTES)
    path = store / "consumequeue" / record.topic / str(record.queue_id) / f"{file * QUEUE_BYTES:020}"
    if not path.exists():
        return None
    entry = read_entry(path.read_bytes()[inside : inside + ENTRY_BYTES].ljust(ENTRY_BYTES, b"\0"), 0)
    if entry is None or (entry.log_offset, entry.size) != (record.log_offset, record.total_size):
        return None
    return entry.tags_code
