"""Other messages of a transaction in the store: copies of its half message, the committed and the given-up message.

A half message is stored again when it is checked, and when a client repeats a send because the response was lost. All
copies have the same UNIQ_KEY, so the index by key finds them and the committed message. So a transaction yields one
message whichever copy a decision names, even if a crash, or a Java broker, left a committed message without its op
message. A committed message with a delay is searched for where it waits, too. Without an index
(``messageIndexEnable=false``) nothing is found, and such a message can be delivered twice, as by a Java broker. While
the index lags behind the log, decisions are refused (2) and checks are postponed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gantrymq.errors import RequestRefused
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView, read_record
from gantrymq.plugin.interfaces import BrokerStorage
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.plugin.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq.plugin.world import TimeSlices
from gantrymq_transaction.messages import asks_for_delay, offsets_in_op
from gantrymq_transaction.reading import OP_QUEUE, SLICE, read_from
from gantrymq_transaction.rules import SYSTEM_BUSY

WAITING: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)  # where delayed messages wait
_MOST: Final = 64  # records with one key that are examined
_EVER_MS: Final = 1 << 60
_MOST_OPS: Final = 20_000  # op messages that are read for one half message
_CLOCK_SET_BACK_MS: Final = 10_000  # op messages may seem to be so much older than their half message


class TransactionKey(NamedTuple):
    """Properties shared by all copies of a half message."""

    group: str
    topic: str  # the target topic
    unique_id: str
    delayed: bool


def key_of(own: Mapping[str, str]) -> TransactionKey:
    """Return the key of a half message with the properties *own*."""
    delayed = asks_for_delay(own)
    return TransactionKey(
        own.get(props.PRODUCER_GROUP, ""), own.get(props.REAL_TOPIC, ""), own.get(props.UNIQ_KEY, ""), delayed
    )


async def committed_message(broker: BrokerStorage, key: TransactionKey) -> RecordView | None:
    """Return the committed message of a transaction, delayed or visible; None if there is none."""
    for topic in (key.topic, *(WAITING if key.delayed else ())):
        if found := await _with_key(broker, key, topic, committed=True):
            return found[0]
    return None


async def half_messages(broker: BrokerStorage, key: TransactionKey) -> list[RecordView]:
    """Return the copies of a half message, in queue order."""
    return sorted(await _with_key(broker, key, HALF_TOPIC), key=lambda record: record.queue_offset)


async def has_op(broker: BrokerStorage, half: RecordView, offsets: Sequence[int]) -> bool:
    """Return whether an op message names one of *offsets*, copies of *half*; also if too many would have to be read.

    Without one, a half message that is not undecided was given to another broker by an acting master.
    """
    slices = TimeSlices(broker.world.clock, SLICE)
    start = await broker.messages.offset_at(OP_QUEUE, half.store_timestamp - _CLOCK_SET_BACK_MS)
    end = broker.store.bounds(OP_QUEUE).max_offset
    wanted = set(offsets)
    async for op in read_from(broker, OP_QUEUE, start, min(end, start + _MOST_OPS), slices, most=1024):
        if not wanted.isdisjoint(offsets_in_op(op)):
            return True
    return end - start > _MOST_OPS


async def given_up(broker: BrokerStorage, key: TransactionKey) -> list[RecordView]:
    """Return the messages of a transaction in TRANS_CHECK_MAX_TIME_TOPIC."""
    return await _with_key(broker, key, CHECK_MAX_TIME_TOPIC)


async def by_unique_id(
    broker: BrokerStorage, unique_id: str, topic: str, *, committed: bool = False
) -> list[RecordView]:
    """Return the newest records of *topic* with a UNIQ_KEY, oldest first; with *committed* only committed ones.

    Raises:
        RequestRefused: the index by key lags behind the log (2); try again.
        StoreError: the disk cannot be read.
    """
    found = broker.messages.query(topic, unique_id, 0, _EVER_MS, _MOST)
    result = await found if inspect.isawaitable(found) else found
    if not result.complete:
        raise RequestRefused(
            SYSTEM_BUSY,
            f"what was stored of the transaction {unique_id} is unknown while the index by key lags behind the log: "
            f"{result.problem or 'it is being caught up'}; ask again",
        )
    records = map(read_record, result.records)
    return [
        record
        for record in records
        if record.properties.get(props.UNIQ_KEY) == unique_id
        and (not committed or record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT)
    ]


async def _with_key(
    broker: BrokerStorage, key: TransactionKey, topic: str, *, committed: bool = False
) -> list[RecordView]:
    if not key.unique_id:
        return []
    found = await by_unique_id(broker, key.unique_id, topic, committed=committed)
    return [record for record in found if key_of(record.properties) == key]
