"""Pops in the revive log: who popped a message, until when it is invisible, and whether it was acknowledged.

Each pop leaves a checkpoint, each acknowledgement a record with the checkpoint's start and time. Our brokers store them
in the revive log at once, Java's in the timer wheel until they are due. Read are the newest MOST records of each queue:
a message may have been popped without being found here.

A checkpoint that the broker has processed is not in flight any more: it was acknowledged, or its messages were copied
to the retry topic. An acknowledgement counts only for the last checkpoint of a message: changing the invisible time
acknowledges a checkpoint after storing another one.

Source: apache/rocketmq store/.../pop/PopCheckPoint.java, AckMsg.java, BatchAckMsg.java,
broker/.../processor/ChangeInvisibleTimeProcessor.java, PopReviveService.java (consumeReviveMessage).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gantrymq.client import Reader, ReceivedMessage
from gantrymq.errors import FormatError
from gantrymq.plugin import names
from gantrymq.plugin import properties as props
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.consumption.facts import Pop

REVIVE_PREFIX: Final = "rmq_sys_REVIVE_LOG_"  # followed by the name of the cluster
REVIVE_GROUP: Final = names.SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
MOST: Final = 256  # newest records that are read of a queue


class _Key(NamedTuple):
    """Identity of a checkpoint."""

    topic: str
    group: str
    queue_id: int
    start: int
    popped_ms: int


async def read_newest(reader: Reader, queue: MessageQueue, end: int) -> list[ReceivedMessage]:
    """Return the newest records before *end* of a queue, at most MOST. Raises as `Reader.pull`."""
    at = max(0, end - MOST)
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

    def __init__(self, records: Iterable[ReceivedMessage], processed: Mapping[int, int]) -> None:
        """*processed*: the last queue offset that the broker has processed, by queue of the revive log."""
        self._checkpoints: dict[_Key, tuple[int, frozenset[int]]] = {}  # invisible ms, offsets
        self._acked: dict[_Key, set[int]] = {}
        self._settled: set[_Key] = set()
        for record in records:
            topic = record.properties.get(props.REAL_TOPIC, record.topic)
            if topic.startswith(REVIVE_PREFIX):
                waits = record.topic == names.TIMER_TOPIC
                self._add(record, settled=not waits and record.queue_offset <= processed.get(record.queue_id, -1))

    def of(self, group: str, topic: str, queue_id: int, queue_offset: int) -> Pop | None:
        """Return the last pop of a message by a group, if it is in flight or was acknowledged."""
        wanted = group, topic, queue_id
        keys = [
            key
            for key, (_, offsets) in self._checkpoints.items()
            if (key.group, key.topic, key.queue_id) == wanted and queue_offset in offsets
        ]
        last = max(keys, key=lambda key: key.popped_ms, default=None)
        if last is None:
            return None
        acknowledged = queue_offset in self._acked.get(last, ())
        if last in self._settled and not acknowledged:
            return None
        return Pop(last.popped_ms, last.popped_ms + self._checkpoints[last][0], acknowledged)

    def groups(self, topic: str) -> set[str]:
        """Return the groups that popped *topic*."""
        return {key.group for key in self._checkpoints if key.topic == topic}

    @property
    def in_flight(self) -> int:
        """The number of checkpoints that the broker has not processed and that are not acknowledged completely."""
        return sum(
            key not in self._settled and not offsets <= self._acked.get(key, set())
            for key, (_, offsets) in self._checkpoints.items()
        )

    def _add(self, record: ReceivedMessage, *, settled: bool) -> None:
        try:
            members = loads(record.body)
            key = _Key(str(members["t"]), str(members["c"]), int(members["q"]), int(members["so"]), int(members["pt"]))
            if record.tags == "ck":
                self._checkpoints[key] = int(members["it"]), frozenset(_offsets(members, key.start))
                if settled:
                    self._settled.add(key)
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
