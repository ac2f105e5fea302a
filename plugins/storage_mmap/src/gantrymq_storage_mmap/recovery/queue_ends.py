"""How far each queue went when the store was last stopped cleanly, so that a queue that lost entries since is noticed.

    <store>/queueEnds.json     {"<topic>": {"<queue id>": <queue offset behind the last entry>, ...}, ...}

Recovery reads the log from the checkpoint on only. A queue without a message in that part would stay missing, or short,
and give its offsets to new messages. Ends never go back, so an older note is still a true lower bound; queues of topics
that were deleted since do not count. RocketMQ keeps no such note, ignores the file, and misses such queues.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path

from gantrymq.world import Files
from gantrymq_storage_mmap.queues.table import QueueTable

__all__ = ["forget_queue_ends", "save_queue_ends", "short_queues"]

FILE_NAME = "queueEnds.json"


def save_queue_ends(files: Files, root: Path, queues: QueueTable) -> None:
    """Write the note; every queue is durable up to its end. Raises OSError."""
    ends: dict[str, dict[str, int]] = {}
    found = [(*name, queue.max_offset) for name, queue in queues.by_name.items()]
    found += [(*name, batch.max_offset) for name, batch in queues.batch.items()]
    for topic, queue_id, end in sorted(found):
        if end:
            ends.setdefault(topic, {})[str(queue_id)] = end
    text = json.dumps(ends, ensure_ascii=False, indent=0).encode("utf-8")
    path = root / FILE_NAME
    if files.stat(path) is None or files.read(path) != text:
        files.replace(path, text)


def forget_queue_ends(files: Files, root: Path, gone: Collection[tuple[str, int]]) -> None:
    """Take the queues *gone*, by topic and id, off the note before they are removed. Raises OSError.

    A note that cannot be read is left for `short_queues` to tell of.
    """
    path = root / FILE_NAME
    if not gone or files.stat(path) is None:
        return
    try:
        ends = json.loads(files.read(path))
        for topic, queue_id in gone:
            ends.get(topic, {}).pop(str(queue_id), None)
    except (ValueError, TypeError, AttributeError):
        return
    files.replace(path, json.dumps(ends, ensure_ascii=False, indent=0).encode("utf-8"))


def short_queues(files: Files, root: Path, queues: QueueTable, tell: Callable[[str], object]) -> list[str]:
    """Queues, as "topic/id", that end before the place the note names. *tell* hears of a note that cannot be read."""
    path = root / FILE_NAME
    if files.stat(path) is None:
        return []
    found: list[str] = []
    try:
        for topic, ends in json.loads(files.read(path)).items():
            for queue_id, end in ends.items():
                queue = queues.get((topic, int(queue_id)))
                there = queue.max_offset if queue is not None else 0
                if there < int(end) and not queues.dropped.holds(topic, 0):
                    found.append(f"{topic}/{queue_id}")
    except (ValueError, OverflowError, TypeError, AttributeError) as problem:
        tell(f"{path} is not a JSON object of queue offsets by topic and queue ({problem}); it is not used")
        return []
    return found
