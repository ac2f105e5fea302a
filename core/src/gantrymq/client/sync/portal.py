"""An event loop in its own thread, and calls of other threads that wait for it.

Any thread may call, except two that would wait for themselves: the thread of the loop, in which the client calls
functions of the application (selectors, `on_rebalance`), and a thread that runs another event loop. Threads do not
survive a fork, so a forked process has no loop. The portal does not work if gevent or eventlet has replaced threads by
greenlets, which share one thread with the event loop, or if gevent has replaced selectors, which then wait for a hub
that does not run in the thread of the loop.

Sources: gevent/gevent src/gevent/monkey/api.py (patch_all), eventlet/eventlet eventlet/patcher.py (monkey_patch).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Final, TypeVar

from gantrymq.client.user_functions import EXITS
from gantrymq.errors import ClientError

T = TypeVar("T")

_WAIT_SLICE_S: Final = 0.2  # waits on Windows cannot be interrupted, so they are split


class Portal:
    """The thread of an event loop; started by the constructor, ended by `stop`."""

    def __init__(self) -> None:
        """Start the thread. Raises ClientError: threads are replaced by greenlets in this process."""
        _check_threads()
        self._process_id = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._started_event = threading.Event()
        self._local = threading.local()
        self._callbacks: deque[Callable[[], object]] = deque()  # to be called in the loop
        self._woken = False  # the loop is scheduled to run them
        self._futures: set[Future[Any]] = set()
        self._ended = False
        self._settled_with: BaseException | None = None  # the last KeyboardInterrupt or SystemExit that a caller got
        self._unraised: BaseException | None = None  # one of these while no thread waited; the next call raises it
        self._thread = threading.Thread(target=self._main, name="gantrymq-client", daemon=True)
        try:
            self._thread.start()
            self._started_event.wait()
        except BaseException:  # a signal handler raised
            self.call_soon(self._stopping.set)
            raise

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run *work* in the loop and wait for its result; if the wait is interrupted, the work is cancelled.

        Raises:
            ClientError: the calling thread must not wait, or the loop has stopped.
            errors of *work*.
        """
        future: Future[T] | None = None
        try:
            future = self.submit(work)
            return wait_result(future)
        except BaseException:
            if future is not None:
                future.cancel()
            raise

    def submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Start *work* in the loop, in the context (contextvars) of the calling thread.

        Cancelling the future cancels the work.

        Raises:
            ClientError: as `call`.
        """
        self.check_caller()
        future: Future[T] = Future()
        context = copy_context()

        def start() -> None:
            if future.cancelled():
                return
            if self._unraised is not None:
                unraised, self._unraised = self._unraised, None
                if future.set_running_or_notify_cancel():
                    future.set_exception(unraised)
                return
            try:
                task = self._loop.create_task(work(), context=context)
            except Exception as error:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
                return
            task.add_done_callback(lambda done: self._settle(done, future))
            future.add_done_callback(lambda done: self.call_soon(task.cancel) if done.cancelled() else None)

        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        try:
            self.call_soon(start)
            if self._ended:  # the loop ended before it could start the work
                future.cancel()
            return future
        except BaseException:  # a signal handler raised, for example KeyboardInterrupt
            future.cancel()
            raise

    def call_sync(self, step: Callable[[], T]) -> T:
        """As `call`, for a function that does not wait."""

        async def work() -> T:
            return step()

        return self.call(work)

    def call_soon(self, step: Callable[[], object]) -> None:
        """Call *step* in the loop without waiting for it; does nothing if the loop has stopped.

        Steps added before the loop runs share one wake-up, which is a write to a socket.
        """
        if self.is_of_another_process:
            return
        self._callbacks.append(step)
        if self._woken:
            return
        try:
            self._woken = True
            self._wake()
        except BaseException:  # a signal handler raised, perhaps before the wake-up, on which other threads rely too
            self._woken = False
            self._wake()
            raise

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._run_callbacks)
        except RuntimeError:  # the loop is closed
            return

    def check_caller(self) -> None:
        """Check that the calling thread may wait for the loop.

        Raises:
            ClientError: it must not; the message says why.
        """
        if self.is_of_another_process:
            raise ClientError(
                f"this client was started in process {self._process_id}, and threads do not survive a fork: create a "
                "Client in each process, after the fork"
            )
        _check_threads()
        if asyncio._get_running_loop() is not None:
            raise ClientError(
                "this client is for threads and would block the event loop of this thread: use gantrymq.client.Client "
                "instead, or asyncio.to_thread()"
            )
        if not self.is_alive:
            raise _closed()

    @property
    def current_task(self) -> asyncio.Task[Any] | None:
        """The task for which this thread runs a function of the application, if any."""
        return getattr(self._local, "task", None)

    def run_for_task(self, task: asyncio.Task[Any] | None, step: Callable[[], T]) -> T:
        """Run *step* in this thread, for *task*."""
        self._local.task = task
        try:
            return step()
        finally:
            self._local.task = None

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, in this process."""
        return not self.is_of_another_process and not self._ended and self._thread.is_alive()

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process was forked from the one with the thread."""
        return self._process_id != os.getpid()

    def stop_after(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run *work*, then end the thread, without waiting for it."""

        async def last() -> None:
            try:
                await work()
            finally:
                self._stopping.set()

        def start() -> None:
            self._last = asyncio.ensure_future(last())

        self.call_soon(start)

    def stop(self) -> None:
        """Cancel work in progress and end the thread. May be called repeatedly."""
        if self.is_of_another_process:
            return
        self.call_soon(self._stopping.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop):
            main = self._loop.create_task(self._until_stopped())
            while not main.done():
                try:
                    self._loop.run_until_complete(main)
                except EXITS as error:  # raised by a function of the application
                    self._loop.call_soon(self._hand_over, error)
        self._ended = True
        for future in list(self._futures):  # submitted too late for the loop
            future.cancel()

    def _hand_over(self, error: BaseException) -> None:
        """Raise *error* in the threads that wait, unless one of them has received it as the error of its own call.

        If no thread waits, the next call raises it: the task that ended with it may be the one that the call waits for.
        """
        settled_with, self._settled_with = self._settled_with, None
        if settled_with is error:
            return
        self._unraised = error
        for future in list(self._futures):
            if future.set_running_or_notify_cancel():
                self._unraised = None
                future.set_exception(error)

    def forget_error(self) -> None:
        """Let the next call raise nothing of what functions of the application raised before."""
        self._unraised = None

    def _settle(self, task: asyncio.Task[T], future: Future[T]) -> None:
        """Pass the outcome of *task* to *future*."""
        if task.cancelled():
            future.cancel()
            return
        error = task.exception()
        if not future.done() and future.set_running_or_notify_cancel():
            if error is None:
                future.set_result(task.result())
            else:
                self._settled_with = error if isinstance(error, EXITS) else None
                future.set_exception(error)

    def _run_callbacks(self) -> None:
        self._woken = False
        for _ in range(len(self._callbacks)):
            self._callbacks.popleft()()

    async def _until_stopped(self) -> None:
        self._started_event.set()
        await self._stopping.wait()


def wait_result(future: Future[T]) -> T:
    """Return the result of *future* once it has one; Ctrl-C ends the wait on every system."""
    try:
        if sys.platform == "win32":
            while not concurrent.futures.wait((future,), _WAIT_SLICE_S).done:
                pass
        return future.result()
    except concurrent.futures.CancelledError:
        raise ClientError("the client was closed while a call was under way") from None


def _check_threads() -> None:
    """Raises ClientError: gevent or eventlet has replaced threads or selectors."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and (gevent.is_module_patched("threading") or gevent.is_module_patched("select")):
        raise _greenlet_error("gevent", "gevent.monkey.patch_all(thread=False, select=False)")
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        raise _greenlet_error("eventlet", "eventlet.monkey_patch(thread=False)")


def _greenlet_error(library: str, instead: str) -> ClientError:
    return ClientError(
        f"{library} has replaced threads or selectors in this process, and this client needs real ones: run it in "
        "workers that are threads or processes (gunicorn: --worker-class gthread; Celery: --pool threads or prefork), "
        f"or patch with {instead}"
    )


def _closed() -> ClientError:
    return ClientError("this client is not started; use 'with Client(...)' or start()")
