"""A gRPC client that does what RocketMQ's SDKs do on their own: it connects again, and keeps its settings known.

    settings   first on each new telemetry stream; a stream that ends is opened again after a second
    heartbeat  every 10 s
    calls      with a deadline; a call without an answer in time is reset

Source: apache/rocketmq-clients java/.../impl/ClientImpl.java, ClientSessionImpl.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from grpc_broker import Sdk
from grpc_served import Client
from h2.exceptions import ProtocolError

from gantrymq.errors import GantryError
from gantrymq.world import World
from gantrymq_grpc.definitions import Code, HeartbeatRequest, Resource, Settings, TelemetryCommand

CALL_S = 3.0
HEARTBEAT_S = 10.0
AGAIN_S = 1.0  # from the end of a stream to the next one
OK, CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE = 0, 1, 4, 14
LOST = (OSError, TimeoutError, ProtocolError, GantryError)


class Unanswered(Exception):
    """A call has no complete answer."""


class ReconnectingSdk(Sdk):
    """One client.

    Attributes:
        bugs: answers that no client should get, as sentences.
        heard_s: when a heartbeat or the settings were answered last, monotonic.
        lost_s: when the connection was lost last.
    """

    def __init__(self, world: World, host: str, client_id: str, settings: Settings, group: str = "") -> None:
        """*host*: of the broker. *group*: of a consumer."""
        super().__init__(None, None, client_id, {})
        self.world = world
        self.bugs: list[str] = []
        self.heard_s = self.lost_s = -1e9
        self._host = host
        self._settings = settings
        self._group = group

    @property
    def is_usable(self) -> bool:
        """Whether calls can begin on the connection."""
        return self.client is not None and not self.client.lost and self.client.goaway is None

    async def stay_connected(self, on_command: Callable[[TelemetryCommand], None] = lambda command: None) -> None:
        """Keep a telemetry stream open until cancelled; *on_command* gets what the broker asks."""
        beating = asyncio.ensure_future(self._beat())
        try:
            while True:
                with suppress(LOST):
                    await self._stream(on_command)
                if self.client is not None and self.client.lost:
                    self.lost_s = self.world.clock.monotonic()
                await self.world.clock.sleep(AGAIN_S)
        finally:
            beating.cancel()
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection."""
        if self.client is not None and not self.client.lost:
            self.lost_s = self.world.clock.monotonic()
            self.client.transport.close()

    async def _stream(self, on_command: Callable[[TelemetryCommand], None]) -> None:
        if not self.is_usable:
            self.disconnect()
            async with asyncio.timeout(CALL_S):
                _, self.client = await self.world.network.connect(self._host, 8081, Client)
        async with asyncio.timeout(CALL_S):
            stream, command = await self.telemetry(self._settings)
        if command is not None:
            self.heard_s = self.world.clock.monotonic()
            if not command.HasField("settings"):
                self.bugs.append(f"{self.client_id}: the first answer on a stream is {command}")
        while command is not None:
            command = await stream.next()
            if command is not None:
                on_command(command)
        self._judge("Telemetry", stream.stream)

    async def _beat(self) -> None:
        while True:
            await self.world.clock.sleep(HEARTBEAT_S)
            request = HeartbeatRequest(client_type=self._settings.client_type)
            if self._group:
                request.group.CopyFrom(Resource(name=self._group))
            try:
                (answer,) = await self.ask("Heartbeat", request)
            except Unanswered:
                continue
            if answer.status.code == Code.OK:
                self.heard_s = self.world.clock.monotonic()
            elif answer.status.code != Code.UNRECOGNIZED_CLIENT_TYPE:  # it has restarted, and its settings follow
                self.bugs.append(f"{self.client_id}: a heartbeat was answered with {answer.status}")

    async def ask(
        self, method: str, request: Any, timeout_s: float = CALL_S, reset_s: float | None = None
    ) -> list[Any]:
        """Make a call and return its messages.

        Args:
            method: its name.
            request: its message.
            timeout_s: the deadline.
            reset_s: reset the call after this time.

        Raises:
            Unanswered: there is no complete answer.
        """
        if not self.is_usable:
            raise Unanswered("there is no connection")
        client, stream = self.client, None
        try:
            stream = self.open(method, request, grpc_timeout=f"{int(timeout_s * 1000)}m")
            async with asyncio.timeout(timeout_s if reset_s is None else min(reset_s, timeout_s)):
                await client.ended(stream)
        except LOST as error:
            if stream is not None and isinstance(error, TimeoutError) and not client.lost:
                client.reset(stream)
            raise Unanswered(repr(error)) from None
        self._judge(method, stream)
        if stream.reset is not None or stream.status != OK:
            raise Unanswered(f"{stream.status} {stream.text}")
        return self.messages(method, stream)

    def _judge(self, method: str, stream: Any) -> None:
        if stream.reset is None and stream.status not in (OK, CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE):
            self.bugs.append(f"{self.client_id}: {method} ended with {stream.status}: {stream.text}")
