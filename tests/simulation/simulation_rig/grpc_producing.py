"""A gRPC producer of every kind of message, which answers transaction checks; and a remoting producer beside it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import attrs
from grpc_broker import message_of

from gantrymq.client import Client
from gantrymq.client import Message as RemotingMessage
from gantrymq.errors import ClientError
from gantrymq.world import World
from gantrymq_grpc.definitions import (
    METHODS,
    ClientType,
    Code,
    MessageType,
    Publishing,
    Resource,
    Settings,
    Timestamp,
    TransactionResolution,
    TransactionSource,
)
from simulation_rig.grpc_sdk import ReconnectingSdk, Unanswered

TOPICS = {"normal": "N", "fifo": "F", "transaction": "X", "delay": "D"}
TRIES = 3
EARLY_MS = 1000  # how early a timer may fire within the second of its message
TRANSIENT = (Code.TOO_MANY_REQUESTS, Code.INTERNAL_SERVER_ERROR)
BODY_BYTES = (0, 10, 300, 20_000)


@attrs.define
class Sent:
    """One message."""

    kind: str
    body: bytes = attrs.field(repr=lambda body: repr(body[:40]))
    tries: int = 0
    ends: int = 0  # attempts to end its transaction
    stored: bool = False  # a try was answered with success
    commits: bool = True  # what the transaction ends with
    due_ms: int = 0  # not delivered earlier

    @property
    def copies(self) -> int:
        """The number of copies that may be stored: a transaction can end while it is checked."""
        return max(self.tries, self.ends)


class GrpcProducer:
    """The producer; `run` returns when everything is sent, and `checks` goes on answering."""

    def __init__(self, number: int, host: str, seed: int, sent: dict[bytes, Sent], sends: int, pause_s: float) -> None:
        """*sent* gets the messages; it is shared, because any producer of a topic may be asked for a transaction."""
        self.bugs: list[str] = []
        self._number, self._host = number, host
        self._sent, self._sends, self._pause_s = sent, sends, pause_s
        self._random = random.Random(f"{seed}/gRPC producer {number}")
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: dict[str, int] = {}  # offset of the last message of each message group
        self.done = asyncio.Event()

    async def run(self, world: World, _: str) -> None:
        """Send everything, and answer checks until `close`."""
        self._world = world
        topics = [Resource(name=each) for each in TOPICS.values()]
        settings = Settings(client_type=ClientType.PRODUCER, publishing=Publishing(topics=topics))
        self._sdk = sdk = ReconnectingSdk(world, self._host, f"P{self._number}", settings)
        connected = asyncio.ensure_future(sdk.stay_connected(self._check))
        try:
            for _ in range(self._sends):
                await self._send(self._random.choice(list(TOPICS)))
                await world.clock.sleep(self._random.uniform(0, self._pause_s))
            self.done.set()
            await self._closing.wait()
        finally:
            for each in (connected, *self._tasks):
                each.cancel()
            await asyncio.wait([connected, *self._tasks])
            self.bugs += sdk.bugs

    def close(self) -> None:
        """Answer no more checks."""
        self._closing.set()

    async def _send(self, kind: str) -> None:
        now_ms = self._world.clock.now_ms()
        filler = b"." * self._random.choice(BODY_BYTES)
        sent = Sent(kind, f"{kind}/{len(self._sent)}/".encode() + filler)
        self._sent[sent.body] = sent
        properties: dict[str, Any] = {}
        if kind == "fifo":
            properties["message_group"] = self._random.choice("abc") + str(self._number)
        elif kind == "delay":
            sent.due_ms = now_ms + self._random.randint(1000, 20_000)
            properties["delivery_timestamp"] = Timestamp(seconds=sent.due_ms // 1000, nanos=0)
            sent.due_ms = sent.due_ms // 1000 * 1000
        message = message_of(TOPICS[kind], sent.body, **properties)
        if kind == "transaction":
            message.system_properties.message_type = MessageType.TRANSACTION
            sent.commits = self._random.random() < 0.7
        entry = await self._stored(sent, METHODS["SendMessage"].request(messages=[message]))
        if entry is None:
            return
        sent.stored = True
        if kind == "fifo" and sent.tries == 1:
            group = properties["message_group"]
            if entry.offset <= self._last.get(group, -1):
                self.bugs.append(f"{sent} of group {group} is at {entry.offset}, one before it at {self._last[group]}")
            self._last[group] = entry.offset
        if kind == "transaction" and self._random.random() < 0.6:
            self._begin(self._end(sent, entry.message_id, entry.transaction_id, self._random.uniform(0, 4)))

    async def _stored(self, sent: Sent, request: Any) -> Any:
        """Try to send a message, and return its entry; None if no try was answered with success."""
        while sent.tries < TRIES:
            sent.tries += 1
            try:
                (answer,) = await self._sdk.ask("SendMessage", request)
            except Unanswered:
                await self._world.clock.sleep(self._random.uniform(0.01, 1.0))
                continue
            if answer.status.code == Code.OK:
                return answer.entries[0]
            if answer.status.code not in TRANSIENT:
                self.bugs.append(f"{sent} was answered with {answer.status}")
            await self._world.clock.sleep(self._random.uniform(0.01, 1.0))
        return None

    async def _end(
        self, sent: Sent, message_id: str, transaction_id: str, after_s: float, *, checked: bool = False
    ) -> None:
        await self._world.clock.sleep(after_s)
        resolution = TransactionResolution.COMMIT if sent.commits else TransactionResolution.ROLLBACK
        request = METHODS["EndTransaction"].request(
            topic=Resource(name=TOPICS["transaction"]),
            message_id=message_id,
            transaction_id=transaction_id,
            resolution=resolution,
            source=TransactionSource.SOURCE_SERVER_CHECK if checked else TransactionSource.SOURCE_CLIENT,
        )
        sent.ends += 1
        try:
            (answer,) = await self._sdk.ask("EndTransaction", request)
        except Unanswered:
            return
        if answer.status.code not in (Code.OK, *TRANSIENT):
            self.bugs.append(f"the end of {sent} was answered with {answer.status}")

    def _check(self, command: Any) -> None:
        if command.WhichOneof("command") != "recover_orphaned_transaction_command":
            return
        recover = command.recover_orphaned_transaction_command
        sent = self._sent.get(recover.message.body)
        if sent is None:
            self.bugs.append(f"producer {self._number} was asked for {recover.message.body[:40]!r}")
            return
        if self._random.random() < 0.8:
            message_id = recover.message.system_properties.message_id
            self._begin(self._end(sent, message_id, recover.transaction_id, 0.0, checked=True))

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class RemotingProducer:
    """Sends normal messages by remoting."""

    def __init__(self, seed: int, sent: dict[bytes, Sent], sends: int, pause_s: float) -> None:
        self.bugs: list[str] = []
        self.done = asyncio.Event()
        self._sent, self._sends, self._pause_s = sent, sends // 2, pause_s
        self._random = random.Random(f"{seed}/remoting producer")

    async def run(self, world: World, namesrv: str) -> None:
        """Send everything."""
        async with Client(namesrv, world=world) as client:
            producer = client.producer("PG", retries=0)
            for number in range(self._sends):
                sent = Sent("normal", f"normal/remoting/{number}".encode(), tries=1)
                self._sent[sent.body] = sent
                try:
                    await producer.send(RemotingMessage("N", sent.body), timeout_s=3.0)
                    sent.stored = True
                except ClientError:
                    pass
                await world.clock.sleep(self._random.uniform(0, self._pause_s))
        self.done.set()

    def close(self) -> None:
        """Nothing is left to do."""
