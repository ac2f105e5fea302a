"""Rules of a put that all stores share: the record of a message, its store time, the results of refused messages."""

from __future__ import annotations

from gantrymq.formats.record import encode_record
from gantrymq.interfaces import PutResult, PutStatus, StoreMessage


def encode_message(
    message: StoreMessage, properties: bytes, queue_offset: int, log_offset: int, stored_ms: int
) -> bytes:
    """Return the record of *message*, with *properties* in place of its own.

    Raises:
        FormatError: a field is too long or does not fit.
    """
    return encode_record(
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=properties,
        queue_offset=queue_offset,
        log_offset=log_offset,
        store_timestamp=stored_ms,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )


def stored_at(message: StoreMessage, clock_ms: int, not_before_ms: int) -> tuple[int, int]:
    """Return the store time of *message*, and the tags code of its queue entry.

    A delay counts from the clock, even after the clock was set back: every broker and tool derives the due time from
    the store time in the record. The store time of any other message is never before that of an earlier one.

    Args:
        message: the message to store.
        clock_ms: time of the clock.
        not_before_ms: the later one of *clock_ms* and the newest store time in the log.
    """
    targets = message.queue_targets
    if targets is None or targets.due_in_ms is None:
        return not_before_ms, message.tags_code
    return clock_ms, clock_ms + targets.due_in_ms


def problem_in_group(number: int, count: int, problem: str) -> str:
    """Return why *count* messages of a group cannot be stored: the *problem* of message *number*."""
    if count == 1:
        return problem
    return f"message {number + 1} of {count}, which are stored together or not at all: {problem}"


def refused(status: PutStatus, problem: str) -> PutResult:
    """Return the result of a message that is not stored."""
    return PutResult(status, -1, -1, 0, 0, problem)
