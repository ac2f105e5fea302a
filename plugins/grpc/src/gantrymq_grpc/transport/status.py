"""Status codes of gRPC, and the error that ends a call with one.

Source: grpc/grpc doc/statuscodes.md, doc/PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import enum

from gantrymq.errors import GantryError


class StatusCode(enum.IntEnum):
    """Status codes of gRPC; a call ends with one."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(GantryError):
    """A call ends with an error of gRPC itself; errors of RocketMQ are statuses within responses."""

    def __init__(self, status: StatusCode, text: str) -> None:
        """*text* is sent to the client."""
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return f"{self.status.name}: {self.text}"
