"""JSON files in ``config/`` of a store: text format, safe saving, and the content of three files.

    stored = load(files, folder / TOPICS)                  # None without a file
    topics = TopicsFile.from_json(stored or {})
    ...
    save(files, folder / TOPICS, pretty(topics.to_json()))

Unknown members written by other versions of RocketMQ are preserved.
"""

from gantrymq.formats.config.consumer_offsets import (
    CONSUMER_OFFSETS,
    LIGHT_CONSUMER_OFFSETS,
    ConsumerOffsetsFile,
    OffsetTextCache,
)
from gantrymq.formats.config.manager_file import RESERVE, backup_of, broken_of, load, pretty, save
from gantrymq.formats.config.tables import GROUPS, TOPICS, GroupsFile, TopicsFile, read_topics_file

__all__ = [
    "CONSUMER_OFFSETS",
    "GROUPS",
    "LIGHT_CONSUMER_OFFSETS",
    "RESERVE",
    "TOPICS",
    "ConsumerOffsetsFile",
    "GroupsFile",
    "OffsetTextCache",
    "TopicsFile",
    "backup_of",
    "broken_of",
    "load",
    "pretty",
    "read_topics_file",
    "save",
]
