"""droppedTopics.json: which records belong to topics that were deleted, GantryMQ's own.

    {"<topic>": <log offset>, ...}

Records of the topic before that log offset are of a deleted one; behind it the name was used anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from gantrymq.errors import FormatError

__all__ = ["DROPPED_TOPICS", "pack_dropped_topics", "read_dropped_topics"]

DROPPED_TOPICS = "droppedTopics.json"  # in the store's folder


def pack_dropped_topics(before: Mapping[str, int]) -> bytes:
    """What the file is to hold."""
    return json.dumps(before, ensure_ascii=False, indent=0).encode("utf-8")


def read_dropped_topics(text: bytes) -> dict[str, int]:
    """Log offsets by topic.

    Raises:
        FormatError: something else stands there.
    """
    try:
        return {str(topic): int(offset) for topic, offset in json.loads(text).items()}
    except (ValueError, OverflowError, TypeError, AttributeError) as problem:
        raise FormatError(f"not a JSON object of log offsets by topic ({problem})") from problem
