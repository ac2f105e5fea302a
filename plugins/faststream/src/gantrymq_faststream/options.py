"""Options of a message, and conversion to the client's message.

FastStream         RocketMQ
------------------------------------------------------------------------------
body               body, encoded by the codec
headers            user properties; texts, other values as str()
correlation id     property correlation_id
reply_to           property reply_to, a topic
content type       property content-type
`MessageOptions`   tags, keys, delays, the queue
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from gantrymq.client import Message, Selector, by_key
from gantrymq.errors import InvalidParameter

CONTENT_TYPE: Final = "content-type"
CORRELATION_ID: Final = "correlation_id"
REPLY_TO: Final = "reply_to"


class MessageOptions(TypedDict, total=False):
    """Options of a message; all are optional."""

    tags: str | None
    """The tag, by which subscribers can filter."""

    keys: str | tuple[str, ...] | None
    """Keys for searching the message."""

    ordering_key: str | int | None
    """Messages with the same key go to one queue and stay in order, for example of a customer or an account."""

    delay_level: int
    """Level in the broker's table: by default 1 is 1 s, 3 is 10 s, 18 is 2 h."""

    delay_ms: int | None
    """Delay of the delivery in milliseconds."""

    deliver_at_ms: int | None
    """Time of the delivery, milliseconds since 1970."""


def make_message(
    topic: str,
    body: bytes,
    content_type: str | None,
    headers: Mapping[str, Any],
    correlation_id: str | None,
    reply_to: str,
    options: MessageOptions,
) -> Message:
    """Return the client's message. The client checks it when it is sent.

    Raises:
        InvalidParameter: an option that `MessageOptions` does not have.
    """
    known = MessageOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise InvalidParameter(f"a message has no option {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    own = {CONTENT_TYPE: content_type, CORRELATION_ID: correlation_id, REPLY_TO: reply_to, **headers}
    given = {name: value for name, value in options.items() if name != "ordering_key" and value is not None}
    properties = {name: str(value) for name, value in own.items() if value not in (None, "")}
    return Message(topic, body, properties=properties, **given)  # type: ignore[arg-type]  # as `MessageOptions` has them


def queue_of(options: MessageOptions) -> Selector | None:
    """Return the queue selector; None for the producer's default."""
    key = options.get("ordering_key")
    return None if key is None else by_key(key)
