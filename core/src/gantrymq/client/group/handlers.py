"""Functions of the application that consume messages.

async def handle(message): ...     in the event loop
def handle(message): ...           in a thread
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from gantrymq.client.group.failing import ReconsumeLater
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.working import Holder, Working
from gantrymq.client.message import ReceivedMessage
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
            it returns; a batch handler that returns a number has consumed so many of them, from the first on. What it
            raises is logged, and the messages are delivered again.
        concurrency: calls at a time, 1 and more.
        batch_size: 1 to 1024; None for messages one by one.

    Raises:
        InvalidParameter: a number is out of bounds.
        NoPermission: the cluster does not let the consumer in.
    """
    if concurrency < 1:
        raise InvalidParameter(f"concurrency is {concurrency}; expected 1 and more")
    if batch_size is not None and not 1 <= batch_size <= 1024:
        raise InvalidParameter(f"batch_size is {batch_size}; expected 1 to 1024")
    threads = None if _is_async(handler) else ThreadPoolExecutor(concurrency, thread_name_prefix="gantrymq-consumer")
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(_work(member, working, _called(handler, threads), batch_size))
        if member.handing.refused is not None:
            raise member.handing.refused
    finally:
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)


async def _work(
    member: Membership, working: Working, call: Callable[[Any], Awaitable[Any]], batch_size: int | None
) -> None:
    holder = working.holder(batch=batch_size is not None)
    try:
        while (handed := await member.handing.take(batch_size or 1)) is not None:
            holder.took(handed)
            try:
                consumed = await call(handed.messages[0] if batch_size is None else list(handed.messages))
            except ReconsumeLater as later:
                await holder.failed(later.delay_level)
            except Exception as error:
                ids = ", ".join(message.message_id for message in handed.messages[:3])
                logger.exception("a handler of %s raised for %s", member.group, ids)
                await holder.failed(0, error)
            else:
                await _settle(holder, handed.messages, consumed if batch_size is not None else None)
    finally:
        holder.end()


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
    return lambda messages: loop.run_in_executor(threads, copy_context().run, handler, messages)


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
