"""The newest messages of a topic, merged over its queues by store time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from gantrymq.client import Reader
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.backwards import first_ends
from gantrymq.model.queue import MessageQueue

__all__ = ["newest_of"]

PAGE: Final = 64  # messages read at a time


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
    """Yield messages, the newest first; those of one millisecond in the order of broker and log offset.

    Args:
        reader: of any group.
        queues: of one topic.
        expression: what to select, see `Reader.read_back`.
        expression_type: of the expression.
        begin_ms: lowest store time.
        end_ms: highest store time; None for no limit.
        end_offset: highest queue offset in each queue; None for no limit.

    Raises as `Reader.pull`.
    """
    before_ms = None if end_ms is None else end_ms + 1
    ends = await first_ends(reader, queues, before_ms)
    if end_offset is not None:
        ends = {queue: min(end, end_offset + 1) for queue, end in ends.items()}
    same: list[ReceivedMessage] = []  # of one millisecond
    begun = False
    while ends and not begun:
        page = await reader.read_back(
            ends, before_ms=before_ms, max_count=PAGE, expression=expression, expression_type=expression_type
        )
        for each in page.messages:
            begun = each.store_timestamp < begin_ms
            if same and (begun or each.store_timestamp != same[0].store_timestamp):
                for found in _in_order(same):
                    yield found
                same = []
            if begun:
                break
            same.append(each)
        ends = dict(page.ends)
    for found in _in_order(same):
        yield found


def _in_order(messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
    return sorted(messages, key=lambda each: (each.broker_name, -each.log_offset, -each.queue_offset))
