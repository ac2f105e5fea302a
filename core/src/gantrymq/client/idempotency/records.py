"""Interface between idempotent consumption and a database, and the keys that identify a message in it.

One table, created if it does not exist:

    CREATE TABLE gantrymq_consumed (
        consumer_group  VARCHAR(255) NOT NULL,
        message_key     VARCHAR(255) NOT NULL,      -- see below
        place           VARCHAR(255) NOT NULL,
        consumed_at_ms  BIGINT NOT NULL,            -- since 1970
        PRIMARY KEY (consumer_group, message_key),
        UNIQUE (consumer_group, place)
    );
    CREATE INDEX gantrymq_consumed_at ON gantrymq_consumed (consumed_at_ms);

The primary key and the unique place decide between two members that have the same message: the second one to insert
waits for the first, and gets a conflict when that one commits.

A message is identified by a key and a place, so that repeated deliveries are detected:

    message                              key                            place
    ---------------------------------------------------------------------------------------------------------
    first delivery                       its unique id, UNIQ_KEY        position in the log of its broker
    redelivery                           the same, as far as known      position at the first delivery
    without a unique id                  the place                      as above
    with a key of the application        that key                       the key

A redelivery has the same place; a message that its producer sent twice has the same key. Either one is sufficient. A
place is the broker's id of a message, which contains host and offset, plus the born timestamp, because a recreated log
has the same offsets for other messages.

Brokers append the properties of a batch to those of each message in it. Java clients, and brokers from 5.0 on, give a
batch a UNIQ_KEY too. The last one wins, so all its messages have the id of the batch. Their own id precedes it in the
property text, but is lost when the message is sent back. Therefore a redelivered message is never identified by its
UNIQ_KEY: all but the first message of a batch would be dropped. Its key is recorded when its first delivery fails
(`alias_prefix`); without such a record, only the place is used.

Sources: apache/rocketmq client/.../producer/DefaultMQProducer.java (batch), broker/.../processor/
AbstractSendMessageProcessor.java (consumerSendMsgBack), store/.../MessageExtEncoder.java (encode of a batch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from gantrymq.client.calls.decoding import unique_ids
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import InvalidParameter
from gantrymq.model import properties as names
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.world import Workers

MAX_KEY_CHARS: Final = 255

KeyOf = Callable[[ReceivedMessage], str]


class MessageIdentity(NamedTuple):
    """Identity of one message. It is a duplicate if any of its names is recorded, as a key or as a place."""

    key: str
    place: str
    shown_id: str = ""  # its UNIQ_KEY, if that is not the key
    redelivered: bool = False  # its key may be recorded as an alias

    @property
    def names(self) -> tuple[str, ...]:
        """Names to look up."""
        return tuple(dict.fromkeys(name for name in (self.key, self.place, self.shown_id) if name))

    def with_key(self, key: str) -> MessageIdentity:
        """Return the identity with the key of an alias."""
        return MessageIdentity(key, self.place)


def identity_of(message: ReceivedMessage, key: KeyOf | None = None) -> MessageIdentity:
    """Return the identity of *message*.

    Args:
        message: as received by a consumer.
        key: returns the key that the application uses, such as an order number.

    Raises:
        InvalidParameter: *key* did not return text of 1 to 255 characters, or the message was popped and there is no
            *key*.
    """
    if key is not None:
        own = _check_key(key(message))
        return MessageIdentity(own, own)
    found = message.properties
    if names.POP_CK in found:  # a redelivered one does not contain its first position
        raise InvalidParameter(
            "a redelivered popped message can only be identified by a key of the application; give idempotent a key, "
            "such as key=lambda message: message.message_id if no batches are sent"
        )
    own, shown_id = unique_ids(message)
    origin = found.get(names.ORIGIN_MESSAGE_ID, "")
    place = _place(message, origin if origin != shown_id else "")  # copies sent by clients have it as origin
    if origin or names.RETRY_TOPIC in found or message.topic.startswith(RETRY_PREFIX):
        return MessageIdentity(place, place, shown_id, redelivered=True)
    return MessageIdentity(own or place, place)


def alias_prefix(place: str) -> str:
    """Return the text before the key in the alias record of the message at *place*."""
    return f"{place} is "


def _place(message: ReceivedMessage, origin: str) -> str:
    place = f"{origin or message.offset_id}.{message.born_timestamp}"
    # A record of an inner batch contains several messages.
    return f"{place}.{message.queue_offset}" if message.sys_flag & INNER_BATCH else place


def _check_key(key: object) -> str:
    if isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS:
        return key
    what = f"text of {len(key)} characters" if isinstance(key, str) else repr(key)
    raise InvalidParameter(f"the key of a message is {what}; expected text of 1 to {MAX_KEY_CHARS} characters")


TABLE: Final = "gantrymq_consumed"
PRUNE_BATCH: Final = 1000  # rows per statement


class ConsumedRecord(NamedTuple):
    """One row of the table."""

    consumer_group: str
    message_key: str
    place: str
    consumed_at_ms: int  # since 1970


class Records(Protocol):
    """A table of consumed messages in the database of the application."""

    @property
    def blocking(self) -> bool:
        """Whether its calls block, so that plain handlers can use its connection."""

    def for_event_loop(self, workers: Workers, threads: int) -> AsyncRecords:
        """Return the same records for an event loop; blocking calls run in up to *threads* of *workers*."""

    def close(self) -> None:
        """Close connections that it opened itself."""


class AsyncRecords(Protocol):
    """Records for an event loop."""

    conflicts: tuple[type[Exception], ...]  # raised if a key or a place exists already

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Enter before all work for a message, so that a thread is available whenever it is needed."""

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Open a connection in a transaction that is committed at the end, or rolled back after an exception."""

    async def prepare(self) -> None:
        """Create the table if it does not exist."""

    async def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return those of *names* that are recorded, as keys or places, and committed."""

    async def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a recorded key that begins with *prefix*, None if there is none."""

    async def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Insert *rows* in the transaction of *connection*.

        Raises:
            one of ``conflicts``: a key or a place exists already.
        """

    async def prune(self, before_ms: int) -> int:
        """Delete up to PRUNE_BATCH rows written before *before_ms*; returns how many."""


class BlockingRecords(Protocol):
    """Records with blocking calls that may be made in any thread; methods as in `AsyncRecords`."""

    conflicts: tuple[type[Exception], ...]
    writers: int | None  # maximum number of concurrent transactions; None for no limit

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a connection in a transaction."""

    def prepare(self) -> None:
        """Create the table if it does not exist."""

    def known(self, group: str, names: Sequence[str]) -> set[str]:
        """Return the recorded names."""

    def key_with_prefix(self, group: str, prefix: str) -> str | None:
        """Return a key that begins with *prefix*."""

    def add(self, connection: Any, rows: Sequence[ConsumedRecord]) -> None:
        """Insert rows in a transaction."""

    def prune(self, before_ms: int) -> int:
        """Delete old rows."""
