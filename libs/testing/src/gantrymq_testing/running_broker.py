"""A name server and a broker in this process, on an event loop in its own thread.

Plain tests call the synchronous methods; asynchronous ones use ``producer()`` and ``consumer()`` on their own loop, or
pass coroutines to ``run``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gantrymq.client import Client, Credentials, Producer, Reader, SendResult
from gantrymq.client.message import ReceivedMessage
from gantrymq.config import Settings, Value
from gantrymq.interfaces import Broker, MessageStore, PutResult, RecoveryReport
from gantrymq.model.subscription import ALL, TAG
from gantrymq.world.real import real_world
from gantrymq_testing.accounts import Users
from gantrymq_testing.cluster import WAIT_S, Cluster, GivenPlugin

T = TypeVar("T")

TIMEOUT_S = 60.0


class RunningBroker:
    """The value of the fixture ``gantrymq_broker``; as a context manager it starts and stops."""

    def __init__(
        self,
        root: Path,
        settings: Mapping[str, Value] | None = None,
        plugins: Iterable[GivenPlugin] = (),
        users: Users | None = None,
    ) -> None:
        """Prepare a `Cluster` in the real world. Raises ConfigError and PluginError as `Cluster` does."""
        self.cluster = Cluster(real_world(), root, settings, plugins, users)
        self.start_ms = 0.0  # time from `start` until requests were accepted
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def namesrv(self) -> str:
        """``host:port`` of the name server."""
        return self.cluster.namesrv

    @property
    def broker_address(self) -> str:
        """``host:port`` of the broker."""
        return self.cluster.broker_address

    def credentials(self, user: str) -> Credentials:
        """Return the account of one of the users. Raises KeyError if there is no such user."""
        return self.cluster.credentials(user)

    @property
    def settings(self) -> Settings:
        """The broker's settings in force."""
        return self.cluster.settings

    @property
    def store(self) -> MessageStore:
        """The broker's store. It belongs to the loop's thread: call its methods with `call`."""
        return self.cluster.store

    @property
    def broker(self) -> Broker:
        """The `interfaces.Broker`. It belongs to the loop's thread: use `call` and `run`."""
        return self.cluster.broker

    def start(self) -> RecoveryReport:
        """Start thread, name server and broker. Raises StoreError if the store cannot be used."""
        begun = time.perf_counter()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="gantrymq-testing", daemon=True)
            self._thread.start()
        try:
            report = self.run(self.cluster.start())
        except BaseException:
            self.stop()
            raise
        self.start_ms = (time.perf_counter() - begun) * 1000
        return report

    def stop(self) -> None:
        """Stop everything in order and end the thread. Idempotent."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            self.run(self._wind_up())
        finally:
            self._loop = self._thread = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop and return (or raise) its result.

        Raises:
            TimeoutError: it took longer than TIMEOUT_S seconds; it is cancelled.
            RuntimeError: the broker does not run, or the caller is on its loop.
        """
        loop = self._running_loop(work.close)
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result(TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            raise

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a plain function on the broker's thread, which owns all of its state."""

        async def body() -> T:
            return function(*args)

        return self.run(body())

    def restart(self, *, new_ports: bool = False) -> RecoveryReport:
        """Stop cleanly and start again on the same folder, at the same addresses, so that clients reconnect.

        Messages are lost, unless the store is a durable one: ``settings={"store": "mmap"}``. *new_ports*: see
        `Cluster.restart`.
        """
        return self.run(self.cluster.restart(new_ports=new_ports))

    @asynccontextmanager
    async def producer(self, group: str = "testing_producer", **options: Any) -> AsyncIterator[Producer]:
        """Provide a producer in the caller's own loop, with a client of its own; *options* as for `Client.producer`."""
        async with Client(self.namesrv, credentials=self.cluster.own_credentials) as client:
            yield client.producer(group, **options)

    @asynccontextmanager
    async def consumer(self, group: str = "testing_consumer", **options: Any) -> AsyncIterator[Reader]:
        """Provide a reader in the caller's own loop, with a client of its own; *options* as for `Client.reader`."""
        async with Client(self.namesrv, credentials=self.cluster.own_credentials) as client:
            yield client.reader(group=group, **options)

    def create_topic(self, name: str, queues: int = 4) -> None:
        """Create a topic and wait until clients find its route."""
        self.run(self.cluster.create_topic(name, queues))

    def send(self, topic: str, body: bytes, **more: Any) -> SendResult:
        """Send one message as a client does; *more* is passed to `Message` (tags, keys, properties)."""
        return self.run(self.cluster.send(topic, body, **more))

    def put(
        self, topic: str, body: bytes, *, queue_id: int = 0, tags: str = "", properties: Mapping[str, str] | None = None
    ) -> PutResult:
        """Store one message as plugins do; see `Cluster.put`."""
        return self.run(self.cluster.put(topic, body, queue_id=queue_id, tags=tags, properties=properties))

    def pull(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> list[ReceivedMessage]:
        """Return every message of *topic* that matches *expression*, queue by queue."""
        return self.run(self.cluster.pull(topic, expression, expression_type))

    def wait_for(
        self, topic: str, count: int = 1, timeout_s: float = WAIT_S, expression: str = ALL, expression_type: str = TAG
    ) -> list[ReceivedMessage]:
        """Return the messages of *topic* as soon as there are *count*, at most 60 s; see `Cluster.wait_for`.

        Raises:
            TimeoutError: there are fewer after *timeout_s* seconds; the text has their bodies.
        """
        return self.run(self.cluster.wait_for(topic, count, timeout_s, expression, expression_type))

    def _running_loop(self, give_up: Callable[[], object]) -> asyncio.AbstractEventLoop:
        if self._loop is None or threading.current_thread() is self._thread:
            give_up()
            where = "does not run" if self._loop is None else "would wait for itself: await the coroutine instead"
            raise RuntimeError(f"the broker {where}")
        return self._loop

    async def _wind_up(self) -> None:
        try:
            await self.cluster.stop()
        finally:
            await self.cluster.world.workers.close()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            loop = asyncio.get_running_loop()
            await loop.shutdown_asyncgens()
            await loop.shutdown_default_executor()  # threads that resolve names
