"""By what a message is known, so that its second delivery is found.

    message                              key                            place
    ---------------------------------------------------------------------------------------------------------
    at its first delivery                its unique id, UNIQ_KEY        where it lies in its broker's log
    that came back                       the same, as far as known      where it lay at its first delivery
    without a unique id                  the place                      as above
    whose key the application says       that                           the key

A redelivery has the same place, a message that its producer sent again by itself has the same key. Either is enough. A
place is the broker's id of a message, which names host and offset, and when it was born: a log that begins anew has the
same offsets for other messages.

Brokers append the properties of a batch to those of each message in it. Java's clients and brokers from 5.0 on give a
batch a UNIQ_KEY too; the last one wins, and so all its messages show the batch's id. The own one stands before it in
the text, but is lost when the message is sent back. What comes back is therefore never known by the id that it shows:
all but the first message of a batch would be dropped. Its key is written down when its first delivery fails (`alias`);
where that was not seen, the place has to do.

Sources: apache/rocketmq client/.../producer/DefaultMQProducer.java (batch), broker/.../processor/
AbstractSendMessageProcessor.java (consumerSendMsgBack), store/.../MessageExtEncoder.java (encode of a batch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.client.decoding import unique_ids
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import InvalidParameter
from gantrymq.model import properties as names
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.sys_flag import INNER_BATCH

__all__ = ["MAX_KEY_CHARS", "KeyOf", "MessageIdentity", "alias_prefix", "identity_of"]

MAX_KEY_CHARS: Final = 255

KeyOf = Callable[[ReceivedMessage], str]


class MessageIdentity(NamedTuple):
    """Of one message. Each of its names that is recorded, as a key or as a place, makes it a duplicate."""

    key: str
    place: str
    shown_id: str = ""  # the unique id that it shows, where that is not its key
    redelivered: bool = False  # so that an alias may tell the key

    @property
    def names(self) -> tuple[str, ...]:
        """What is looked up."""
        return tuple(dict.fromkeys(name for name in (self.key, self.place, self.shown_id) if name))

    def with_key(self, key: str) -> MessageIdentity:
        """As an alias tells it."""
        return MessageIdentity(key, self.place)


def identity_of(message: ReceivedMessage, key: KeyOf | None = None) -> MessageIdentity:
    """The identity of *message*.

    Args:
        message: as a consumer gives it.
        key: of the application, such as the number of an order.

    Raises:
        InvalidParameter: *key* gave no text of 1 to 255 characters, or the message was popped and there is no *key*.
    """
    if key is not None:
        own = _check_key(key(message))
        return MessageIdentity(own, own)
    found = message.properties
    if names.POP_CK in found:  # nothing in one that comes back tells where it lay first
        raise InvalidParameter(
            "a popped message that comes back is known only by what the application says; give idempotent a key, "
            "such as key=lambda message: message.message_id where no batches are sent"
        )
    own, shown_id = unique_ids(message)
    origin = found.get(names.ORIGIN_MESSAGE_ID, "")
    place = _place(message, origin if origin != shown_id else "")  # a copy that a client sent names the id it showed
    if origin or names.RETRY_TOPIC in found or message.topic.startswith(RETRY_PREFIX):
        return MessageIdentity(place, place, shown_id, redelivered=True)
    return MessageIdentity(own or place, place)


def alias_prefix(place: str) -> str:
    """What stands before the key in the record that tells the key of the message at *place*."""
    return f"{place} is "


def _place(message: ReceivedMessage, origin: str) -> str:
    place = f"{origin or message.offset_id}.{message.born_timestamp}"
    return f"{place}.{message.queue_offset}" if message.sys_flag & INNER_BATCH else place  # several in one record


def _check_key(key: object) -> str:
    if isinstance(key, str) and 0 < len(key) <= MAX_KEY_CHARS:
        return key
    what = f"text of {len(key)} characters" if isinstance(key, str) else repr(key)
    raise InvalidParameter(f"the key of a message is {what}; expected text of 1 to {MAX_KEY_CHARS} characters")
