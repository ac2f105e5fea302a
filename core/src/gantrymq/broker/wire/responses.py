"""Building responses: JSON bodies in fastjson's dialect, and refusals.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

from typing import Any

from gantrymq import loose_json
from gantrymq.errors import GantryError
from gantrymq.remoting.command import Command, response_to


def ok(request: Command, ext: dict[str, str] | None = None, body: bytes | None = None) -> Command:
    """Return a success response."""
    return response_to(request, 0, None, ext, body)


def with_json(request: Command, body: Any, ext: dict[str, str] | None = None) -> Command:
    """Return a success response with a JSON body like fastjson's: members sorted by name, nulls omitted.

    For short bodies; those that grow with a table are written by `SlicedResponses`.
    """
    return response_to(request, 0, None, ext, loose_json.dumps(body, sort=True))


def refusal(request: Command, error: GantryError, ext: dict[str, str] | None = None) -> Command:
    """Return the error response to a refused request."""
    return response_to(request, error.response_code, str(error), ext)
