"""What a handler's call comes to, before FastStream decides on the message.

FastStream awaits what an async handler does, but not what a plain one returns, and takes a CancelledError for the
cancellation of the subscriber, which ends the task that takes messages. `HandlerOutcome` awaits the former, and makes
the latter an error of the handler unless the task is being cancelled; so the `AckPolicy` applies to both.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from faststream import BaseMiddleware

from gantrymq.client.user_functions import awaited, is_failure, running_task

if TYPE_CHECKING:
    from faststream._internal.basic_types import AsyncFuncAny
    from faststream._internal.context.repository import ContextRepo
    from faststream.message import StreamMessage

__all__ = ["HandlerOutcome"]


class HandlerOutcome(BaseMiddleware):
    """A middleware around a handler, and around the middlewares, parsers and filters of the application."""

    def __init__(self, msg: Any | None, /, *, context: ContextRepo) -> None:
        super().__init__(msg, context=context)
        self._task = running_task()

    async def consume_scope(self, call_next: AsyncFuncAny, msg: StreamMessage[Any]) -> Any:
        """Call the handler, and await what it returned."""
        try:
            return await awaited(await call_next(msg), "a handler")
        except asyncio.CancelledError as error:
            self._failed(error)

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> bool | None:
        if isinstance(exc_val, asyncio.CancelledError) and is_failure(exc_val, self._task):
            self._failed(exc_val)
        return await super().__aexit__(exc_type, exc_val, exc_tb)

    def _failed(self, error: asyncio.CancelledError) -> NoReturn:
        if is_failure(error, self._task):
            raise RuntimeError("a handler raised CancelledError, and its subscriber is not being stopped") from error
        raise error
