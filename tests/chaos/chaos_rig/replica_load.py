"""Senders and a consumer of our client, in a thread of their own, which note what they know in a `History`."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Self

from message_history import History, Place, body_of
from polling import wait_until

from chaos_rig.hosts import Host
from gantrymq.client import Client, ClientError, Message, PullStatus
from gantrymq.client.admin import HaStatus

SENDERS = 8
SEND_S = 5.0
PAUSE_S = 0.002
WORK_S = 60.0


class ReplicaLoad:
    """Works until `stop`. Each sender sends one message after the other; the consumer reads every queue.

    Attributes:
        history: what they know so far.
        problems: what senders were told, with examples.
    """

    def __init__(
        self, namesrv: str, topic: str, *, name: str = "", host: Host | None = None, history: History | None = None
    ) -> None:
        """*name*: begins each body; *host*: where to run; *history*: another load's, to note in it as well."""
        self.history = history or History()
        self._namesrv, self._topic, self._name, self._host = namesrv, topic, name, host
        self.problems: dict[str, str] = {}
        self._running = True
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged messages."""
        return len(self.history.acknowledged)

    def wait_for_more(self, count: int) -> None:
        """Wait until *count* more messages are acknowledged."""
        wanted = self.acknowledged + count
        wait_until(lambda: self._failure or self.acknowledged >= wanted, f"{count} acknowledged messages", WORK_S)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Stop after the sends in progress."""
        self._running = False
        self._thread.join(WORK_S)
        assert not self._thread.is_alive(), "the load waits for an answer"
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        self._thread.join(WORK_S)

    def _run(self) -> None:
        try:
            if self._host is not None:
                self._host.enter()
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error

    async def _work(self) -> None:
        async with Client(self._namesrv) as client:
            consumer = asyncio.create_task(self._consume(client))
            await asyncio.gather(*(self._send(client, number) for number in range(SENDERS)))
            await consumer

    async def _send(self, client: Client, number: int) -> None:
        producer, history, index = client.producer("replica-load"), self.history, 0
        while self._running:
            index += 1
            body = f"{self._name}{number}-{index}"
            begun = time.monotonic()
            try:
                result = await producer.send(
                    Message(self._topic, body.encode() + b"." * (index * 37 % 2000)), timeout_s=SEND_S
                )
            except ClientError as problem:
                history.unsure += 1
                self.problems[type(problem).__name__] = str(problem)
            else:
                if not result.ok:
                    self.problems[result.status.name] = str(result)
                history.take(body, result, begun, time.monotonic())
            await asyncio.sleep(PAUSE_S)  # real time: a steady rate

    async def _consume(self, client: Client) -> None:
        reader, offsets = client.reader(), {}
        while self._running:
            await asyncio.sleep(PAUSE_S)  # real time: a steady rate
            try:
                for queue in await reader.queues(self._topic):
                    found = await reader.pull(queue, offsets.get(queue, 0))
                    if found.status is PullStatus.FOUND:
                        for each in found.messages:
                            self.history.saw(
                                Place(queue.broker_name, queue.queue_id, each.queue_offset), body_of(each.body)
                            )
                        offsets[queue] = found.next_offset
            except ClientError:
                continue


def told_lag(namesrv: str, broker: str) -> HaStatus:
    """Return what the master *broker* tells of its slaves."""

    async def ask() -> HaStatus:
        async with Client(namesrv) as client, client.admin as admin:
            return await admin.ha_status(broker)

    return asyncio.run(ask())
