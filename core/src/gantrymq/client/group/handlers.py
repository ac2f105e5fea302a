"""Message handlers of the application.

async def handle(message): ...     runs in the event loop
def handle(message): ...           runs in a thread; an awaitable result is awaited in the event loop

Any exception of a handler, including its own CancelledError, is a failed message: it is logged, the message is sent
back, and the next one is delivered. Only KeyboardInterrupt and SystemExit end the run. `run_handler` itself raises
them: raised in a worker's task, they would stop the event loop before anything is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from gantrymq.client.argument_types import check_number
from gantrymq.client.group.in_flight import DeliveryHolder, InFlight
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.redelivery import ReconsumeLater
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.user_functions import EXITS, await_result, call_function, check_function, is_async, is_failure

logger = logging.getLogger("gantrymq.client")

Handler = Callable[[Any], Any]  # takes a message, or a list of messages


async def run_handler(
    member: GroupMember, in_flight: InFlight, handler: Handler, *, concurrency: int, batch_size: int | None
) -> None:
    """Call *handler* with messages until the delivery queue is closed, with up to *concurrency* calls at a time.

    Args:
        member: the group member.
        in_flight: receives the outcomes.
        handler: takes one message, or with *batch_size* a list of up to that many messages of one queue. Messages are
            consumed when it returns; an awaitable result is awaited first. A batch handler that returns a number has
            consumed that many messages, from the first on. Its exceptions are logged, and the messages are redelivered.
        concurrency: calls at a time, at least 1.
        batch_size: 1 to 1024; None for single messages.

    Raises:
        InvalidParameter: a number is out of bounds, or *handler* is not callable or a generator function.
        NoPermission: the cluster denies access to the group.
        BrokerRefused: a broker cannot evaluate the expression of a subscription.
        KeyboardInterrupt, SystemExit: *handler* raised it; its messages are given back.
    """
    check_function(handler, f"the handler of {member.group}")
    check_number("concurrency", concurrency, 1, whole=True)
    if batch_size is not None:
        check_number("batch_size", batch_size, 1, 1024, whole=True)
    threads = None if is_async(handler) else ThreadPoolExecutor(concurrency, thread_name_prefix="gantrymq-consumer")
    run = _HandlerRun(member, in_flight, _async_call(handler, threads), batch_size)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(run.work())
    except* _StopWorkers:
        pass  # raised below instead of as an ExceptionGroup
    finally:
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
    if run.exit is not None:
        raise run.exit
    if member.deliveries.refused is not None:
        raise member.deliveries.refused


class _StopWorkers(Exception):
    """Ends the workers; the reason is in `_HandlerRun.exit`."""


class _HandlerRun:
    """State of one call of `run_handler`, shared by its workers.

    Attributes:
        exit: KeyboardInterrupt or SystemExit, if the handler raised one.
    """

    def __init__(
        self, member: GroupMember, in_flight: InFlight, call: Callable[[Any], Awaitable[Any]], batch_size: int | None
    ) -> None:
        self._group = member.group
        self._deliveries = member.deliveries
        self._in_flight = in_flight
        self._call = call
        self._batch_size = batch_size
        self._name = f"the handler of {member.group}"
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancels = task, task.cancelling()
        self.exit: BaseException | None = None

    def _stopping(self) -> bool:
        """Return True if the run is being cancelled, and its workers with it.

        The worker's own task does not show this: a handler may cancel the task that it runs in.
        """
        return self._task.cancelling() > self._cancels

    async def work(self) -> None:
        """Run one worker until the delivery queue is closed."""
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await self._take_all(task)
                return
            except EXITS as error:
                self.exit = self.exit or error
                raise _StopWorkers from None
            except asyncio.CancelledError:
                if self._stopping():
                    raise
                task.uncancel()
                logger.warning("a handler of %s returned after it cancelled its own task; going on", self._group)

    async def _take_all(self, task: asyncio.Task[Any]) -> None:
        batch_size, call = self._batch_size, self._call
        holder = self._in_flight.new_holder(batch=batch_size is not None)
        try:
            while not self._stopping() and (delivery := await self._deliveries.take(batch_size or 1)) is not None:
                holder.accept(delivery)
                try:
                    consumed = await call(delivery.messages[0] if batch_size is None else list(delivery.messages))
                    if consumed is not None:
                        consumed = await await_result(consumed, self._name)
                except ReconsumeLater as later:
                    await holder.failed(later.delay_level, cause=later.__cause__)
                except BaseException as error:
                    if not self._is_failure(error, task):
                        raise
                    ids = ", ".join(message.message_id for message in delivery.messages[:3])
                    logger.exception("a handler of %s raised for %s", self._group, ids)
                    await holder.failed(0, error)
                else:
                    await _settle(holder, delivery.messages, consumed if batch_size is not None else None)
        finally:
            holder.close()

    def _is_failure(self, error: BaseException, task: asyncio.Task[Any]) -> bool:
        if isinstance(error, asyncio.CancelledError) and not self._stopping():
            if task.cancelling():
                task.uncancel()  # the handler cancelled the task that it runs in
            return True
        return is_failure(error, task)


async def _settle(holder: DeliveryHolder, messages: list[ReceivedMessage], consumed: Any) -> None:
    if isinstance(consumed, int) and not isinstance(consumed, bool) and consumed < len(messages):
        if consumed > 0:
            holder.done(consumed)
        await holder.failed(0)
    else:
        holder.done()


def _async_call(handler: Handler, threads: ThreadPoolExecutor | None) -> Callable[[Any], Awaitable[Any]]:
    if threads is None:
        return handler
    loop = asyncio.get_running_loop()
    return lambda messages: loop.run_in_executor(threads, copy_context().run, call_function, handler, messages)
