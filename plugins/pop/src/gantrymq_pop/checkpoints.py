"""Records of the revive log: checkpoints of pops and their acknowledgements, in RocketMQ's format.

    ck    {"bm":0,"bn":BROKER,"c":GROUP,"d":[0,1],"it":INVISIBLE,"n":2,"pt":POP,"q":QUEUE,"reviveTime":..,"ro":0,
           "rp":"1","so":START,"t":TOPIC}            d: queue offsets minus START; rp only after a failed revival
    ack   {"ao":OFFSET,"bn":BROKER,"c":GROUP,"pt":POP,"q":QUEUE,"so":START,"t":TOPIC}
    bAck  like ack, with "ao":-1 and "aol":[OFFSET,..] after it

RocketMQ delays each record through its timer until it is due. Here records are written into the revive log at once,
and the due times are kept in memory, so TIMER_DELIVER_MS is the time of writing. A Java broker that takes over the log
needs it: it uses the latest value as the current time, and revives nothing without one.

Source: apache/rocketmq store/.../pop/PopCheckPoint.java, AckMsg.java, BatchAckMsg.java;
broker/.../processor/PopMessageProcessor.java (buildCkMsg), PopReviveService.java (consumeReviveMessage).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin import properties as property_text
from gantrymq.plugin.formats import RecordView, tags_code
from gantrymq.plugin.interfaces import StoreMessage
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.properties import TAGS, TIMER_DELIVER_MS

MOST: Final = 32  # messages of one pop
_CHECKPOINT: Final = "ck"
_ACK: Final = "ack"
_BATCH_ACK: Final = "bAck"
_POP_AGAIN: Final = "POP_AGAIN"  # our own: marks a checkpoint that is `again`
_TRY_AGAIN_S: Final = (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)  # after each try that failed

_CODES: Final = {tag: tags_code(tag) for tag in (_CHECKPOINT, _ACK, _BATCH_ACK)}


class CheckpointKey(NamedTuple):
    """Identity of a checkpoint, repeated in its acknowledgements."""

    topic: str  # the topic that was read, possibly a retry topic
    group: str
    queue_id: int
    start_offset: int
    pop_time: int  # ms
    broker_name: str


@attrs.frozen
class Checkpoint:
    """One pop from one queue."""

    key: CheckpointKey
    invisible_ms: int
    offsets: tuple[int, ...]  # queue offsets of its messages, ascending
    tries: int = 0  # number of failed revivals
    again: bool = False  # replaces an earlier checkpoint: does not advance the group's offset

    @property
    def due_ms(self) -> int:
        """Time at which unacknowledged messages are redelivered."""
        return self.key.pop_time + self.invisible_ms

    def due_by(self, now_ms: int) -> int:
        """Return `due_ms`, or the end of the whole invisible time from *now_ms* on if that is earlier.

        It is earlier if the clock was set back since the pop.
        """
        longest_ms = self.invisible_ms if not self.tries else _back_off_ms(self.tries - 1)
        return min(self.due_ms, now_ms + longest_ms)


class Acknowledgement(NamedTuple):
    """Acknowledged messages of one checkpoint."""

    key: CheckpointKey
    offsets: tuple[int, ...]


class ReviveRecord(NamedTuple):
    """One record of the revive log."""

    entry: Checkpoint | Acknowledgement | None  # None if the record is not understood
    by_timer: bool  # whether a timer delivered it; its acknowledgements may come later through the timer
    deliver_ms: int  # value of TIMER_DELIVER_MS
    log_offset: int | None = None  # commit log offset of the record


def checkpoint_message(
    checkpoint: Checkpoint, revive_topic: str, revive_queue: int, now_ms: int, host: bytes
) -> StoreMessage:
    """Return the record of a checkpoint."""
    key = checkpoint.key
    start = key.start_offset
    differences = ",".join([str(offset - start) for offset in checkpoint.offsets])
    tries = f'"rp":"{checkpoint.tries}",' if checkpoint.tries else ""
    body = (
        f'{{"bm":0,"bn":{_quoted(key.broker_name)},"c":{_quoted(key.group)},"d":[{differences}],'
        f'"it":{checkpoint.invisible_ms},"n":{len(checkpoint.offsets)},"pt":{key.pop_time},"q":{key.queue_id},'
        f'"reviveTime":{checkpoint.due_ms},"ro":0,{tries}"so":{start},"t":{_quoted(key.topic)}}}'
    )
    unique = f"{key.topic}@{key.queue_id}@{start}@{key.group}@{key.pop_time}@{key.broker_name}@ck"
    message = _message(_CHECKPOINT, body, unique, revive_topic, revive_queue, now_ms, host)
    if checkpoint.again:
        message.properties += f"{_POP_AGAIN}\x011\x02".encode()
    return message


def ack_message(
    key: CheckpointKey, offsets: Sequence[int], revive_topic: str, revive_queue: int, now_ms: int, host: bytes
) -> StoreMessage:
    """Return the record of one or several acknowledgements of one checkpoint."""
    several = len(offsets) > 1
    own = -1 if several else offsets[0]
    listed = f'"aol":[{",".join(map(str, offsets))}],' if several else ""
    body = (
        f'{{"ao":{own},{listed}"bn":{_quoted(key.broker_name)},"c":{_quoted(key.group)},"pt":{key.pop_time},'
        f'"q":{key.queue_id},"so":{key.start_offset},"t":{_quoted(key.topic)}}}'
    )
    unique = f"{key.topic}@{key.queue_id}@{own}@{key.group}@{key.pop_time}@{key.broker_name}@ack"
    return _message(_BATCH_ACK if several else _ACK, body, unique, revive_topic, revive_queue, now_ms, host)


def delayed_until(message: StoreMessage, due_ms: int) -> StoreMessage:
    """Change a record so that a timer delivers it to the revive log at *due_ms*, as RocketMQ does."""
    found = property_text.decode(message.properties)
    found.pop(property_text.TIMER_OUT_MS, None)
    found[TIMER_DELIVER_MS] = str(due_ms)
    message.properties = property_text.encode(found)
    return message


def retry_checkpoint(checkpoint: Checkpoint, offset: int, now_ms: int) -> Checkpoint:
    """Return a checkpoint for one message of *checkpoint* that could not be revived, due after a back-off time."""
    key = checkpoint.key._replace(start_offset=offset)
    invisible_ms = now_ms + _back_off_ms(checkpoint.tries) - key.pop_time
    return Checkpoint(key, invisible_ms, (offset,), checkpoint.tries + 1, again=True)


def _back_off_ms(tries: int) -> int:
    return _TRY_AGAIN_S[min(tries, len(_TRY_AGAIN_S) - 1)] * 1000


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    """Return *text* as a JSON string in fastjson's encoding."""
    return dumps(text).decode()


