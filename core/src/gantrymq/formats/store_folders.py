"""Folders below the root of a store.

    commitlog/<20 digits>
    consumequeue/<topic>/<queue id>/<20 digits>         and the same below consumequeue_ext and batchconsumequeue
    index/<17 digits>

Source: apache/rocketmq store/.../config/StorePathConfigHelper.java.
"""

from __future__ import annotations

COMMIT_LOG = "commitlog"  # default of storePathCommitLog
QUEUES = "consumequeue"
EXT_QUEUES = "consumequeue_ext"
BATCH_QUEUES = "batchconsumequeue"
INDEX = "index"


def can_be_folder(topic: str) -> bool:
    """Return whether *topic* is a valid name of one folder, without path traversal by a damaged or hostile record."""
    return not ("/" in topic or "\\" in topic or "\0" in topic or topic in (".", ".."))
