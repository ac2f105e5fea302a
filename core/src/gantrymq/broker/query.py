"""Looking messages up: by key, by unique key, and by the place in the log that an offset id names.

Nothing but the store is asked: a message whose topic was deleted is still found, as long as the log holds it.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java.
"""

from __future__ import annotations

from gantrymq.errors import QueryNotFound, RefusedWith
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import MessageStore, QueryResult

__all__ = ["query_messages", "view_message"]


async def query_messages(
    store: MessageStore, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
) -> QueryResult:
    """The newest *limit* messages of *topic* with *key* that were stored in ``[begin_ms, end_ms]``, oldest first.

    Raises:
        QueryNotFound: there is none; says why.
        StoreError: the disk cannot be read.
    """
    found = store.query(topic, key, begin_ms, end_ms, limit)
    result = found if isinstance(found, QueryResult) else await found
    if not result.records:
        raise QueryNotFound(result.problem)
    return result


async def view_message(store: MessageStore, log_offset: int) -> RecordView:
    """The message at *log_offset*.

    Raises:
        RefusedWith: code 1, no message starts there.
        StoreError: the disk cannot be read.
    """
    found = store.view(log_offset)
    record = found if found is None or isinstance(found, RecordView) else await found
    if record is None:
        state = store.state()
        raise RefusedWith(
            1,
            f"no message starts at log offset {log_offset}; the log holds {state.min_log_offset} to "
            f"{state.published_offset}",
        )
    return record
