"""JSON bodies of requests: size limits and the errors for malformed bodies.

A body is parsed in one step of the event loop, so its size and the number of its objects and lists are limited. A body
that is not strict JSON is parsed by the slower tolerant reader and has a smaller limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from gantrymq import loose_json, strict_json
from gantrymq.errors import FormatError, RequestRefused
from gantrymq.model.json_members import quote_value
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command
from gantrymq.settings_file import parse_properties

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_PARTS: Final = 65_536  # objects and lists of a body
MAX_PROPERTIES_BYTES: Final = 64 * 1024  # of a body with settings; all known settings take a third of it
MAX_LOOSE_BYTES: Final = 32 * 1024  # of a body that is not strict JSON; the tolerant reader takes about 1 us per byte


def body_of(request: Command) -> Any:
    """Return the request's JSON body.

    Raises:
        RequestRefused: code 1, the body is missing, too large or not JSON.
    """
    name, body = request_name(request.code), request.payload
    if not body:
        raise RequestRefused(1, f"{name}: the body is empty, a JSON object was expected")
    if len(body) > MAX_BODY_BYTES:
        raise RequestRefused(1, f"{name}: the body has {len(body)} bytes, the longest allowed has {MAX_BODY_BYTES}")
    if len(body) > MAX_PARTS and (parts := body.count(b"{") + body.count(b"[")) > MAX_PARTS:
        raise RequestRefused(1, f"{name}: the body has {parts} objects and lists, at most {MAX_PARTS} are allowed")
    try:
        if len(body) <= MAX_LOOSE_BYTES:
            return loose_json.loads(body)
        return strict_json.loads(body)
    except (FormatError, ValueError) as error:
        why = error if isinstance(error, FormatError) else f"one of more than {MAX_LOOSE_BYTES} bytes must be strict"
        raise RequestRefused(1, f"{name}: the body is not JSON: {why}") from error


def object_body_of(request: Command) -> dict[str, Any]:
    """Return the request's JSON body, which must be an object.

    Raises:
        RequestRefused: code 1, the body is missing, too large, not JSON or not an object.
    """
    body = body_of(request)
    if not isinstance(body, dict):
        raise RequestRefused(
            1, f"{request_name(request.code)}: the body is {quote_value(body)}, a JSON object was expected"
        )
    return body


def properties_of(request: Command) -> dict[str, str]:
    """Return the settings in the request's body, which has the format of ``broker.conf``.

    Raises:
        RequestRefused: code 1, the body is too long or not UTF-8.
        ConfigError: it has a malformed escape.
    """
    name, body = request_name(request.code), request.payload
    if len(body) > MAX_PROPERTIES_BYTES:
        raise RequestRefused(
            1, f"{name}: the body has {len(body)} bytes, the longest allowed has {MAX_PROPERTIES_BYTES}"
        )
    try:
        return {line.key: line.value for line in parse_properties(body.decode(), name)}
    except UnicodeDecodeError as error:
        raise RequestRefused(1, f"{name}: the properties text is not UTF-8 at byte {error.start}") from error


@contextmanager
def members_of(what: str) -> Iterator[None]:
    """Turn FormatError inside the block into RequestRefused (code 1) whose message names *what*."""
    try:
        yield
    except FormatError as error:
        raise RequestRefused(1, f"{what}: {error}") from error
