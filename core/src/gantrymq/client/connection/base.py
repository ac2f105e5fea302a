"""Common base of a `Client` and its parts, the producers and consumers that it creates: users of a client instance.

Client   `start` acquires the instance, `close` closes the parts and releases it
Part     joins the instance of the client when it is created, `close` leaves it
"""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any, Final, Self

from gantrymq.client.argument_types import check_seconds
from gantrymq.client.calls.rpc import CALL_TIMEOUT_S, within
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.errors import client_errors
from gantrymq.client.routing.nameservers import parse_namesrv
from gantrymq.errors import CallTimeout, ClientError
from gantrymq.model.names import DEFAULT_TOPIC
from gantrymq.world import Clock

READY_TIMEOUT_S: Final = 10.0
READY_AGAIN_S: Final = 0.5


class BaseClient:
    """Uses a client instance until it is closed."""

    def __init__(self) -> None:
        self._instance: ClientInstance | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop it was started in
        self._closing = False  # while `close` waits for pending work
        self._ending: asyncio.Task[None] | None = None
        self._closers = set[asyncio.Task[Any] | None]()  # tasks that called `close`

    @property
    def is_started(self) -> bool:
        """Whether the client is started and not closed."""
        return self._instance is not None

    @property
    def _usable(self) -> bool:
        """Whether the client is started and not being closed."""
        return self.is_started and not self._closing

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers in use. Raises ClientError if the client is not started."""
        return self._started().servers.addresses

    def set_name_servers(self, namesrv: str) -> None:
        """Use other name servers from now on, such as when a cluster moves.

        Clients that share the connections, such as those of one `Client`, switch as well. Known brokers and queues
        remain in use until the next refresh, within 30 s.

        Args:
            namesrv: ``host:port;host:port``.

        Raises:
            OptionUnusable: a name server's address is not host:port, or there is none.
            ClientError: the client is not started.
        """
        with client_errors():
            addresses = parse_namesrv(namesrv, "the name server address")
        self._started().set_name_servers(addresses)

    async def wait_ready(self, topic: str | None = None, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until a name server answers and, with *topic*, knows its brokers.

        `start` does not require either.

        Raises:
            CallTimeout: not ready after *timeout_s* seconds; the message names the last problem.
        """
        check_seconds(timeout_s)
        instance = self._started()
        clock = instance.world.clock
        begun = clock.monotonic()
        while True:
            try:
                await instance.routes.fetch_route(topic or DEFAULT_TOPIC, required=topic is not None)
                return
            except ClientError as problem:
                left_s = begun + timeout_s - clock.monotonic()
                if left_s <= 0:
                    raise CallTimeout(f"not ready after {timeout_s:g} s: {problem}") from problem
            await clock.sleep(min(left_s, READY_AGAIN_S))

    async def close(self, timeout_s: float | None = None) -> None:
        """Finish pending work, unregister from the brokers and close unshared connections; may be called repeatedly.

        If `close` is cancelled, pending work is abandoned and the rest is done in the background.

        Args:
            timeout_s: limit in seconds; pending work and brokers that have not answered by then are abandoned. None
                waits for pending work without a limit, then at most 3 s for the brokers.

        Raises:
            ClientError: the client was started in another event loop.
        """
        if timeout_s is not None:
            check_seconds(timeout_s)
        if self._instance is None:
            if (ending := self._in_this_loop(self._ending)) is not None:
                await asyncio.shield(ending)
            return
        clock = self._started().world.clock
        self._closing = True
        self.closed_by(asyncio.current_task())
        deadline = math.inf if timeout_s is None else clock.monotonic() + timeout_s
        try:
            await self._finish_within(clock, deadline - clock.monotonic())
        except BaseException:
            self._leave(deadline)
            raise
        await asyncio.shield(self._leave(deadline))

    def _leave(self, deadline: float) -> asyncio.Task[None]:
        """Give up the instance. The returned task unregisters from the brokers and continues if the closing task is
        cancelled.
        """
        instance, self._instance = self._instance, None
        self._closing = False
        self._closers.clear()
        if instance is not None:
            self._ending = asyncio.get_running_loop().create_task(self._unregister_and_release(instance, deadline))
        assert self._ending is not None
        return self._ending

    async def _unregister_and_release(self, instance: ClientInstance, deadline: float) -> None:
        clock = instance.world.clock
        deadline = min(deadline, clock.monotonic() + CALL_TIMEOUT_S)
        await within(clock, deadline - clock.monotonic(), self._unregister(instance))
        await instance.release(max(0.0, deadline - clock.monotonic()))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def closed_by(self, task: asyncio.Task[Any] | None) -> None:
        """Note that `close` is called by *task*; close does not wait for that task's own work."""
        self._closers.add(task)

    async def _finish_within(self, clock: Clock, seconds: float) -> None:
        """Run `_finish` for at most *seconds*; ``math.inf`` for no limit."""
        await within(clock, seconds, self._finish())

    async def _finish(self) -> None:
        """Wait for pending work."""

    async def _unregister(self, instance: ClientInstance) -> None:
        """Unregister the client's group from the brokers."""

    def _check_not_closing(self) -> None:
        """Raise ClientError if `close` was called and still waits for pending work."""
        if self._closing:
            raise ClientError(f"this {type(self).__name__} is being closed")

    @staticmethod
    def _in_this_loop(task: asyncio.Task[None] | None) -> asyncio.Task[None] | None:
        """Return *task* if it is running in the current event loop, else None."""
        under_way = task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop()
        return task if under_way else None

    def _started(self) -> ClientInstance:
        """Return the instance. Raises ClientError if the client is not started in this loop."""
        if self._instance is None:
            raise self._unusable_error()
        if asyncio.get_running_loop() is not self._loop:
            name = type(self).__name__
            raise ClientError(
                f"this {name} was started in another event loop; each asyncio.run() has its own: start, use and close "
                f"a {name} within one of them"
            )
        return self._instance

    def _unusable_error(self) -> ClientError:
        """Return the error of a call before the start or after `close`."""
        raise NotImplementedError


class Part(BaseClient):
    """A producer, consumer, reader or administration of a `Client`, which creates and starts it."""

    def join(self, instance: ClientInstance) -> None:
        """Use *instance* until closed. Raises ClientError if the group is already in use there."""
        self._register(instance)
        instance.users += 1
        self._instance, self._loop = instance, asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        self._started()
        self._check_not_closing()
        return self

    def _register(self, instance: ClientInstance) -> None:
        """Register the group with *instance*. Raises ClientError if it is already in use there."""

    def _unusable_error(self) -> ClientError:
        name = type(self).__name__
        return ClientError(f"this {name} is closed; a Client creates a new one")
