"""Queues of a topic: which one gets the messages of a message group, and how routes list them.

Source: apache/rocketmq proxy/.../grpc/v2/producer/SendMessageActivity.java (SendMessageQueueSelector),
route/RouteActivity.java (genMessageQueueFromQueueData); com.google.common.hash.Hashing (consistentHash).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from gantrymq.plugin.model import PERM_READ, PERM_WRITE, string_hash
from gantrymq_grpc.definitions import Permission

_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = 2**64 - 1
_CACHED: Final = 4096  # message groups


@lru_cache(_CACHED)
def queue_of_group(message_group: str, queues: int) -> int:
    """Return the queue of a message group among *queues*, at least 1: a jump hash, as all of RocketMQ's proxies use."""
    state = string_hash(message_group) & _MASK
    candidate = 0
    while True:
        state = (_MULTIPLIER * state + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / 2**31))
        if not 0 <= following < queues:
            return candidate
        candidate = following


def permissions(read_queues: int, write_queues: int, perm: int) -> Iterator[Permission]:
    """Iterate over the permissions of a topic's queues on one broker, in the order of routes."""
    readable, writable = bool(perm & PERM_READ), bool(perm & PERM_WRITE)
    if not readable and not writable:
        yield from [Permission.NONE] * max(1, read_queues, write_queues)
        return
    read, write = read_queues * readable, write_queues * writable
    both = min(read, write)
    yield from [Permission.READ] * (read - both)
    yield from [Permission.WRITE] * (write - both)
    yield from [Permission.READ_WRITE] * both


def permission_of(perm: int) -> Permission:
    """Return the permission of a topic."""
    readable, writable = bool(perm & PERM_READ), bool(perm & PERM_WRITE)
    if readable and writable:
        return Permission.READ_WRITE
    return Permission.READ if readable else Permission.WRITE if writable else Permission.NONE
