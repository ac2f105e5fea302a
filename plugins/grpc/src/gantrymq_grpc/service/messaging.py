"""The service ``apache.rocketmq.v2.MessagingService`` of one broker.

Every request passes the same steps: its sender is identified, may make it, and has a client id; then its handler
serves it. A refusal is a status in the answer; gRPC's own errors are left to telemetry streams and unknown methods.
Methods that no SDK uses are not registered, so they are UNIMPLEMENTED, as in RocketMQ's proxy.

Source: apache/rocketmq proxy/.../grpc/v2/GrpcMessagingApplication.java.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Final

from gantrymq.errors import ConnectionLost, GantryError
from gantrymq.plugin.world import Clock
from gantrymq_grpc.conversion.codes import code_of, status_of
from gantrymq_grpc.conversion.times import set_ms
from gantrymq_grpc.definitions import (
    METHODS,
    Code,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
    TelemetryCommand,
)
from gantrymq_grpc.service.access import RequestAccess
from gantrymq_grpc.service.caller import Caller, caller_of
from gantrymq_grpc.transport.call import BidiStream, Call, Handler, ServerStream, Unary
from gantrymq_grpc.transport.limits import MIB
from gantrymq_grpc.transport.status import GrpcError

log = logging.getLogger("gantrymq.grpc")

_FAULT: Final = "the server failed to serve this request because of an internal error; its log has the details"

_MOST_BYTES: Final = 128 * 1024  # of a request; routes, names, filters and the like are short
_MORE_BYTES: Final[Mapping[str, int | None]] = {
    "SendMessage": None,  # the limit of the server
    "AckMessage": 4 * MIB,  # of 1,024 messages; a receipt handle that is too long is refused as one
    "ChangeInvisibleDuration": 4 * MIB,
    "ForwardMessageToDeadLetterQueue": 4 * MIB,
    "SyncLiteSubscription": 4 * MIB,  # thousands of lite topics; a group has no bound by default of its SDKs
    "Telemetry": 4 * MIB,  # stack traces of all threads
}

UnaryRequest = Callable[[Any, Caller], Any]
"""Returns the response, or an awaitable of it."""


class MessagingService:
    """The methods of the service.

    Attributes:
        served: number of requests by method and code of the answer.
    """

    def __init__(
        self,
        clock: Clock,
        access: RequestAccess,
        unary: Mapping[str, UnaryRequest],
        receive: Callable[[Any, Caller], Awaitable[Code]],
        telemetry: Callable[[Call, Caller], Awaitable[None]],
    ) -> None:
        """*unary*, *receive* and *telemetry* serve the requests; they raise GantryError to refuse one."""
        self.served: Counter[tuple[str, Code]] = Counter()
        self._clock = clock
        self._access = access
        self._receive = receive
        self._telemetry = telemetry
        self.handlers: dict[str, Handler] = {
            **{method: Unary(self._unary(method, serve), _most_bytes(method)) for method, serve in unary.items()},
            "ReceiveMessage": ServerStream(self._serve_receive, _most_bytes("ReceiveMessage")),
            "Telemetry": BidiStream(self._serve_telemetry, _most_bytes("Telemetry")),
        }

    def _unary(self, method: str, serve: UnaryRequest) -> Callable[[Any, Call], Awaitable[Any]]:
        name = str(METHODS[method].request.DESCRIPTOR.full_name)
        respond: Any = METHODS[method].response

        async def answer(request: Any, call: Call) -> Any:
            try:
                principal = self._access.identify(call, name)
                known = await principal if isawaitable(principal) else principal
                self._access.check(method, request, known)
                begun = serve(request, caller_of(call, known))
                found = await begun if isawaitable(begun) else begun
            except Exception as error:
                return respond(status=self._refusal(method, error))
            self.served[method, Code(found.status.code)] += 1
            return found

        return answer

    async def _serve_receive(self, request: Any, call: Call) -> None:
        """Serve a receive: refusals of its handler end with the time, like its answers, those of access do not."""
        try:
            principal = self._access.identify(call, ReceiveMessageRequest.DESCRIPTOR.full_name)
            known = await principal if isawaitable(principal) else principal
            self._access.check("ReceiveMessage", request, known)
        except Exception as error:
            await call.send(ReceiveMessageResponse(status=self._refusal("ReceiveMessage", error)))
            return
        try:
            self.served["ReceiveMessage", await self._receive(request, caller_of(call, known))] += 1
        except ConnectionLost:
            raise
        except Exception as error:
            await call.send(ReceiveMessageResponse(status=self._refusal("ReceiveMessage", error)))
        await call.send(self._receive_end())

    def _receive_end(self) -> ReceiveMessageResponse:
        """Return the last message of a receive."""
        response = ReceiveMessageResponse()
        set_ms(response.delivery_timestamp, self._clock.now_ms())
        return response

    async def _serve_telemetry(self, call: Call) -> None:
        """Serve a stream; a refusal of access, or of a missing client id, is a command with that status."""
        try:
            principal = self._access.identify(call, TelemetryCommand.DESCRIPTOR.full_name)
            known = await principal if isawaitable(principal) else principal
            await self._telemetry(call, caller_of(call, known))
        except (ConnectionLost, GrpcError):
            raise
        except GantryError as error:
            await call.send(TelemetryCommand(status=self._refusal("Telemetry", error)))
        else:
            self.served["Telemetry", Code.OK] += 1

    def _refusal(self, method: str, error: Exception) -> Status:
        if isinstance(error, GantryError):
            code = code_of(error)
            status = status_of(error)
        else:
            log.error("%s failed", method, exc_info=error)
            code, status = Code.INTERNAL_SERVER_ERROR, Status(code=Code.INTERNAL_SERVER_ERROR, message=_FAULT)
        self.served[method, code] += 1
        return status


def _most_bytes(method: str) -> int | None:
    """Return the limit of the requests of a method; None for that of the server."""
    return _MORE_BYTES.get(method, _MOST_BYTES)
