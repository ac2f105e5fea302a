"""Pull requests and responses, independent of the wire protocol, and the state that is kept of pulls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gantrymq.model.access import Principal

__all__ = ["LastPull", "PullAnswer", "PullRequest"]


class PullRequest(NamedTuple):
    """A pull request of a consumer."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_count: int = 32
    sys_flag: int = 4  # 1: commit, 2: wait for messages, 4: has the subscription, see model.sys_flag
    commit_offset: int = 0
    suspend_ms: int = 0  # maximum wait, with flag 2
    expression: str | None = None  # with flag 4; None means all
    version: int = 0  # of the subscription, without flag 4
    expression_type: str | None = None  # None means TAG
    lite: bool = False
    principal: Principal | None = None  # the consumer; None: the broker itself, not checked


class PullAnswer(NamedTuple):
    """The response to a pull."""

    code: int  # 0 found, 19 no message yet, 20 no match before next_offset, 21 continue at next_offset
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: Sequence[bytes | memoryview]  # consecutive records
    size: int  # total bytes
    messages: int  # number of messages
    topic_sys_flag: int
    group_sys_flag: int
    suggested_broker_id: int = 0  # the broker that the client should pull this queue from next; 0: the master


class LastPull:
    """Progress of a group's pulls of one queue since the broker's start."""

    __slots__ = ("at", "by", "checked", "matched", "moved_at", "next_offset")

    def __init__(self) -> None:
        self.next_offset = -1  # -1: never pulled
        self.at = 0.0  # monotonic s
        # When the committed offset last changed (before any pull, for the second time); or when the client, or one
        # silent for a minute, began; monotonic s, 0: never.
        self.moved_at = 0.0
        self.by: tuple[str, int] | None = None  # the peer if the pull came over a connection
        self.checked = self.matched = 0  # messages checked by filters; filters that accept all are not counted
