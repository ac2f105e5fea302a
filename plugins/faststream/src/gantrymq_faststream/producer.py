"""The producer of the broker and its publishers."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from faststream._internal.constants import ContentTypes
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream.exceptions import IncorrectState

from gantrymq.client import Message, MessageIllegal, Producer, ReceivedMessage, SendResult, reply_to
from gantrymq.errors import InvalidParameter
from gantrymq_faststream.options import make_message, queue_of
from gantrymq_faststream.parser import GantryParser
from gantrymq_faststream.response import GantryPublishCommand

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto
    from faststream._internal.parser import CodecProto
    from faststream._internal.types import AsyncCallable, CustomCallable


class GantryProducer(ProducerProto[GantryPublishCommand]):
    """Converts commands to messages and sends them, between `connect` and `disconnect`."""

    _parser: AsyncCallable
    _decoder: AsyncCallable
    codec: CodecProto

    def __init__(self, parser: CustomCallable | None, decoder: CustomCallable | None) -> None:
        """*parser* and *decoder* are the broker's, for answers to requests."""
        default = GantryParser()
        self._parser = ParserComposition(parser, default.parse_message)
        self._decoder = ParserComposition(decoder, default.decode_message)
        self.codec = DefaultCodec()
        self.serializer: SerializerProto | None = None
        self._producer: Producer | None = None

    def connect(self, producer: Producer, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        """Use the started *producer*."""
        self._producer = producer
        self.serializer = serializer
        self.codec = codec or DefaultCodec()

    def disconnect(self) -> None:
        """Stop sending."""
        self._producer = None

    async def publish(self, cmd: GantryPublishCommand) -> SendResult:
        """Send one message, or the answer to a request."""
        message = await self.message(cmd, cmd.body)
        if cmd.question is not None:
            answer = reply_to(cmd.question, message.body)
            answer.properties.update(message.properties)
            return await self._started().send(answer, timeout_s=cmd.timeout_s)
        return await self._started().send(message, queue_of(cmd.options), cmd.timeout_s)

    async def publish_batch(self, cmd: GantryPublishCommand) -> tuple[SendResult, ...]:
        """Send all bodies as batches; return the results in the order of the messages."""
        messages = [await self.message(cmd, body) for body in cmd.batch_bodies]
        sent = await self._started().send_batches(messages, queue_of(cmd.options), cmd.timeout_s)
        return tuple(each for result in sent for each in result.each())

    async def request(self, cmd: GantryPublishCommand) -> ReceivedMessage:
        """Send a request and wait for its answer."""
        message = await self.message(cmd, cmd.body)
        return await self._started().request(message, queue_of(cmd.options), cmd.timeout_s)

    async def message(self, cmd: GantryPublishCommand, body: Any) -> Message:
        """Return the client's message for *body*.

        Raises:
            ClientError: the body or an option cannot be sent.
        """
        _check_timeout(cmd.timeout_s)
        encoded, content_type = await self.encode_body(body)
        return make_message(
            cmd.destination, encoded, content_type, cmd.headers, cmd.correlation_id, cmd.reply_to, cmd.options
        )

    async def encode_body(self, body: Any) -> tuple[bytes, str | None]:
        """Encode *body* with the codec; return it with its content type.

        RocketMQ has no empty messages: None and an empty text, for which the codec writes nothing, are written as JSON.

        Raises:
            MessageIllegal: the codec cannot write it.
        """
        try:
            encoded, content_type = await self.codec.encode(body, self.serializer)
        except (TypeError, ValueError) as problem:  # raised by serializers for unsupported values
            raise MessageIllegal(f"a body of type {type(body).__name__} cannot be written: {problem}") from problem
        if not encoded and (body is None or body == ""):
            return json.dumps(body).encode(), ContentTypes.JSON.value
        return encoded, content_type

    def _started(self) -> Producer:
        if self._producer is None:
            raise IncorrectState("the broker is not connected; use it within 'async with broker' or run its app")
        return self._producer


def _check_timeout(timeout_s: float | None) -> None:
    """Raise InvalidParameter if *timeout_s* is not a valid time."""
    if timeout_s is None:
        return
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < math.inf:
        raise InvalidParameter(f"timeout_s is {timeout_s!r}; expected a number of seconds above 0")
