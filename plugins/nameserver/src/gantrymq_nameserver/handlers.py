"""What the handlers of requests share: their type, and bodies in the requester's JSON.

Source: apache/rocketmq namesrv/.../processor/ClientRequestProcessor.java (which requester reads standard JSON).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gantrymq.errors import RequestError, RequestRefused
from gantrymq.remoting.bodies import body_of
from gantrymq.remoting.codes import VERSION_4_9_4
from gantrymq.remoting.command import Command

Answer = Command | Awaitable[Command]
Handler = Callable[[Command, object], Answer]
"""Takes a request and the connection it came on. Raises GantryError, whose code and text become the answer."""


def wants_standard_json(request: Command, accepts_only_standard: bool | None) -> bool:
    """Whether a route must be strict JSON: newer clients expect it, others say so in the header."""
    return request.version >= VERSION_4_9_4 or bool(accepts_only_standard)


def read_object(request: Command, what: str) -> dict[str, Any]:
    """Return the JSON object in the body of *request*.

    Raises:
        RequestError: there is something else; *what* names what was expected.
    """
    try:
        members = body_of(request)
    except RequestRefused as error:
        raise RequestError(f"the body is no {what}: {error}") from error
    if not isinstance(members, dict):
        raise RequestError(f"the body is no {what}: expected a JSON object, got {request.payload[:40]!r}")
    return members
