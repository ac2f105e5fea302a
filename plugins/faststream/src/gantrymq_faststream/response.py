"""Results of handlers, and commands to publishers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from faststream.response.publish_type import PublishType
from faststream.response.response import BatchPublishCommand, PublishCommand, Response

from gantrymq.client import ReceivedMessage
from gantrymq_faststream.options import MessageOptions

TIMEOUT_S = 3.0


class GantryResponse(Response):
    """A handler's result with headers and options of the message."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[MessageOptions],
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.options = options

    def as_publish_command(self) -> GantryPublishCommand:
        """Return a command without a topic, which publishers set."""
        return GantryPublishCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            options=self.options,
            _publish_type=PublishType.PUBLISH,
        )


class GantryPublishCommand(BatchPublishCommand):
    """One message, or several of a batch, passed through middlewares to the producer.

    Attributes:
        options: of each message.
        timeout_s: of the send, or of a request until its answer.
        question: the request that this answers; None for any other message.
        no_message: whether a batch is empty; a body of None may also be its only message.
    """

    def __init__(
        self,
        body: Any,
        /,
        *bodies: Any,
        _publish_type: PublishType,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        timeout_s: float = TIMEOUT_S,
        options: MessageOptions | None = None,
    ) -> None:
        super().__init__(
            body,
            *bodies,
            _publish_type=_publish_type,
            reply_to=reply_to,
            destination=topic,
            correlation_id=correlation_id,
            headers=headers,
        )
        self.options: MessageOptions = options or {}
        self.timeout_s = timeout_s
        self.question: ReceivedMessage | None = None
        self.no_message = False

    @property
    def batch_bodies(self) -> tuple[Any, ...]:
        """The body of each message."""
        return () if self.no_message and self.body is None else (self.body, *self.extra_bodies)

    @batch_bodies.setter
    def batch_bodies(self, value: Sequence[Any]) -> None:
        self.no_message = not value
        self.body = value[0] if value else None
        self.extra_bodies = tuple(value[1:])

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> GantryPublishCommand:
        """Convert *cmd* to a GantryPublishCommand.

        With *batch* a list of bodies becomes several messages; None, as of a handler without a result, becomes none.
        """
        if not isinstance(cmd, GantryPublishCommand):
            cmd = cls._of(cmd)
        if batch and not cmd.extra_bodies:
            body, bodies = cls._parse_bodies(cmd.body, batch=True)
            cmd.batch_bodies = (body, *bodies) if body is not None or cmd.body else ()
        return cmd

    @classmethod
    def _of(cls, cmd: PublishCommand) -> GantryPublishCommand:
        return cls(
            cmd.body,
            topic=cmd.destination,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            reply_to=cmd.reply_to,
            _publish_type=cmd.publish_type,
        )
