"""Plain handlers run in threads, in the context of the task that called them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from threading import current_thread, main_thread

from gantrymq.client.group.handlers import _async_call

current = ContextVar("current", default="none")


def test_a_thread_sees_what_its_caller_set():
    def handle(message):
        assert current_thread() is not main_thread()
        return message, current.get()

    async def work():
        with ThreadPoolExecutor(1) as threads:
            call = _async_call(handle, threads)
            current.set("first")
            found = [await call(1)]
            current.set("second")
            return [*found, await call(2)]

    assert asyncio.run(work()) == [(1, "first"), (2, "second")]
