"""What a broker knows of consumers: what clients say of themselves, and how a group reads a queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.interfaces.connection import Connection
from gantrymq.model.subscription import Subscription

__all__ = ["ConsumerHeartbeat", "Heartbeat", "LastPull", "QueueReading"]


class ConsumerHeartbeat(NamedTuple):
    """What a client says of one consumer group it is in."""

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    unit_mode: bool
    subscriptions: Sequence[Subscription] | None  # None leaves those that are known


class Heartbeat(NamedTuple):
    """What a client says of itself."""

    client_id: str
    language: str  # as RocketMQ names it
    version: int  # of its protocol
    producers: Sequence[str]  # groups
    consumers: Sequence[ConsumerHeartbeat]
    fingerprint: int = 0  # of its subscriptions; 0 from clients that know no version 2


class LastPull:
    """How far a group pulled one queue since the broker's start."""

    __slots__ = ("at", "by", "checked", "matched", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1  # -1: never
        self.at = 0.0  # monotonic s
        self.by: tuple[str, int] | None = None  # the peer, where it came over a connection
        self.checked = self.matched = 0  # messages that filters looked at; those for every message are not counted


class QueueReading(NamedTuple):
    """How a group reads one queue."""

    last: LastPull  # to be read only
    held: Sequence[Connection | None]  # whose pulls wait for a message
    reset: int | None  # queue offset that the next pull is told to go on at
    locked_by: str | None  # client id
    allowed: bool  # nobody forbade the group to read the topic
