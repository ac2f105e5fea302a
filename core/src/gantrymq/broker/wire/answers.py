"""Building answers: JSON bodies in fastjson's dialect, and refusals.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gantrymq import loose_json
from gantrymq.errors import FormatError, GantryError, RefusedWith
from gantrymq.loose_json import ObjectKey
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command, response_to


def ok(request: Command, ext: dict[str, str] | None = None, body: bytes | None = None) -> Command:
    """A successful answer."""
    return response_to(request, 0, None, ext, body)


def with_json(request: Command, body: Any, ext: dict[str, str] | None = None) -> Command:
    """A successful answer whose body is *body* as fastjson writes it: members sorted by name, nulls left out."""
    return response_to(request, 0, None, ext, loose_json.dumps(body, sort=True))


def refusal(request: Command, error: GantryError, ext: dict[str, str] | None = None) -> Command:
    """The answer that tells a peer why its request was refused."""
    return response_to(request, error.response_code, str(error), ext)


def body_of(request: Command) -> Any:
    """The request's JSON body.

    Raises:
        RefusedWith: code 1, the body is missing or no JSON.
    """
    name = request_name(request.code)
    if not request.body:
        raise RefusedWith(1, f"{name}: the body is empty, a JSON object was expected")
    try:
        return loose_json.loads(request.body)
    except FormatError as error:
        raise RefusedWith(1, f"{name}: the body is not JSON: {error}") from error


def object_body_of(request: Command) -> dict[str, Any]:
    """The request's JSON body, which must be an object.

    Raises:
        RefusedWith: code 1, the body is missing, no JSON or no object.
    """
    body = body_of(request)
    if not isinstance(body, dict):
        raise RefusedWith(1, f"{request_name(request.code)}: the body is {str(body)[:40]}, a JSON object was expected")
    return body


def objects_in(members: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The list of objects that is the member *name*; empty where it is missing or null.

    Raises:
        RefusedWith: code 1, it is something else.
    """
    found = members.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise RefusedWith(1, f"{name} is {str(found)[:40]}, a list of JSON objects was expected")
    for each in found:
        if not isinstance(each, dict):
            raise RefusedWith(1, f"{name} holds {str(each)[:40]}, where a JSON object was expected")
    return found


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn what a member of the wrong type makes a reader raise into RefusedWith, code 1."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise RefusedWith(1, f"{what}: a member has the wrong type: {error}") from error


def queue_key(queue: MessageQueue) -> ObjectKey:
    """A queue as the key of a table."""
    return ObjectKey({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})
