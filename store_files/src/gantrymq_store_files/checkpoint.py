"""The checkpoint: how far the store was durable, 40 of 4096 bytes. Big-endian, times in ms.

    | log time i64 | queue time i64 | index time i64 | master flushed offset i64 | confirmed offset i64 | zeros |

log time and queue time are store times of the newest record whose log bytes, and whose queue entry, are durable; index
time is the end time of the newest full and flushed index file. The two offsets are replication's. A missing or short
file means zeros: recovery then reads the whole log.

Source: apache/rocketmq store/.../StoreCheckpoint.java.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["CHECKPOINT_BYTES", "RECOVERY_MARGIN_MS", "Checkpoint", "decode_checkpoint", "encode_checkpoint"]

CHECKPOINT_BYTES = 4096
RECOVERY_MARGIN_MS = 3000
_FIELDS = struct.Struct(">qqqqq")


class Checkpoint(NamedTuple):
    """The five fields."""

    log_timestamp: int = 0  # ms
    queue_timestamp: int = 0  # ms
    index_timestamp: int = 0  # ms
    master_flushed_offset: int = 0  # bytes
    confirmed_offset: int = 0  # bytes

    def recovery_timestamp(self) -> int:
        """The store time from which an abnormal recovery has to read the log; never below 0."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - RECOVERY_MARGIN_MS)

    def ahead_of(self, newest_ms: int) -> bool:
        """Whether it claims that records are durable which are newer than any there is (*newest_ms*)."""
        return self.recovery_timestamp() > newest_ms

    def up_to(self, newest_ms: int) -> Checkpoint:
        """The same with its times of log and queues brought down to *newest_ms*, the newest record's."""
        return self._replace(
            log_timestamp=min(self.log_timestamp, newest_ms), queue_timestamp=min(self.queue_timestamp, newest_ms)
        )


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Read a checkpoint file; one shorter than its fields (a torn one) counts as absent."""
    return Checkpoint._make(_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else Checkpoint()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The whole file, 4096 bytes."""
    return _FIELDS.pack(*checkpoint).ljust(CHECKPOINT_BYTES, b"\0")
