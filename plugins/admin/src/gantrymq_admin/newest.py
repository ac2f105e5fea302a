"""The newest messages of a topic, merged over its queues by store time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from gantrymq.client import Reader, ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.plugin.client import SLICE, Backwards, each_of, first_ends
from gantrymq.plugin.model import MessageQueue

__all__ = ["newest_of"]


async def newest_of(
    reader: Reader,
    queues: Sequence[MessageQueue],
    *,
    expression: str,
    expression_type: str,
    begin_ms: int = 0,
    end_ms: int | None = None,
    end_offset: int | None = None,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield messages, the newest first; within one millisecond in the order of broker and log offset.

    Args:
        reader: of any group.
        queues: of one topic.
        expression: selects messages, see `Reader.read_back`.
        expression_type: of the expression.
        begin_ms: lowest store time.
        end_ms: highest store time; None for no limit.
        end_offset: highest queue offset in each queue; None for no limit.

    Raises as `Reader.pull`.
    """
    reading: Backwards[ReceivedMessage] = Backwards(
        reader,
        lambda message: message,
        begin_ms=begin_ms,
        end_ms=FOREVER_MS if end_ms is None else end_ms,
        expression=expression,
        expression_type=expression_type,
    )
    size = max(1, min(SLICE, -(-4 * SLICE // max(1, len(queues)))))  # most of a slice of each would not be needed
    for queue, end in (await first_ends(reader, queues, None if end_ms is None else end_ms + 1)).items():
        reading.add(queue, 0, end if end_offset is None else min(end, end_offset + 1), size=size)
    while not reading.is_done:
        for _, message in reading.take():
            yield message
        await each_of(reading.reads().values())
