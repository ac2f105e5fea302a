"""Shared parts of request handlers: their type, and the JSON dialect of bodies.

Source: apache/rocketmq namesrv/.../processor/ClientRequestProcessor.java (which clients read standard JSON).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gantrymq.errors import RequestError, RequestRefused
from gantrymq.plugin.network import DEFAULT_LISTENER
from gantrymq.plugin.remoting import VERSION_4_9_4, Command, body_of

Answer = Command | Awaitable[Command]
Handler = Callable[[Command, object], Answer]
"""Handles a request and its connection. A raised GantryError becomes the response's code and remark."""


def listener_of(connection: object) -> str:
    """Return the name of the listener that accepted *connection*."""
    return str(getattr(connection, "listener", DEFAULT_LISTENER))


def wants_standard_json(request: Command, accepts_only_standard: bool | None) -> bool:
    """Return whether a route must be strict JSON: newer clients expect it, others request it in the header."""
    return request.version >= VERSION_4_9_4 or bool(accepts_only_standard)


def read_object(request: Command, what: str) -> dict[str, Any]:
    """Return the JSON object in the body of *request*.

    Raises:
        RequestError: the body is not an object; *what* names the expected content.
    """
    try:
        members = body_of(request)
    except RequestRefused as error:
        raise RequestError(f"the body is no {what}: {error}") from error
    if not isinstance(members, dict):
        raise RequestError(f"the body is no {what}: expected a JSON object, got {request.payload[:40]!r}")
    return members
