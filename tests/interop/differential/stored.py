"""The records of a store, read from its files while the broker runs, each with the queue entry that the broker has."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from harness.probe import request

from gantrymq.formats.record import MAGIC_V1, MAGIC_V2, RecordView, read_record
from gantrymq.loose_json import loads

QUERY_QUEUE = 321
LOG_BYTES = 16 * 1024 * 1024  # one file is enough for every script
FILE_SETTINGS = {"mappedFileSizeCommitLog": str(LOG_BYTES)}
_MAGICS = {magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2)}


class Stored(NamedTuple):
    """One record and its entry."""

    record: RecordView
    tags_code: int | None  # None where no queue has an entry for it

    @property
    def place(self) -> tuple[str, int]:
        """Its topic and queue."""
        return self.record.topic, self.record.queue_id


def read_log(store: Path) -> list[RecordView]:
    """All records, in log order."""
    file = store / "commitlog" / f"{0:020}"
    log = file.read_bytes() if file.exists() else b""  # a Java broker makes it for the first message
    found, position = [], 0
    while log[position + 4 : position + 8] in _MAGICS:
        found.append(read_record(log, position))
        position += found[-1].total_size
    return found


def with_entries(broker: str, records: list[RecordView]) -> list[Stored]:
    """The records with the tags codes of their queue entries; *broker* is asked for them, and may write them later."""
    lengths: dict[tuple[str, int], int] = {}
    for record in records:
        lengths[record.topic, record.queue_id] = record.queue_offset + 1
    codes = {
        log_offset: code for place, length in lengths.items() for log_offset, code in _codes(broker, place, length)
    }
    return [Stored(record, codes.get(record.log_offset)) for record in records]


def _codes(broker: str, place: tuple[str, int], length: int) -> Iterator[tuple[int, int]]:
    """Log offset and tags code of the entries of a queue."""
    topic, queue_id = place
    fields = {"topic": topic, "queueId": str(queue_id), "index": "0", "count": str(length)}
    header, body = request(broker, QUERY_QUEUE, fields)
    for entry in loads(body).get("queueData", []) if header["code"] == 0 else []:
        yield int(entry["physicOffset"]), int(entry["tagsCode"])
