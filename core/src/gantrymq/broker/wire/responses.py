"""Building answers: JSON bodies in fastjson's dialect, and refusals.

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
    """A successful answer."""
    return response_to(request, 0, None, ext, body)


def with_json(request: Command, body: Any, ext: dict[str, str] | None = None) -> Command:
    """A successful answer whose body is *body* as fastjson writes it: members sorted by name, nulls left out."""
    return response_to(request, 0, None, ext, loose_json.dumps(body, sort=True))


async def with_table(request: Command, body: Any, workers: Workers) -> Command:
    """`with_json` for a body that grows with a topic's queues: a worker writes it, 20 us a queue."""
    return response_to(request, 0, None, None, await workers.run(partial(loose_json.dumps, body, sort=True)))


def refusal(request: Command, error: GantryError, ext: dict[str, str] | None = None) -> Command:
    """The answer that tells a peer why its request was refused."""
    return response_to(request, error.response_code, str(error), ext)


def queue_key(queue: MessageQueue) -> ObjectKey:
    """A queue as the key of a table."""
    return ObjectKey({"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic})
