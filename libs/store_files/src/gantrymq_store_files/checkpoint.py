"""RocketMQ's checkpoint: how far the store was durable, 40 of 4096 bytes. Big-endian, times in ms.

    | log time i64 | queue time i64 | index time i64 | master flushed offset i64 | confirmed offset i64 | zeros |

Log time and queue time are store times of the newest record whose log bytes, and whose queue entry, are durable; index
time is the end time of the newest full and flushed index file. The two offsets belong to replication. A missing or
short file counts as zeros: recovery then reads the whole log.

Source: apache/rocketmq store/.../StoreCheckpoint.java.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

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
        """Return the store time from which recovery after a crash has to read the log; at least 0."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - RECOVERY_MARGIN_MS)

    def ahead_of(self, newest_ms: int) -> bool:
        """Return whether it claims durable records newer than *newest_ms*, the time of the newest record."""
        return self.recovery_timestamp() > newest_ms

    def up_to(self, newest_ms: int) -> Checkpoint:
        """Return a copy with its times of log and queues limited to *newest_ms*, the time of the newest record."""
        return self._replace(
            log_timestamp=min(self.log_timestamp, newest_ms), queue_timestamp=min(self.queue_timestamp, newest_ms)
        )


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Decode a checkpoint file; a torn file, shorter than its fields, counts as missing."""
    return Checkpoint._make(_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else Checkpoint()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the whole file, 4096 bytes."""
    return _FIELDS.pack(*checkpoint).ljust(CHECKPOINT_BYTES, b"\0")
