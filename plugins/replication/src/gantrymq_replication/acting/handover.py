"""What a returning master takes over from the slave that acted for it: texts in, texts out, no I/O.

Every position says that what is before it was delivered or consumed, by either broker. So the higher one is right,
whatever the versions of the tables say; RocketMQ takes the slave's unless its version is older.

    43   consumer offsets    the higher one of each queue
    45   delay offsets       the higher one of each level
    60   timer checkpoint    messages of slots before the read time, among those that the slave had, were delivered;
                         slaves of GantryMQ add further pairs of read time and queue offset

Source: apache/rocketmq broker/.../BrokerPreOnlineService.java (syncMetadataReverse).
"""

from __future__ import annotations

import struct
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json import dumps
from gantrymq_replication.table_answers import Members, members_of, offset_table

__all__ = ["TIMER_HANDOVER", "higher_delays", "higher_offsets", "timer_handover"]

TIMER_HANDOVER: Final = "timerHandover.json"  # the plugin schedule reads it
_TIMER_FIELDS: Final = 8  # bytes of each


def higher_offsets(own: str, theirs: bytes) -> str:
    """Return consumerOffset.json with the higher offsets of both. Raises FormatError."""
    found = members_of(own.encode(), "own consumer offsets")
    table = found.setdefault("offsetTable", {})
    for key, queues in _offset_table(theirs, "consumer offsets").items():
        known = {str(each): offset for each, offset in table.get(key, {}).items()}
        for queue_id, offset in _offsets(queues, str(key)).items():
            known[queue_id] = max(offset, int(known.get(queue_id, 0)))
        table[key] = known
    return dumps(found).decode()


def higher_delays(own: str, theirs: bytes) -> str:
    """Return delayOffset.json with the higher offsets of both. Raises FormatError."""
    found = members_of((own or "{}").encode(), "own delay offsets")
    known = {str(each): int(offset) for each, offset in (found.get("offsetTable") or {}).items()}
    for level, offset in _offsets(_offset_table(theirs, "delay offsets"), "delay offsets").items():
        known[level] = max(offset, known.get(level, 0))
    return dumps({**found, "offsetTable": known}).decode()


def timer_handover(own: str, theirs: bytes) -> str:
    """Return timerHandover.json with the pairs of read time and queue offset of both. Raises FormatError."""
    found = members_of((own or "{}").encode(), "timer handover")
    taken = [list(each) for each in found.get("delivered") or []]
    if len(theirs) < 3 * _TIMER_FIELDS:
        raise FormatError(f"the slave's timer checkpoint has {len(theirs)} bytes")
    numbers = [number for (number,) in struct.iter_unpack(">q", theirs[: len(theirs) // 8 * 8])]
    # 7 fields of the checkpoint; then pairs, which slaves of GantryMQ add.
    for pair in (numbers[0:3:2], *(numbers[at : at + 2] for at in range(7, len(numbers) - 1, 2))):
        if min(pair) > 0 and pair not in taken:
            taken.append(pair)
    return dumps({"delivered": taken}).decode()


def _offset_table(theirs: bytes, what: str) -> Members:
    return offset_table(members_of(theirs, what, "slave"), what, "slave")


def _offsets(found: Any, what: str) -> dict[str, int]:
    try:
        return {str(int(each)): int(offset) for each, offset in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"the slave's offsets of {what} are not numbers") from error
