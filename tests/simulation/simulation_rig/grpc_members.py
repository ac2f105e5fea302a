"""Members of groups: push and simple consumers of gRPC, and pop consumers of remoting, each in its own process."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any

from grpc_broker import consumer_settings, receive_request

from gantrymq.client import Client, PopConsumer, ReceivedMessage
from gantrymq.client.pop.receipts import receipt_of
from gantrymq.errors import ClientError
from gantrymq.model.properties import POP_CK
from gantrymq.model.receipt import read_receipt
from gantrymq.world import World
from gantrymq_grpc.definitions import (
    METHODS,
    ClientType,
    Code,
    Message,
    NotifyClientTerminationRequest,
    Resource,
)
from gantrymq_testing.simulated import SimulatedLoop, SimulatedProcess
from simulation_rig.grpc_deliveries import Deliveries, Hold
from simulation_rig.grpc_sdk import AGAIN_S, CALL_S, ReconnectingSdk, Unanswered

FIRST_NUMBER = 500  # process ids of members
POLLING_S = (5, 20)
INVISIBLE_S = (10, 20, 40)
WORK_S = ((0.6, 0.0, 0.0), (0.95, 0.0, 3.0), (1.0, 50.0, 140.0))  # share of messages up to here; how long they take
SIMPLE_TRIES = 3
TRANSIENT = (Code.TOO_MANY_REQUESTS, Code.INTERNAL_SERVER_ERROR)
EMPTY = (Code.OK, Code.MESSAGE_NOT_FOUND)


class GroupPlan:
    """What one group does with each message."""

    def __init__(self, name: str, topic: str, seed: int, host: str, *, ordered: bool, failing: float) -> None:
        self.name, self.topic, self.host = name, topic, host
        self.ordered = ordered
        self.seed = seed
        self._failing = failing

    def work_s(self, body: bytes) -> float:
        """How long a message takes."""
        seeded = self._of(body, "work")
        chance = seeded.random()
        return next(seeded.uniform(least, most) for share, least, most in WORK_S if chance < share)

    def failures(self, body: bytes) -> int:
        """How often a message fails: above the group's attempts it is a dead letter."""
        seeded = self._of(body, "failures")
        return seeded.choice((1, 2, 9)) if seeded.random() < self._failing else 0

    def _of(self, body: bytes, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{self.name}/{what}/{body!r}")


class Member:
    """A process that receives until `leave` or `kill`."""

    def __init__(
        self, world: World, number: int, plan: GroupPlan, deliveries: Deliveries, seeded: random.Random
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.name = f"{plan.name}-{number}"
        self.process = SimulatedProcess(
            world, loop, f"10.0.{3 + number // 250}.{number % 250 + 1}", FIRST_NUMBER + number
        )
        self._world = self.process.world
        self._plan = plan
        self._deliveries = deliveries
        self._random = seeded
        self._leaving = asyncio.Event()
        self._handlers: set[asyncio.Task[None]] = set()
        self.task = self.process.run(self._run())

    @property
    def heard_s(self) -> float:
        """When the broker has heard it last."""
        return self._world.clock.monotonic()

    @property
    def lost_s(self) -> float:
        """When its connection was lost last."""
        return -1e9

    @property
    def bugs(self) -> list[str]:
        """Answers that no client should get."""
        return []

    async def leave(self) -> None:
        """End in order."""
        self._leaving.set()
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.result()

    def kill(self) -> None:
        """As SIGKILL."""
        self.process.kill()
        self._deliveries.gone(self)

    async def _run(self) -> None:
        raise NotImplementedError

    def _start_handler(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)

    async def _cancel(self, tasks: list[asyncio.Future[Any]]) -> None:
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for each in tasks:
            if not each.cancelled():
                each.result()


class GrpcMember(Member):
    """A push or simple consumer of gRPC."""

    renewed = True
    kind = ClientType.PUSH_CONSUMER

    async def _run(self) -> None:
        plan = self._plan
        settings = consumer_settings(plan.name, plan.topic, kind=self.kind)
        self._sdk = sdk = ReconnectingSdk(self._world, plan.host, self.name, settings, plan.name)
        connected = asyncio.ensure_future(sdk.stay_connected())
        receivers = [asyncio.ensure_future(self._receive()) for _ in range(self._random.choice((1, 2)))]
        await asyncio.wait([asyncio.ensure_future(self._leaving.wait()), *receivers], return_when="FIRST_COMPLETED")
        await self._cancel([*receivers, *self._handlers])
        self._deliveries.gone(self)
        with suppress(Unanswered):
            request = NotifyClientTerminationRequest(group=Resource(name=plan.name))
            (answer,) = await sdk.ask("NotifyClientTermination", request)
            if answer.status.code == Code.OK:
                self._deliveries.said(self)
        await self._cancel([connected])

    @property
    def heard_s(self) -> float:
        """When a heartbeat was answered last."""
        return self._sdk.heard_s

    @property
    def lost_s(self) -> float:
        """When the connection was lost last."""
        client = self._sdk.client
        is_lost = client is not None and client.lost
        return self._world.clock.monotonic() if is_lost else self._sdk.lost_s

    @property
    def bugs(self) -> list[str]:
        """Answers that no client should get."""
        return self._sdk.bugs if hasattr(self, "_sdk") else []

    async def _receive(self) -> None:
        while True:
            polling, invisible = self._random.choice(POLLING_S), self._random.choice(INVISIBLE_S)
            request = receive_request(
                self._plan.name,
                self._plan.topic,
                batch=self._random.choice((1, 4, 32)),
                polling=polling,
                invisible=None if self.renewed else invisible,
                auto_renew=self.renewed,
            )
            if self._plan.ordered:
                request.attempt_id = f"{self._random.getrandbits(64):x}"
            asked_ms = self._world.clock.now_ms()
            reset_s = self._random.uniform(0.01, 8) if self._random.random() < 0.05 else None
            if self._random.random() < 0.05 and self._sdk.is_usable:
                self._start_handler(self._read_slowly())
            try:
                first, *others = await self._sdk.ask("ReceiveMessage", request, polling + CALL_S, reset_s)
            except Unanswered:
                await self._world.clock.sleep(self._random.uniform(0.02, AGAIN_S))
                continue
            if first.status.code not in EMPTY:
                self._judge("a receive", first.status)
                await self._world.clock.sleep(AGAIN_S)
            await self._take([each.message for each in others if each.HasField("message")], asked_ms)

    async def _take(self, messages: list[Message], asked_ms: int) -> None:
        taken = []
        for each in messages:
            receipt = read_receipt(each.system_properties.receipt_handle)
            taken.append(self._deliveries.took(self, each.body, receipt, renewed=self.renewed, asked_ms=asked_ms))
        for each, hold in zip(messages, taken, strict=True):
            if self._plan.ordered:
                await self._process(each, hold)
            else:
                self._start_handler(self._process(each, hold))

    async def _read_slowly(self) -> None:
        transport = self._sdk.client.transport
        transport.pause_reading()
        await self._world.clock.sleep(self._random.uniform(0.1, 4))
        transport.resume_reading()

    async def _process(self, message: Message, hold: Hold) -> None:
        body, system = message.body, message.system_properties
        await self._world.clock.sleep(self._plan.work_s(body) if self._deliveries.counts[body] < 3 else 0.0)
        if self._plan.ordered:
            self._deliveries.process((self._plan.topic, system.queue_id), system.queue_offset)
        fails = system.delivery_attempt <= self._plan.failures(body)
        if not fails or self._plan.ordered:
            dead = fails and self._plan.ordered
            await self._settle("ForwardMessageToDeadLetterQueue" if dead else "AckMessage", message, hold)
            return
        hold.is_over = True
        request = self._named("ChangeInvisibleDuration", message)
        request.invisible_duration.seconds = self._random.randint(0, 5)
        for _ in range(SIMPLE_TRIES):
            try:
                (answer,) = await self._sdk.ask("ChangeInvisibleDuration", request)
            except Unanswered:
                await self._world.clock.sleep(AGAIN_S)
                continue
            if answer.status.code in (Code.OK, Code.INVALID_RECEIPT_HANDLE):
                break
            self._judge("a change", answer.status)
        self._deliveries.changed(hold)

    def _named(self, method: str, message: Message) -> Any:
        request = METHODS[method].request(group=Resource(name=self._plan.name), topic=Resource(name=self._plan.topic))
        named = request.entries.add() if method == "AckMessage" else request
        named.message_id = message.system_properties.message_id
        named.receipt_handle = message.system_properties.receipt_handle
        return request

    async def _settle(self, method: str, message: Message, hold: Hold) -> None:
        """Acknowledge a message, or forward it; push consumers repeat this until it is answered."""
        request, tries = self._named(method, message), 0
        while self.renewed or tries < SIMPLE_TRIES:
            tries += 1
            self._deliveries.unanswered.add(hold.body)  # also if the member is killed now
            try:
                (answer,) = await self._sdk.ask(method, request)
            except Unanswered:
                await self._world.clock.sleep(AGAIN_S)
                continue
            if answer.status.code == Code.OK:
                self._deliveries.acked(hold)
                return
            if answer.status.code == Code.INVALID_RECEIPT_HANDLE:
                self._deliveries.refused(hold, answer.status, first=tries == 1)
                return
            self._judge(method, answer.status)
            await self._world.clock.sleep(AGAIN_S)

    def _judge(self, what: str, status: Any) -> None:
        """Refusals of a broker on its way up or down are expected, others are bugs."""
        if status.code not in TRANSIENT:
            self._sdk.bugs.append(f"{self.name}: {what} was answered with {status}")


class SimpleMember(GrpcMember):
    """A simple consumer of gRPC."""

    renewed = False
    kind = ClientType.SIMPLE_CONSUMER


class RemotingMember(Member):
    """A pop consumer of remoting."""

    namesrv = "10.0.0.1:9876"

    async def _run(self) -> None:
        plan = self._plan
        async with Client(self.namesrv, world=self._world) as client:
            consumer = client.pop_consumer(plan.name, plan.topic, auto_ack=False)
            receiver = asyncio.ensure_future(self._receive(consumer))
            await asyncio.wait([asyncio.ensure_future(self._leaving.wait()), receiver], return_when="FIRST_COMPLETED")
            await self._cancel([receiver, *self._handlers])
        self._deliveries.gone(self)

    async def _receive(self, consumer: PopConsumer) -> None:
        while True:
            asked_ms, invisible_s = self._world.clock.now_ms(), self._random.choice(INVISIBLE_S)
            try:
                messages = await consumer.pop(self._random.choice((1, 4, 32)), invisible_s=invisible_s)
            except ClientError:
                await self._world.clock.sleep(AGAIN_S)
                continue
            for each in messages:
                receipt = receipt_of(each)
                hold = self._deliveries.took(self, bytes(each.body), receipt, renewed=False, asked_ms=asked_ms)
                self._start_handler(self._process(consumer, each, hold))

    async def _process(self, consumer: PopConsumer, message: ReceivedMessage, hold: Hold) -> None:
        assert POP_CK in message.properties
        body = bytes(message.body)
        await self._world.clock.sleep(self._plan.work_s(body) if self._deliveries.counts[body] < 3 else 0.0)
        try:
            if message.reconsume_times < self._plan.failures(body):
                hold.is_over = True
                await consumer.nack(message, 1.0)
                return
            self._deliveries.unanswered.add(body)  # also if the member is killed now
            await consumer.ack(message)
        except ClientError:
            return
        if self._world.clock.now_ms() < hold.receipt.due_ms:  # the broker answers late ones with success too
            self._deliveries.acked(hold)
