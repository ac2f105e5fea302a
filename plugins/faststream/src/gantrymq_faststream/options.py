"""What may be said of a message besides its body, and how it becomes the client's message.

FastStream         RocketMQ
------------------------------------------------------------------------------
body               body, as the codec writes it
headers            properties of the application; texts, other values as str()
correlation id     property correlation_id
reply_to           property reply_to, a topic
content type       property content-type
`MessageOptions`   tags, keys, delays, the queue
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from gantrymq.client import Message
from gantrymq.client.selectors import Selector, by_key
from gantrymq.errors import InvalidParameter

__all__ = ["CONTENT_TYPE", "CORRELATION_ID", "REPLY_TO", "MessageOptions", "made", "queue_of"]

CONTENT_TYPE: Final = "content-type"
CORRELATION_ID: Final = "correlation_id"
REPLY_TO: Final = "reply_to"


class MessageOptions(TypedDict, total=False):
    """Options of a message; each may be left out."""

    tags: str | None
    """The tag, by which subscribers may choose."""

    keys: str | tuple[str, ...] | None
    """Keys by which the message is found."""

    ordering_key: str | int | None
    """Messages with one key go to one queue, and so stay in order: of a customer, an account, ..."""

    delay_level: int
    """Of the broker's table: 1 for 1 s, 3 for 10 s, 18 for 2 h by default."""

    delay_ms: int | None
    """Delivered so many milliseconds later."""

    deliver_at_ms: int | None
    """Delivered then, milliseconds since 1970."""


def made(
    topic: str,
    body: bytes,
    content_type: str | None,
    headers: Mapping[str, Any],
    correlation_id: str | None,
    reply_to: str,
    options: MessageOptions,
) -> Message:
    """The client's message. What is not legal in it the client refuses when it is sent.

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
    """What chooses the queue; None for the producer's own way."""
    key = options.get("ordering_key")
    return None if key is None else by_key(key)
