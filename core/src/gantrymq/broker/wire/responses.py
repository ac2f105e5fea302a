"""Building responses: JSON bodies in fastjson's dialect, and refusals.

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (processRequestCommand).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from gantrymq import loose_json
from gantrymq.errors import GantryError
from gantrymq.loose_json import ObjectKey
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.command import Command, response_to
from gantrymq.world import Workers


def ok(request: Command, ext: dict[str, str] | None = None, body: bytes | None = None) -> Command:
    """Return a success response."""
    return response_to(request, 0, None, ext, body)


def with_json(request: Command, body: Any, ext: dict[str, str] | None = None) -> Command:
    """Return a success response with a JSON body like fastjson's: members sorted by name, nulls omitted."""
    return response_to(request, 0, None, ext, loose_json.dumps(body, sort=True))


async def with_table(request: Command, body: Any, workers: Workers) -> Command:
    """Return a response like `with_json`, encoding the body in a worker: it may have many queues, at 20 us each."""
    return response_to(request, 0, None, None, await workers.run(partial(loose_json.dumps, body, sort=True)))


def refusal(request: Command, error: GantryError, ext: dict[str, str] | None = None) -> Command:
    """Return the error response to a refused request."""
    return response_to(request, error.response_code, str(error), ext)


def queue_key(queue: MessageQueue) -> ObjectKey:
    """Return a queue as the key of a JSON table."""
    return ObjectKey({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})
