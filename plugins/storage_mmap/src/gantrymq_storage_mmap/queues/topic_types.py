"""Which topics have batch queues: the broker's topics.json says it, as it does to a Java broker's store.

A record does not: one message sent by itself to such a topic looks like any other. So recovery, which may have to make
a topic's queues anew, reads the broker's own file; where that says nothing, a topic's folder in ``batchconsumequeue``
or a record with an inner batch tells.

Source: apache/rocketmq common/.../utils/QueueTypeUtils.java, store/.../queue/ConsumeQueueStore.java
(queueTypeShouldBe).
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.formats.config import TOPICS, TopicsFile, backup_of
from gantrymq.loose_json import loads
from gantrymq.world import Files

__all__ = ["topic_types"]


def topic_types(files: Files, root: Path) -> dict[str, bool]:
    """Every topic that ``config/topics.json`` knows, and whether it has batch queues.

    The file is only looked at: what cannot be read says nothing here, and the broker, which reads it next, says why.
    """
    path = root / "config" / TOPICS
    for place in (path, backup_of(path)):
        try:
            found = TopicsFile.from_json(loads(files.read(place)))
        except (FormatError, OSError, ValueError, TypeError, AttributeError):
            continue
        return {name: topic.has_batch_queues for name, topic in found.topics.items()}
    return {}
