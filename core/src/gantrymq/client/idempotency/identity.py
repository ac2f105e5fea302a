"""Identity of a message, so that repeated deliveries are detected.

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

from collections.abc import Callable
from typing import Final, NamedTuple

from gantrymq.client.calls.decoding import unique_ids
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import InvalidParameter
from gantrymq.model import properties as names
from gantrymq.model.names import RETRY_PREFIX
from gantrymq.model.sys_flag import INNER_BATCH

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
