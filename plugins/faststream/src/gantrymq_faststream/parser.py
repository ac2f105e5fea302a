"""Converts the client's messages to FastStream's."""

from __future__ import annotations

from typing import Any

from faststream.message import StreamMessage, decode_message

from gantrymq.client import ClientError, ReceivedMessage
from gantrymq.plugin.client import REPLY_TO_CLIENT
from gantrymq_faststream.message import NO_CONSUMER, GantryBatchMessage, GantryMessage, MessageConsumer
from gantrymq_faststream.options import CONTENT_TYPE, CORRELATION_ID, REPLY_TO


class GantryParser:
    """The parser of one subscriber; `consumer` is set when the subscriber starts."""

    def __init__(self) -> None:
        self.consumer: MessageConsumer = NO_CONSUMER

    async def parse_message(self, message: ReceivedMessage) -> GantryMessage:
        """Convert one message; the answer to a request goes to its ``reply_to``."""
        headers = message.user_properties
        return GantryMessage(
            raw_message=message,
            body=message.body,
            headers=headers,
            reply_to=_reply_to(message, headers),
            content_type=headers.get(CONTENT_TYPE),
            correlation_id=headers.get(CORRELATION_ID),
            message_id=message.message_id,
            consumer=self.consumer,
        )

    async def parse_batch(self, messages: list[ReceivedMessage]) -> GantryBatchMessage:
        """Convert messages of one queue; single-valued fields are those of the first message."""
        headers = [message.user_properties for message in messages]
        first = messages[0]
        return GantryBatchMessage(
            raw_message=messages,
            body=[message.body for message in messages],
            headers=headers[0],
            batch_headers=headers,
            reply_to=_reply_to(first, headers[0]),
            content_type=headers[0].get(CONTENT_TYPE),
            correlation_id=headers[0].get(CORRELATION_ID),
            message_id=first.message_id,
            consumer=self.consumer,
        )

    async def decode_message(self, message: StreamMessage[Any]) -> Any:
        """Decode the body by its content type. Raises ClientError if its compression is not supported."""
        _whole(message.raw_message)
        return decode_message(message)

    async def decode_batch(self, batch: StreamMessage[Any]) -> list[Any]:
        """Decode the bodies, each by its own content type. Raises as `decode_message`."""
        return [await self.decode_message(await self.parse_message(each)) for each in batch.raw_message]


def _whole(message: Any) -> None:
    if problem := getattr(message, "body_problem", ""):
        raise ClientError(f"message {message.message_id} of {message.topic} cannot be read: {problem}")


def _reply_to(message: ReceivedMessage, headers: dict[str, str]) -> str:
    return headers.get(REPLY_TO) or message.properties.get(REPLY_TO_CLIENT, "")
