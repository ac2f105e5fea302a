"""Which of a topic's queues a message goes to, for who says so: ``await producer.send(message, by_key("ann"))``.

A selector is a function of the queues that can be written, sorted by broker and id. Messages that are chosen a queue
for are tried at no other one.

Source: apache/rocketmq client/.../producer/selector/SelectMessageQueueByHash.java, SelectMessageQueueByRandom.java.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from gantrymq.formats.tags_code import tags_code
from gantrymq.model.queue import MessageQueue

__all__ = ["Selector", "at_random", "by_key"]

Selector = Callable[[Sequence[MessageQueue]], MessageQueue]


def by_key(key: str | int) -> Selector:
    """Messages of one *key* go to one queue while the number of queues stays; to the one that Java's hash gives.

    Args:
        key: of order, customer, ...; a text is hashed as Java's String, a number as its Integer or Long.
    """
    hashed = tags_code(key) if isinstance(key, str) else _hash_of_number(key)
    return lambda queues: queues[abs(hashed) % len(queues)]


def at_random(chance: random.Random | None = None) -> Selector:
    """Any queue, drawn from *chance*."""
    draw = chance or random.Random()
    return lambda queues: queues[draw.randrange(len(queues))]


def _hash_of_number(number: int) -> int:
    folded = number & 0xFFFFFFFF if -(1 << 31) <= number < 1 << 31 else (number ^ (number >> 32)) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >= 1 << 31 else folded
