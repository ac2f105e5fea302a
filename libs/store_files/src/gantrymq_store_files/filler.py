"""Fillers: records that replace damaged ones, so that readers of the log can step over the place.

A filler is an ordinary record of exactly the size of the hole, with the flags of a rolled-back message (sys flag 0xC):
neither our broker nor a Java broker creates queue or index entries for it. Its topic is ``#``, to which no client can
send, and its body says where the original bytes are kept. A hole that reaches the end of its file gets a blank instead
(`gantrymq_store_files.blank`).

Source of the skipping rules: apache/rocketmq store/.../DefaultMessageStore.java (CommitLogDispatcherBuildConsumeQueue),
store/.../index/IndexService.java (buildIndex).
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import MIN_RECORD_BYTES, RecordView, encode_record
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

FILLER_TOPIC = "#"
MIN_FILLER_BYTES = MIN_RECORD_BYTES + len(FILLER_TOPIC)  # the shortest record, because each has a topic
MAX_FILLER_BYTES = 1024 * 1024


def fillers(log_offset: int, size: int, store_timestamp: int, note: str) -> Iterator[tuple[int, bytes]]:
    """Split a hole of *size* bytes at *log_offset* into fillers; yield position and bytes of each.

    Args:
        log_offset: start of the hole, from the start of the whole log.
        size: bytes of the hole, at least `MIN_FILLER_BYTES`.
        store_timestamp: ms; between those of the records before and after the hole.
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


def is_filler(record: RecordView | DispatchEntry) -> bool:
    """Return whether *record* replaces lost bytes."""
    return record.topic == FILLER_TOPIC and record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
