"""droppedTopics.json: the log offsets up to which records belong to deleted topics. GantryMQ's own.

    {
    "<topic>": <log offset>,
    ...
    }

One line per topic, in the order of log offsets; lines may consist of spaces. Records of the topic before that log
offset belong to a deleted topic; later ones belong to a new topic of the same name.
"""

from __future__ import annotations

import json

from gantrymq.errors import FormatError

DROPPED_TOPICS = "droppedTopics.json"  # in the store's folder


def pack_dropped_topic(topic: str, log_offset: int) -> bytes:
    """Return a topic's line of the file, with a trailing comma, which the last line of the file lacks."""
    return f"{json.dumps(topic, ensure_ascii=False)}: {log_offset},\n".encode("utf-8", "surrogatepass")


def read_dropped_topics(text: bytes) -> dict[str, int]:
    """Return log offsets by topic.

    Raises:
        FormatError: the content is not valid.
    """
    try:
        return {str(topic): int(offset) for topic, offset in json.loads(text).items()}
    except (ValueError, OverflowError, TypeError, AttributeError, RecursionError) as problem:
        raise FormatError(f"not a JSON object of log offsets by topic ({problem})") from problem
