"""What else the store has of a transaction: other copies of its half message, the committed message, the given-up one.

A half message is stored again when its producer is asked about it, and when a client sends it a second time because the
answer to the first was lost. All copies have one UNIQ_KEY, so the index by key finds them; and the committed message
with it. That is how one message comes of a transaction, whatever copy a decision names, and although a crash, or a Java
broker, left a committed message without the op message that belongs to it. One that asks for a delay is
looked for where it waits, too. Where the store has no index (``messageIndexEnable=false``) nothing is found, and such
a message can come twice, as it can at a Java broker. An index that is behind the log is no answer: decisions are
refused (2), and checks put off, until it has caught up.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Final, NamedTuple

from gantrymq.errors import RequestRefused
from gantrymq.formats.record import RecordView, read_record
from gantrymq.interfaces import Broker
from gantrymq.model import properties as props
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_transaction.messages import asks_for_delay
from gantrymq_transaction.rules import SYSTEM_BUSY

__all__ = [
    "WAITING",
    "TransactionIdentity",
    "by_unique_id",
    "committed_message",
    "given_up",
    "half_messages",
    "identity_of",
]

WAITING: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)  # where delayed messages wait
_MOST: Final = 64  # records with one key that are looked at
_EVER_MS: Final = 1 << 60


class TransactionIdentity(NamedTuple):
    """What all copies of a half message have in common."""

    group: str
    topic: str  # the real one
    unique_id: str
    delayed: bool


def identity_of(own: Mapping[str, str]) -> TransactionIdentity:
    """The identity of a half message with these properties."""
    delayed = asks_for_delay(own)
    return TransactionIdentity(
        own.get(props.PRODUCER_GROUP, ""), own.get(props.REAL_TOPIC, ""), own.get(props.UNIQ_KEY, ""), delayed
    )


async def committed_message(broker: Broker, identity: TransactionIdentity) -> RecordView | None:
    """The message that consumers see of a transaction, or will see when its delay is over; None while there is none."""
    for topic in (identity.topic, *(WAITING if identity.delayed else ())):
        if found := await _with_key(broker, identity, topic, committed=True):
            return found[0]
    return None


async def half_messages(broker: Broker, identity: TransactionIdentity) -> list[RecordView]:
    """The copies of a half message, in the order of their queue."""
    return sorted(await _with_key(broker, identity, HALF_TOPIC), key=lambda record: record.queue_offset)


async def given_up(broker: Broker, identity: TransactionIdentity) -> list[RecordView]:
    """What TRANS_CHECK_MAX_TIME_TOPIC has of a transaction."""
    return await _with_key(broker, identity, CHECK_MAX_TIME_TOPIC)


async def by_unique_id(broker: Broker, unique_id: str, topic: str, *, committed: bool = False) -> list[RecordView]:
    """The newest records of *topic* with a UNIQ_KEY, oldest first; with *committed* only those of transactions.

    Raises:
        RequestRefused: the index by key does not know yet what was stored last (2); ask again.
        StoreError: the disk cannot be read.
    """
    found = broker.store.query(topic, unique_id, 0, _EVER_MS, _MOST)
    result = await found if inspect.isawaitable(found) else found
    if not result.complete:
        raise RequestRefused(
            SYSTEM_BUSY,
            f"what was stored of the transaction {unique_id} cannot be told while the index by key is behind the log: "
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
    broker: Broker, identity: TransactionIdentity, topic: str, *, committed: bool = False
) -> list[RecordView]:
    if not identity.unique_id:
        return []
    found = await by_unique_id(broker, identity.unique_id, topic, committed=committed)
    return [record for record in found if identity_of(record.properties) == identity]
