"""Pops that are in flight, read from the revive log: who popped a message, until when, and whether it was acknowledged.

Each pop leaves a checkpoint, each acknowledgement a record with the checkpoint's start and time. Our brokers store them
in the revive log at once, Java's in the timer wheel until they are due. Read is the part that the broker has not
processed yet, at most MOST records of each queue: a message may have been popped without being found here.

An acknowledgement counts only if its checkpoint is read, too: changing the invisible time acknowledges a checkpoint
after storing another one.

Source: apache/rocketmq store/.../pop/PopCheckPoint.java, AckMsg.java, BatchAckMsg.java,
broker/.../processor/ChangeInvisibleTimeProcessor.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from gantrymq.client import Reader
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import FormatError
from gantrymq.loose_json import loads
from gantrymq.model import names
from gantrymq.model import properties as props
from gantrymq.model.queue import MessageQueue
from gantrymq_admin.consumption.facts import Pop

__all__ = ["REVIVE_PREFIX", "Pops", "read_unprocessed"]

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"  # followed by the name of the cluster
REVIVE_GROUP: Final = names.SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
MOST: Final = 256


class _Key(NamedTuple):
    """Identity of a checkpoint."""

    topic: str
    group: str
    queue_id: int
    start: int
    popped_ms: int


async def read_unprocessed(reader: Reader, queue: MessageQueue, processed: int | None) -> list[ReceivedMessage]:
    """Return the newest records of a queue, those after queue offset *processed* and at most MOST.

    Raises as `Reader.pull`.
    """
    end = await reader.max_offset(queue)
    at = max(0 if processed is None else processed, end - MOST, await reader.min_offset(queue))
    found: list[ReceivedMessage] = []
    while at < end:
        result = await reader.pull(queue, at)
        found += result.messages
        if result.next_offset <= at:
            break
        at = result.next_offset
    return found


class Pops:
    """Checkpoints and acknowledgements that were read."""

    def __init__(self, records: Iterable[ReceivedMessage]) -> None:
        self._checkpoints: dict[_Key, tuple[int, frozenset[int]]] = {}  # invisible ms, offsets
        self._acked: dict[_Key, set[int]] = {}
        for record in records:
            topic = record.properties.get(props.REAL_TOPIC, record.topic)
            if topic.startswith(REVIVE_PREFIX):
                self._add(record)

    def of(self, group: str, topic: str, queue_id: int, queue_offset: int) -> Pop | None:
        """Return the last known pop of a message by a group."""
        found = [
            Pop(key.popped_ms, key.popped_ms + invisible_ms, queue_offset in self._acked.get(key, ()))
            for key, (invisible_ms, offsets) in self._checkpoints.items()
            if (key.group, key.topic, key.queue_id) == (group, topic, queue_id) and queue_offset in offsets
        ]
        return max(found, key=lambda pop: pop.popped_ms, default=None)

    def groups(self, topic: str) -> set[str]:
        """Return the groups that popped *topic*."""
        return {key.group for key in self._checkpoints if key.topic == topic}

    def _add(self, record: ReceivedMessage) -> None:
        try:
            members = loads(record.body)
            key = _Key(str(members["t"]), str(members["c"]), int(members["q"]), int(members["so"]), int(members["pt"]))
            if record.tags == "ck":
                self._checkpoints[key] = int(members["it"]), frozenset(_offsets(members, key.start))
            elif record.tags == "ack":
                self._acked.setdefault(key, set()).add(int(members["ao"]))
            elif record.tags == "bAck":
                self._acked.setdefault(key, set()).update(map(int, members["aol"]))
        except (FormatError, KeyError, TypeError, ValueError, AttributeError):
            return


def _offsets(members: dict[str, Any], start: int) -> Iterator[int]:
    """Yield the offsets of a checkpoint; old brokers wrote only their number."""
    for difference in members.get("d") or range(int(members["n"])):
        yield start + int(difference)