def _message(tag: str, body: str, unique: str, topic: str, queue_id: int, now_ms: int, host: bytes) -> StoreMessage:
    text = f"TIMER_DELIVER_MS\x01{now_ms}\x02TIMER_OUT_MS\x01{now_ms}\x02UNIQ_KEY\x01{unique}\x02TAGS\x01{tag}\x02"
    return StoreMessage(
        topic,
        queue_id,
        body.encode(),
        text.encode(),
        tags_code=_CODES[tag],
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )


def read_revive_record(record: RecordView, own_broker: str) -> ReviveRecord:
    """Parse a record of the revive log; never raises, as an unknown record must not block the others.

    Args:
        own_broker: default for a missing broker name, which old brokers did not write into acknowledgements.
    """
    found = record.properties
    by_timer = property_text.REAL_TOPIC in found  # left by the timer that delivered it
    try:
        deliver_ms = int(found.get(TIMER_DELIVER_MS, "0"))
        members = loads(bytes(record.body))
        entry = _parse_entry(found.get(TAGS), members, own_broker, again=_POP_AGAIN in found)
    except (FormatError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return ReviveRecord(None, by_timer, 0)
    return ReviveRecord(entry, by_timer, deliver_ms, record.log_offset)


def _parse_entry(
    tag: str | None, members: dict[str, Any], own_broker: str, *, again: bool
) -> Checkpoint | Acknowledgement | None:
    if tag not in _CODES or not members.get("t") or not members.get("c"):
        return None
    start = int(members["so"])
    broker_name = str(members.get("bn") or own_broker)
    key = CheckpointKey(str(members["t"]), str(members["c"]), int(members["q"]), start, int(members["pt"]), broker_name)
    if tag == _ACK:
        return Acknowledgement(key, (int(members["ao"]),))
    if tag == _BATCH_ACK:
        return Acknowledgement(key, tuple(int(each) for each in members["aol"]))
    differences = members.get("d") or range(min(int(members["n"]), MOST + 1))  # old brokers wrote no differences
    if start < 0 or not 0 < len(differences) <= MOST:
        return None  # not written by a pop
    offsets = tuple(start + int(each) for each in differences)
    tries = members.get("rp")
    tried = int(tries) if tries and str(tries).isdecimal() else 0
    return Checkpoint(key, int(members["it"]), offsets, tried, again=again)
