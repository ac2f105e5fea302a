"""By what a message is known, so that its second delivery is found.

    message                                   known by
    -----------------------------------------------------------------------------------------------------------------
    sent by itself                            its unique id, UNIQ_KEY: of redeliveries and of a second send alike
    of a client's batch                       its own unique id, and its place in the log
    that came back, of a batch                the place in the log of the first delivery, ORIGIN_MESSAGE_ID
    without a unique id                       its place in the log

Brokers append the properties of a batch to those of each message in it. Java's clients and brokers from 5.0 on give a
batch a UNIQ_KEY too; the last one wins, and so all its messages show the batch's id. The own one stands before it in
the text. When such a message is sent back its own id is lost, and what comes again looks like any message with the
batch's id: taken for its own, all but the first of the batch would be dropped. Therefore the id of a batch is written
down before one of its messages is handled.

Sources: apache/rocketmq client/.../producer/DefaultMQProducer.java (batch), broker/.../processor/
AbstractSendMessageProcessor.java (consumerSendMsgBack), store/.../MessageExtEncoder.java (encode of a batch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.client.decoding import unique_ids
from gantrymq.errors import InvalidParameter
from gantrymq.model import properties as names
from gantrymq.model.message import ReceivedMessage
from gantrymq.model.names import RETRY_PREFIX

__all__ = ["MAX_KEY_CHARS", "Identity", "KeyOf", "batch_mark", "identity_of"]

MAX_KEY_CHARS: Final = 255

KeyOf = Callable[[ReceivedMessage], str]


class Identity(NamedTuple):
    """Keys of one message."""

    keys: tuple[str, ...]  # recorded when it is consumed; one that is recorded already makes it a duplicate
    batch: str = ""  # id of the batch that it is of
    perhaps_of_batch: tuple[str, str] | None = None  # (mark, key in place of `keys` where the mark is recorded)


def identity_of(message: ReceivedMessage, key: KeyOf | None = None) -> Identity:
    """The keys of *message*.

    Args:
        message: as a consumer gives it.
        key: of the application, such as the number of an order; in place of the table above.

    Raises:
        InvalidParameter: *key* gave no text of 1 to 255 characters.
    """
    if key is not None:
        return Identity((_checked(key(message)),))
    found = message.properties
    own, shown = unique_ids(message)
    place = found.get(names.ORIGIN_MESSAGE_ID) or message.offset_id
    if not shown:
        return Identity((place,))
    if own != shown:
        return Identity((own, place), batch=shown)
    if names.ORIGIN_MESSAGE_ID in found or names.RETRY_TOPIC in found or message.topic.startswith(RETRY_PREFIX):
        place = place if place != shown else message.offset_id
        return Identity((shown,), perhaps_of_batch=(batch_mark(shown), place))
    return Identity((shown,))


def batch_mark(unique_id: str) -> str:
    """The key that says that *unique_id* is the id of a batch."""
    return f"batch {unique_id}"


def _checked(key: object) -> str:
    if isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS:
        return key
    what = f"text of {len(key)} characters" if isinstance(key, str) else repr(key)
    raise InvalidParameter(f"the key of a message is {what}; expected text of 1 to {MAX_KEY_CHARS} characters")
