"""Folders of a store, below its root, and how a topic's queues are laid out in three of them.

    commitlog/<20 digits>
    consumequeue/<topic>/<queue id>/<20 digits>         and the same below consumequeue_ext and batchconsumequeue
    index/<17 digits>

Source: apache/rocketmq store/.../config/StorePathConfigHelper.java.
"""

from __future__ import annotations

__all__ = ["BATCH_QUEUES", "COMMIT_LOG", "EXT_QUEUES", "INDEX", "QUEUES", "can_be_folder"]

COMMIT_LOG = "commitlog"  # where storePathCommitLog names no other
QUEUES = "consumequeue"
EXT_QUEUES = "consumequeue_ext"
BATCH_QUEUES = "batchconsumequeue"
INDEX = "index"


def can_be_folder(topic: str) -> bool:
    """Whether *topic* names one folder and leads nowhere else: a damaged or hostile record must not."""
    return not ("/" in topic or "\\" in topic or "\0" in topic or topic in (".", ".."))
