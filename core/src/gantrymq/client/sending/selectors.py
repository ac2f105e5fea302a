"""Explicit queue selection by the application.

    await producer.send(message, by_key("ann"))                                   # this message
    client.producer("shop", selector=by_key(lambda message: message.keys or ""))  # every message of the producer
    client.producer("shop", selector=Balancing.LEAST_LATENCY)

A selector is a function of the writable queues, sorted by broker and id, and of the message. Its choice is final: the
message is not tried at another queue. With `Balancing` the producer chooses, and retries use other queues.

Source: apache/rocketmq client/.../producer/selector/SelectMessageQueueByHash.java, SelectMessageQueueByRandom.java.
SelectMessageQueueByMachineRoom.java there selects nothing.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from gantrymq.client.message import Message
from gantrymq.client.user_functions import call_function, require_plain
from gantrymq.errors import InvalidParameter
from gantrymq.formats.tags_code import tags_code
from gantrymq.model.queue import MessageQueue


class Selector(Protocol):
    """Selects a queue. A plain function, which must be fast because it runs for each message."""

    def __call__(self, queues: Sequence[MessageQueue], message: Message, /) -> MessageQueue:
        """Return one of *queues*, which is not empty; an exception fails the send."""
        ...


class Balancing(enum.Enum):
    """How the producer distributes messages over queues."""

    ROUND_ROBIN = "round_robin"  # the next queue of the topic
    LEAST_LATENCY = "least_latency"  # the next queue at the broker with the lowest recent latency


Destination = MessageQueue | Selector | Balancing


def by_key(key: str | int | Callable[[Message], str | int]) -> Selector:
    """Return a selector that sends messages with the same *key* to the same queue while the number of queues is
    unchanged.

    The queue is the one that Java's hash selects.

    Args:
        key: of an order, customer, ..., or a function that returns the key of a message. Text is hashed as Java's
            String, a number as its Integer or Long.
    """
    if callable(key):
        of = key
        return lambda queues, message: queues[abs(_hash(of(message))) % len(queues)]
    hashed = abs(_hash(key))
    return lambda queues, _: queues[hashed % len(queues)]


def at_random(chance: random.Random | None = None) -> Selector:
    """Return a selector of random queues, drawn from *chance*."""
    draw = chance or random.Random()
    return lambda queues, _: queues[draw.randrange(len(queues))]


def resolve_destination(
    destination: Destination, queues: Sequence[MessageQueue], message: Message
) -> tuple[MessageQueue | None, Balancing]:
    """Return the queue of *message*, or None and the balancing to use.

    Args:
        destination: queue, selector or balancing.
        queues: of the topic, for a selector.
        message: for a selector.

    Raises:
        InvalidParameter: *destination* is none of these, or a selector did not return a queue.
    """
    if isinstance(destination, Balancing):
        return None, destination
    if isinstance(destination, MessageQueue):
        return destination, Balancing.ROUND_ROBIN
    if not callable(destination):
        raise InvalidParameter(
            f"the queue of a message to {message.topic} is {destination!r}; "
            "expected a MessageQueue, a Balancing or a selector"
        )
    queue = require_plain(call_function(destination, queues, message), f"the selector of a message to {message.topic}")
    if not isinstance(queue, MessageQueue):
        raise InvalidParameter(
            f"the selector of a message to {message.topic} returned {queue!r}; expected one of the queues it was given"
        )
    return queue, Balancing.ROUND_ROBIN


def _hash(key: str | int) -> int:
    if isinstance(key, str):
        return tags_code(key)
    if not isinstance(key, int):
        raise InvalidParameter(f"the key that chooses a queue is {key!r}; expected a text or a number")
    folded = key & 0xFFFFFFFF if -(1 << 31) <= key < 1 << 31 else (key ^ (key >> 32)) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >= 1 << 31 else folded
