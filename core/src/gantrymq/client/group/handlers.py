"""Functions of the application that consume messages.

async def handle(message): ...     in the event loop
def handle(message): ...           in a thread; what it returns is awaited in the event loop, if it is awaitable

Whatever a handler raises is a failed message, a CancelledError of its own included: it is logged, the message is sent
back, and the next one is handed out. Only KeyboardInterrupt and SystemExit end the run. `run_handler` itself raises
them: raised in a worker's task, they would stop the event loop before anything is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from gantrymq.client.group.failing import ReconsumeLater
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.working import Holder, Working
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.user_functions import EXITS, await_result, call_function, check_function, is_async, is_failure
from gantrymq.errors import InvalidParameter

__all__ = ["Handler", "run_handler"]

logger = logging.getLogger("gantrymq.client")

Handler = Callable[[Any], Any]  # of a message, or of a list of them


async def run_handler(
    member: Membership, working: Working, handler: Handler, *, concurrency: int, batch_size: int | None
) -> None:
    """Give *handler* messages until nothing is handed out any more, *concurrency* at a time.

    Args:
        member: whose messages.
        working: takes the outcomes.
        handler: of one message, or with *batch_size* of a list of up to so many of one queue. It has consumed them when
            it returns, and what it returned is awaited if that is awaitable; a batch handler that returns a number has
            consumed so many of them, from the first on. What it raises is logged, and the messages are delivered again.
        concurrency: calls at a time, 1 and more.
        batch_size: 1 to 1024; None for messages one by one.

    Raises:
        InvalidParameter: a number is out of bounds, or *handler* is not callable or a generator function.
        NoPermission: the cluster does not let the consumer in.
        KeyboardInterrupt, SystemExit: *handler* raised it; its messages are given back.
    """
    check_function(handler, f"the handler of {member.group}")
    if concurrency < 1:
        raise InvalidParameter(f"concurrency is {concurrency}; expected 1 and more")
    if batch_size is not None and not 1 <= batch_size <= 1024:
        raise InvalidParameter(f"batch_size is {batch_size}; expected 1 to 1024")
    threads = None if is_async(handler) else ThreadPoolExecutor(concurrency, thread_name_prefix="gantrymq-consumer")
    run = _Run(member, working, _called(handler, threads), batch_size)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(run.work())
    except* _Exit:
        pass  # raised below, not as a group
    finally:
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
    if run.exit is not None:
        raise run.exit
    if member.handing.refused is not None:
        raise member.handing.refused


class _Exit(Exception):
    """Ends the workers; `_Run.exit` says why."""


class _Run:
    """One call of `run_handler`, and its workers.

    Attributes:
        exit: KeyboardInterrupt or SystemExit, if the handler raised one.
    """

    def __init__(
        self, member: Membership, working: Working, call: Callable[[Any], Awaitable[Any]], batch_size: int | None
    ) -> None:
        self._group = member.group
        self._handing = member.handing
        self._working = working
        self._call = call
        self._batch_size = batch_size
        self._name = f"the handler of {member.group}"
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancels = task, task.cancelling()
        self.exit: BaseException | None = None

    def _stopping(self) -> bool:
        """Whether the run is being cancelled, and its workers with it.

        A worker's own task does not tell: a handler may cancel the task that it runs in.
        """
        return self._task.cancelling() > self._cancels

    async def work(self) -> None:
        """One worker; ends when nothing is handed out any more."""
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await self._take_all(task)
                return
            except EXITS as error:
                self.exit = self.exit or error
                raise _Exit from None
            except asyncio.CancelledError:
                if self._stopping():
                    raise
                task.uncancel()
                logger.warning("a handler of %s returned after it cancelled its own task; going on", self._group)

    async def _take_all(self, task: asyncio.Task[Any]) -> None:
        batch_size, call = self._batch_size, self._call
        holder = self._working.holder(batch=batch_size is not None)
        try:
            while not self._stopping() and (handed := await self._handing.take(batch_size or 1)) is not None:
                holder.took(handed)
                try:
                    consumed = await call(handed.messages[0] if batch_size is None else list(handed.messages))
                    if consumed is not None:
                        consumed = await await_result(consumed, self._name)
                except ReconsumeLater as later:
                    await holder.failed(later.delay_level)
                except BaseException as error:
                    if not self._is_failure(error, task):
                        raise
                    ids = ", ".join(message.message_id for message in handed.messages[:3])
                    logger.exception("a handler of %s raised for %s", self._group, ids)
                    await holder.failed(0, error)
                else:
                    await _settle(holder, handed.messages, consumed if batch_size is not None else None)
        finally:
            holder.end()

    def _is_failure(self, error: BaseException, task: asyncio.Task[Any]) -> bool:
        if isinstance(error, asyncio.CancelledError) and not self._stopping():
            if task.cancelling():
                task.uncancel()  # the handler cancelled the task that it runs in
            return True
        return is_failure(error, task)


async def _settle(holder: Holder, messages: list[ReceivedMessage], consumed: Any) -> None:
    if isinstance(consumed, int) and not isinstance(consumed, bool) and consumed < len(messages):
        if consumed > 0:
            holder.done(consumed)
        await holder.failed(0)
    else:
        holder.done()


def _called(handler: Handler, threads: ThreadPoolExecutor | None) -> Callable[[Any], Awaitable[Any]]:
    if threads is None:
        return handler
    loop = asyncio.get_running_loop()
    return lambda messages: loop.run_in_executor(threads, copy_context().run, call_function, handler, messages)
