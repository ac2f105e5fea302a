"""The service ``grpc.health.v1.Health``, which load balancers ask; it needs no account.

Source: grpc/grpc doc/health-checking.md, grpc/health/v1/health.proto.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from gantrymq_grpc.definitions.tables import ProtobufMessage, field, message
from gantrymq_grpc.transport.call import Call, Handler, ServerStream, Unary
from gantrymq_grpc.transport.status import GrpcError, StatusCode

PACKAGE: Final = "grpc.health.v1"
SERVICE: Final = f"{PACKAGE}.Health"
_MAX_REQUEST_BYTES: Final = 4096


@message
class HealthCheckRequest(ProtobufMessage):
    package = PACKAGE
    service: str = field(1)


@message
class HealthCheckResponse(ProtobufMessage):
    package = PACKAGE

    class ServingStatus(IntEnum):
        UNKNOWN = 0
        SERVING = 1
        NOT_SERVING = 2
        SERVICE_UNKNOWN = 3

    status: ServingStatus = field(1)


SERVING: Final = HealthCheckResponse.ServingStatus.SERVING
NOT_SERVING: Final = HealthCheckResponse.ServingStatus.NOT_SERVING
SERVICE_UNKNOWN: Final = HealthCheckResponse.ServingStatus.SERVICE_UNKNOWN


class Health:
    """States of the services by name; the empty name is the whole server."""

    def __init__(self) -> None:
        """Start with the whole server only, serving."""
        self._states: dict[str, HealthCheckResponse.ServingStatus] = {"": SERVING}
        self._watching: dict[asyncio.Event, None] = {}

    def set(self, services: Iterable[str], state: HealthCheckResponse.ServingStatus) -> None:
        """Set the state of *services*; those who watch are informed."""
        self._states.update(dict.fromkeys(services, state))
        for changed in self._watching:
            changed.set()

    def set_all(self, state: HealthCheckResponse.ServingStatus) -> None:
        """Set the state of all services."""
        self.set(list(self._states), state)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers of the service, by method."""
        return {
            "Check": Unary(self._check, _MAX_REQUEST_BYTES),
            "Watch": ServerStream(self._watch, _MAX_REQUEST_BYTES),
        }

    def _check(self, request: HealthCheckRequest, call: Call) -> HealthCheckResponse:
        state = self._states.get(request.service)
        if state is None:
            raise GrpcError(StatusCode.NOT_FOUND, f"unknown service {request.service}")
        return HealthCheckResponse(status=state)

    async def _watch(self, request: HealthCheckRequest, call: Call) -> None:
        """Send the state of a service now and after each change, until the client ends the call."""
        changed = asyncio.Event()
        self._watching[changed] = None
        try:
            sent = None
            while True:
                changed.clear()
                state = self._states.get(request.service, SERVICE_UNKNOWN)
                if state != sent:
                    await call.send(HealthCheckResponse(status=state))
                    sent = state
                await changed.wait()
        finally:
            del self._watching[changed]
