"""droppedTopics.json: which records belong to topics that were deleted, GantryMQ's own.

    {
    "<topic>": <log offset>,
    ...
    }

A line for each topic, by log offset. Lines of spaces may stand among them. Records of the topic before that log offset
are of a deleted one; behind it the name was used anew.
"""

from __future__ import annotations

import json

from gantrymq.errors import FormatError

__all__ = ["DROPPED_TOPICS", "pack_dropped_topic", "read_dropped_topics"]

DROPPED_TOPICS = "droppedTopics.json"  # in the store's folder


def pack_dropped_topic(topic: str, log_offset: int) -> bytes:
    """A topic's line of the file, with a comma, which the last one lacks there."""
    return f"{json.dumps(topic, ensure_ascii=False)}: {log_offset},\n".encode("utf-8", "surrogatepass")


def read_dropped_topics(text: bytes) -> dict[str, int]:
    """Log offsets by topic.

    Raises:
        FormatError: something else stands there.
    """
    try:
        return {str(topic): int(offset) for topic, offset in json.loads(text).items()}
    except (ValueError, OverflowError, TypeError, AttributeError) as problem:
        raise FormatError(f"not a JSON object of log offsets by topic ({problem})") from problem
