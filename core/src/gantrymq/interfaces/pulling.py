"""A pull as an operation: what is asked and what is answered, whatever protocol brought it; what is kept of pulls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.interfaces.connection import Connection

__all__ = ["LastPull", "PullAnswer", "PullRequest", "QueueStatus"]


class PullRequest(NamedTuple):
    """A pull as a consumer asks for it."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_count: int = 32
    sys_flag: int = 4  # 1: commit, 2: wait for messages, 4: the subscription is here, see model.pull_flag
    commit_offset: int = 0
    suspend_ms: int = 0  # how long to wait, with 2
    expression: str | None = None  # with 4; None means all
    version: int = 0  # of the subscription, without 4
    expression_type: str | None = None  # None means TAG
    lite: bool = False


class PullAnswer(NamedTuple):
    """What a pull is told."""

    code: int  # 0 found, 19 nothing yet, 20 nothing that matches up to next_offset, 21 read on at next_offset
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: Sequence[bytes | memoryview]  # records, one behind the other
    size: int  # bytes in all buffers
    messages: int  # how many
    topic_sys_flag: int
    group_sys_flag: int


class LastPull:
    """How far a group pulled one queue since the broker's start."""

    __slots__ = ("at", "by", "checked", "matched", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1  # -1: never
        self.at = 0.0  # monotonic s
        self.by: tuple[str, int] | None = None  # the peer, where it came over a connection
        self.checked = self.matched = 0  # messages that filters looked at; those for every message are not counted


class QueueStatus(NamedTuple):
    """How a group reads one queue."""

    last: LastPull  # to be read only
    held: Sequence[Connection | None]  # whose pulls wait for a message
    reset: int | None  # queue offset that the next pull is told to go on at
    locked_by: str | None  # client id
    allowed: bool  # nobody forbade the group to read the topic
