"""Telemetry streams, heartbeats and the end of clients.

Each settings message of a client is answered on its stream with the merged settings, before anything else: SDKs wait
for them at their start. They are sent again after routes that the client asks for soon afterwards: Node's SDK 1.0.8
counts only settings that arrive after the last route of its start, and would wait for minutes. Everything that is sent
on a stream goes through its `Stream`, so there is one writer.

Source: apache/rocketmq proxy/.../grpc/v2/client/ClientActivity.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import GroupConfig
from gantrymq_grpc.conversion.codes import code_of, ok
from gantrymq_grpc.conversion.names import group_of
from gantrymq_grpc.conversion.settings import Defaults, merged
from gantrymq_grpc.definitions import (
    Code,
    HeartbeatRequest,
    HeartbeatResponse,
    NotifyClientTerminationRequest,
    NotifyClientTerminationResponse,
    Settings,
    SyncLiteSubscriptionRequest,
    SyncLiteSubscriptionResponse,
    TelemetryCommand,
)
from gantrymq_grpc.service.access import RequestAccess
from gantrymq_grpc.service.caller import Caller
from gantrymq_grpc.service.client import GrpcClient
from gantrymq_grpc.service.clients import GrpcClients
from gantrymq_grpc.service.lite import Lite
from gantrymq_grpc.service.streams import Stream
from gantrymq_grpc.transport.call import Call
from gantrymq_grpc.transport.status import GrpcError, StatusCode

_STARTING_S: Final = 5.0  # from one settings command to the next route, or a client is not starting any more
_PAUSE_S: Final = 0.5  # after its last route, which it has to take up first
_FAILED: Final = "process client telemetryCommand failed. "
_BAD_REQUESTS: Final = range(Code.BAD_REQUEST, Code.INTERNAL_ERROR)


class ClientRequests:
    """Handlers of what clients say about themselves."""

    def __init__(
        self, broker: Broker, clients: GrpcClients, access: RequestAccess, lite: Lite, defaults: Callable[[], Defaults]
    ) -> None:
        """*defaults* returns the values for clients that are in force now."""
        self._broker = broker
        self._clients = clients
        self._access = access
        self._lite = lite
        self._defaults = defaults
        # One client joins in an iteration of the event loop: each takes longer the more members its group has.
        self._settling = asyncio.Lock()

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> HeartbeatResponse:
        """Keep a client alive."""
        client = self._clients.get(caller)
        if client is not None and client.heartbeat.consumers:
            group_of(request.group)
        self._clients.heartbeat(caller)
        return HeartbeatResponse(status=ok())

    async def sync_lite(self, request: SyncLiteSubscriptionRequest, caller: Caller) -> SyncLiteSubscriptionResponse:
        """Change the lite topics that a client is subscribed to."""
        return await self._lite.sync(request, caller, self._clients.get(caller))

    def terminate(self, request: NotifyClientTerminationRequest, caller: Caller) -> NotifyClientTerminationResponse:
        """End a client."""
        self._clients.remove(caller)
        return NotifyClientTerminationResponse(status=ok())

    def asked_for_route(self, caller: Caller) -> None:
        """Send a client that is starting its settings again soon."""
        client, clock = self._clients.with_id(caller.client_id), self._broker.world.clock
        if client is None or clock.monotonic() - client.settled_s > _STARTING_S:
            return
        if client.sending_again is not None:
            client.sending_again.cancel()
        client.sending_again = clock.call_later(_PAUSE_S, self._send_again, client)

    async def telemetry(self, call: Call, caller: Caller) -> None:
        """Serve a stream until the client ends its half.

        Raises:
            GrpcError: the client's settings are refused.
        """
        stream = Stream(call)
        client: GrpcClient | None = None
        writer = asyncio.ensure_future(stream.write())
        try:
            while (command := await call.receive()) is not None:
                match command.WhichOneof("command"):
                    case "settings":
                        async with self._settling:
                            client = self._settings(caller, command.settings, stream)
                            await asyncio.sleep(0)
                    case "thread_stack_trace" if client is not None:
                        client.answered(command, command.thread_stack_trace.nonce)
                    case "verify_message_result" if client is not None:
                        client.answered(command, command.verify_message_result.nonce)
                await asyncio.sleep(0)  # a client may have sent thousands
            await stream.drained()
        finally:
            writer.cancel()
            if client is not None:
                client.forget(stream)

    def _settings(self, caller: Caller, settings: Settings, stream: Stream) -> GrpcClient:
        kind = settings.WhichOneof("pub_sub")
        if kind is None:
            raise GrpcError(StatusCode.INVALID_ARGUMENT, "there is no publishing or subscription data in settings")
        # Before the heartbeat, which may create the group.
        group = self._broker.groups.get(settings.subscription.group.name) if kind == "subscription" else None
        try:
            self._access.check_settings(settings, caller.principal)
            if kind == "subscription":
                self._lite.check_settings(settings)
            client = self._clients.apply(caller, settings)
        except GantryError as error:
            if code_of(error) == Code.UNAUTHORIZED:
                raise
            raise _failed(error) from None
        client.use(stream)
        self._send_settings(client, group)
        return client

    def _send_settings(self, client: GrpcClient, group: GroupConfig | None) -> None:
        client.settled_s = self._broker.world.clock.monotonic()
        settings = merged(client.settings, group, self._defaults(), self._lite.group(client.settings))
        client.post(TelemetryCommand(status=ok(), settings=settings))

    def _send_again(self, client: GrpcClient) -> None:
        self._send_settings(client, self._broker.groups.get(client.settings.subscription.group.name))


def _failed(error: GantryError) -> GrpcError:
    """Return the end of a stream whose settings are refused."""
    code = code_of(error)
    bad = code in _BAD_REQUESTS and code != Code.UNRECOGNIZED_CLIENT_TYPE
    return GrpcError(StatusCode.INVALID_ARGUMENT if bad else StatusCode.INTERNAL, f"{_FAILED}{error}")
