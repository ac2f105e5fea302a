"""``config/timercheck``: progress of the timer store, 56 of 4096 bytes. Big-endian, times in ms.

    | read time i64 | flushed position i64 | queue offset i64 | master's queue offset i64 |
    | state version i64 | changed i64 | counter i64 | zeros |

Slots of the wheel before the read time were delivered; messages of the timer topic's queue below the queue offset are
in wheel and log; the timer log is durable up to the flushed position. The last three fields are a data version.

GantryMQ adds, at byte 2048, the commit log offset from which there may be deliveries that the read time does not cover
yet, and the sum of the counts of the slots from the read time on, of entries before the flushed position. A Java broker
does not touch these bytes, and they are valid only while the two numbers that they repeat are unchanged:

    | 0x47616E7472790002 | read time i64 | queue offset i64 | commit log offset i64 | count i64 |

Files of earlier versions end with 0001 and have no count.

Source: apache/rocketmq store/.../timer/TimerCheckpoint.java.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_TIMER_CHECKPOINT_BYTES = 4096
_FIELDS = struct.Struct(">7q")
TIMER_CHECKPOINT_FIELDS_BYTES = _FIELDS.size
_OWN = struct.Struct(">5q")
_OWN_AT = 2048
_OWN_MAGIC = 0x47616E7472790002
_OWN_MAGIC_BEFORE = 0x47616E7472790001  # without the count


class TimerCheckpoint(NamedTuple):
    """The fields."""

    read_time_ms: int = 0
    flushed_position: int = 0  # bytes of the timer log
    queue_offset: int = 0  # next one to read
    master_queue_offset: int = 0
    state_version: int = 0
    changed_ms: int = 0
    counter: int = 0
    delivered_from: int = -1  # commit log offset; -1 if unknown
    in_slots: int = -1  # sum of the counts of the slots; -1 if unknown


def decode_timer_checkpoint(data: bytes) -> TimerCheckpoint | None:
    """Decode the file; None if it is shorter than its fields, which counts as missing."""
    if len(data) < _FIELDS.size:
        return None
    found = TimerCheckpoint(*_FIELDS.unpack_from(data))
    if len(data) >= _OWN_AT + _OWN.size:
        magic, read_time, queue_offset, log_offset, count = _OWN.unpack_from(data, _OWN_AT)
        if (read_time, queue_offset) == (found.read_time_ms, found.queue_offset):
            if magic in (_OWN_MAGIC, _OWN_MAGIC_BEFORE):
                found = found._replace(delivered_from=log_offset)
            if magic == _OWN_MAGIC:
                found = found._replace(in_slots=count)
    return found


def encode_timer_checkpoint(checkpoint: TimerCheckpoint) -> bytes:
    """Return the whole file, 4096 bytes; request 60 is answered with its first 56."""
    data = bytearray(_TIMER_CHECKPOINT_BYTES)
    _FIELDS.pack_into(data, 0, *checkpoint[:7])
    if checkpoint.delivered_from >= 0:
        own = checkpoint.read_time_ms, checkpoint.queue_offset, checkpoint.delivered_from, checkpoint.in_slots
        _OWN.pack_into(data, _OWN_AT, _OWN_MAGIC, *own)
    return bytes(data)
