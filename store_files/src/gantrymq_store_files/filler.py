"""Fillers: what stands in the log where damaged records were, so that whoever reads the log steps over the place.

A filler is an ordinary record of exactly the size of the hole, of a rolled-back message (sys flag 0xC): neither our
broker nor a Java broker makes queue or index entries for one. Its topic is ``#``, which no client can send to, and its
body says where the bytes that stood here are kept. A hole that reaches to the end of its file gets a blank instead
(`gantrymq_store_files.blank`).

Source of who skips what: apache/rocketmq store/.../DefaultMessageStore.java (CommitLogDispatcherBuildConsumeQueue),
store/.../index/IndexService.java (buildIndex).
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq.formats.record import MIN_RECORD_BYTES, RecordView, encode_record
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

__all__ = ["FILLER_TOPIC", "MIN_FILLER_BYTES", "fillers", "is_filler"]

FILLER_TOPIC = "#"
MIN_FILLER_BYTES = MIN_RECORD_BYTES + len(FILLER_TOPIC)  # no record is shorter, as each has a topic
MAX_FILLER_BYTES = 1024 * 1024


def fillers(log_offset: int, size: int, store_timestamp: int, note: str) -> Iterator[tuple[int, bytes]]:
    """Cut a hole of *size* bytes at *log_offset* into fillers; yields the place and the bytes of each.

    Args:
        log_offset: where the hole starts, from the start of the whole log.
        size: bytes of the hole, at least `MIN_FILLER_BYTES`.
        store_timestamp: ms; not below that of the record before, not above that of the record behind.
        note: put into the body as far as it fits.

    Raises:
        ValueError: the hole is smaller than any record.
    """
    if size < MIN_FILLER_BYTES:
        raise ValueError(f"a hole of {size} bytes, the smallest filler has {MIN_FILLER_BYTES}")
    while size:
        piece = size if size <= MAX_FILLER_BYTES + MIN_FILLER_BYTES else MAX_FILLER_BYTES
        body_bytes = piece - MIN_FILLER_BYTES
        yield (
            log_offset,
            encode_record(
                topic=FILLER_TOPIC,
                queue_id=0,
                body=note.encode("utf-8")[:body_bytes].ljust(body_bytes, b"\0"),
                properties=b"",
                log_offset=log_offset,
                store_timestamp=store_timestamp,
                born_timestamp=store_timestamp,
                sys_flag=TRANSACTION_ROLLBACK,
            ),
        )
        log_offset += piece
        size -= piece


def is_filler(record: RecordView) -> bool:
    """Whether *record* stands for bytes that were lost."""
    return record.topic == FILLER_TOPIC and record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
