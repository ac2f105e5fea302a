"""Handles the outcome of a handler's call before FastStream acknowledges the message.

FastStream awaits async handlers, but not awaitables that plain handlers return, and treats a CancelledError as the
cancellation of the subscriber, which ends the task that receives messages. `HandlerOutcome` awaits the former, and
treats the latter as an error of the handler unless the subscriber is being stopped; so the `AckPolicy` applies to both.

If a handler succeeded but its result cannot be published, the error says so, and

    the result can never be published    the message is not handled again: NACK_ON_ERROR makes it a dead letter
    the requester is gone                a warning is logged, and the message is consumed: a later answer is useless
    anything else                        the `AckPolicy` applies
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from faststream import BaseMiddleware
from faststream.middlewares import AckPolicy

from gantrymq.client import BrokerRefused, ClientError
from gantrymq.errors import InvalidParameter, MessageIllegal, NoPermission
from gantrymq.plugin.client import await_result, is_failure, running_task

if TYPE_CHECKING:
    from faststream._internal.basic_types import AsyncFunc, AsyncFuncAny
    from faststream._internal.context.repository import ContextRepo
    from faststream.message import StreamMessage
    from faststream.response import PublishCommand

    from gantrymq_faststream.subscriber import GantrySubscriber


_CONSEQUENCES: Final = {
    AckPolicy.ACK: "the message is consumed",
    AckPolicy.ACK_FIRST: "the message is consumed",
    AckPolicy.NACK_ON_ERROR: "the message is delivered again, and the handler called again",
    AckPolicy.REJECT_ON_ERROR: "the message is a dead letter",
    AckPolicy.MANUAL: "the message is as the handler left it",
}
_LEFT: Final = (
    "_left_a_handler"  # marks errors raised by a handler; in memory tests they propagate to the publishing handler
)


class ResultNotPublished(ClientError):
    """Raised when a handler succeeded but its result cannot be published; the cause has the reason."""


class HandlerOutcome(BaseMiddleware):
    """A middleware around a handler, and around the application's middlewares, parsers and filters."""

    def __init__(self, msg: Any | None, /, *, context: ContextRepo) -> None:
        super().__init__(msg, context=context)
        self._task = running_task()
        self._message: StreamMessage[Any] | None = None

    async def consume_scope(self, call_next: AsyncFuncAny, msg: StreamMessage[Any]) -> Any:
        """Call the handler and await its result."""
        self._message = msg
        try:
            return await await_result(await call_next(msg), "a handler")
        except asyncio.CancelledError as error:
            self._failed(error)

    async def publish_scope(self, call_next: AsyncFunc, msg: PublishCommand) -> Any:
        """Publish the handler's result.

        Raises:
            ResultNotPublished: it was not published.
        """
        try:
            return await call_next(msg)
        except Exception as error:
            if isinstance(error, ResultNotPublished) or hasattr(error, _LEFT) or self._message is None:
                raise
            await self._not_published(msg, error)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> bool | None:
        if isinstance(exc_val, asyncio.CancelledError) and self._is_failure(exc_val):
            self._failed(exc_val)
        if exc_val is not None:
            setattr(exc_val, _LEFT, True)
        return await super().__aexit__(exc_type, exc_val, exc_tb)

    async def _not_published(self, cmd: PublishCommand, error: Exception) -> None:
        subscriber, message = self._subscriber, self._message
        assert subscriber is not None
        assert message is not None
        never = _is_illegal(error)
        if getattr(cmd, "question", None) is not None and isinstance(error, ClientError) and not never:
            subscriber.log(logging.WARNING, f"the answer to request {message.message_id} cannot be sent: {error}")
            return
        consequence = _CONSEQUENCES[subscriber.ack_policy]
        if never and subscriber.ack_policy is AckPolicy.NACK_ON_ERROR:
            await message.reject()
            consequence = "the message is not delivered again, it is a dead letter"
        where = f"to {cmd.destination}" if cmd.destination else "as an answer"
        raise ResultNotPublished(
            f"the handler of {subscriber.group} succeeded, but its result cannot be published {where}: {error}; "
            f"{consequence}"
        ) from error

    def _failed(self, error: asyncio.CancelledError) -> NoReturn:
        if self._is_failure(error):
            raise RuntimeError("a handler raised CancelledError, and its subscriber is not being stopped") from error
        raise error

    def _is_failure(self, error: asyncio.CancelledError) -> bool:
        """Return whether *error* is the handler's failure, also if it cancelled its own task."""
        subscriber = self._subscriber
        if subscriber is not None and subscriber.running and self._task in subscriber.tasks:
            return True
        return is_failure(error, self._task)

    @property
    def _subscriber(self) -> GantrySubscriber | None:
        found: GantrySubscriber | None = self.context.get_local("handler_")
        return found


def _is_illegal(error: Exception) -> bool:
    """Return whether the result can never be sent."""
    if isinstance(error, BrokerRefused):
        return error.response_code == MessageIllegal.response_code
    return isinstance(error, MessageIllegal | InvalidParameter | NoPermission)
