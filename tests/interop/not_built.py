"""Requests for features that this version does not implement, with their responses.

`test_not_built.py` sends each of them; `compatibility.py` writes the table into docs/start/compatibility.md.
"""

from typing import NamedTuple


class NotBuilt(NamedTuple):
    """One request for a feature that is not implemented, and its response."""

    what: str
    request: int
    ext: dict[str, str]
    code: int
    says: str  # part of the answer's remark


TOPIC = "NotBuilt"

COMPACTED = {"topic": "NotBuiltCompacted", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1"}
COMPACTED |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
COMPACTED |= {"attributes": "+cleanup.policy=COMPACTION"}

TABLE = (
    NotBuilt(
        "a topic with `cleanup.policy=COMPACTION`",
        17,
        COMPACTED,
        1,
        "attribute cleanup.policy=COMPACTION is not implemented in this version",
    ),
    NotBuilt("progress of RocksDB queues", 354, {"topic": TOPIC}, 3, "RocksDB is not implemented in this version"),
    NotBuilt("RocksDB tables as JSON", 355, {"configType": "topics"}, 3, "RocksDB is not implemented in this version"),
    NotBuilt("static topics", 513, {"topic": TOPIC}, 3, "static topics are not implemented in this version"),
    NotBuilt(
        "limits for reading cold data", 2001, {}, 3, "the control of cold data is not implemented in this version"
    ),
    NotBuilt(
        "removal of limits for reading cold data",
        2002,
        {},
        3,
        "the control of cold data is not implemented in this version",
    ),
    NotBuilt(
        "read-ahead mode of the commit log",
        2004,
        {},
        3,
        "choosing how the log is read ahead is not implemented in this version",
    ),
)
